# Shared by the other scripts of this folder, which source this file.
# shellcheck shell=bash disable=SC2034  # what is set here is used there
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

# cluster.yaml and slurm-*.conf contain this name too.
CLUSTER=slurm-pods
SLURM=$CLUSTER-slurm
# The name of the Helm release and of its namespace.
NAME=slurm-pod-scheduler
VERSION=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' scheduler/__init__.py)
# A kubeconfig of its own, so that the user's stays unchanged.
export KUBECONFIG=$PWD/build/kind/kubeconfig

say() {
  printf '== %s\n' "$*"
}

# need PROGRAM...: ends the script if a program is missing or Docker's daemon does not run.
need() {
  local program
  for program; do
    command -v "$program" > /dev/null || { echo "$program is missing (docs/kind.md)" >&2; exit 1; }
  done
  docker info > /dev/null 2>&1 || { echo "docker does not answer: is its daemon up?" >&2; exit 1; }
}

need_cluster() {
  [ -e "$KUBECONFIG" ] || { echo "there is no cluster: deploy/kind/up.sh makes one" >&2; exit 1; }
}

# until_it SECONDS COMMAND...: repeats the command until it succeeds. After SECONDS it prints the
# command and fails.
until_it() {
  local until=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    if [ "$SECONDS" -ge "$until" ]; then echo "not in time: $*" >&2; return 1; fi
    sleep 1
  done
}

in_slurm() {
  docker exec "$SLURM" "$@"
}

has_cluster() {
  kind get clusters 2> /dev/null | grep -qx "$CLUSTER"
}
