#!/usr/bin/env bash
# Runs the stories of tests/stories that need no cluster of their own on the cluster of up.sh, with
# a scheduler of this checkout. The installed scheduler is scaled to 0 meanwhile. PYTHON is a Python
# with the project's development dependencies. Arguments are passed to pytest.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

PYTHON=${PYTHON:-.venv/bin/python}
FOLDER=$PWD/build/kind
HOOKS=/etc/slurm/slurm-pod-scheduler-hooks.conf

# move FROM TO: renames the hooks' settings in Slurm's container. Without them the hooks do nothing.
move() {
  in_slurm bash -c "[ ! -e $1 ] || mv $1 $2"
}

rest() {
  kubectl scale "deployment/$NAME" --namespace "$NAME" --replicas 0
  kubectl wait pods --namespace "$NAME" --selector "app.kubernetes.io/name=$NAME" --for delete \
    --timeout 60s
  move "$HOOKS" "$HOOKS.off"
}

wake() {
  move "$HOOKS.off" "$HOOKS"
  kubectl scale "deployment/$NAME" --namespace "$NAME" --replicas 1
}

# of_cluster FIELD: prints a field of the cluster in the kubeconfig.
of_cluster() {
  kubectl config view --raw --output "jsonpath={.clusters[0].cluster.$1}"
}

# Makes administrators' tokens for both servers, and a file with their paths.
describe() {
  local version
  umask 077
  kubectl create serviceaccount stories --namespace kube-system --dry-run=client --output yaml |
    kubectl apply --filename -
  kubectl create clusterrolebinding stories --clusterrole cluster-admin \
    --serviceaccount kube-system:stories --dry-run=client --output yaml | kubectl apply --filename -
  kubectl create token stories --namespace kube-system --duration 8h > "$FOLDER/kube-token"
  of_cluster certificate-authority-data | base64 -d > "$FOLDER/ca.crt"
  in_slurm scontrol token username=slurm lifespan=28800 | sed s/^SLURM_JWT=// > "$FOLDER/slurm-token"
  version=$(in_slurm slurmctld -V)
  version=${version##* }
  cat > "$FOLDER/cluster.json" << END
{
  "release": "${version%.*}",
  "kubeconfig": "$KUBECONFIG",
  "kube_url": "$(of_cluster server)",
  "kube_token_file": "$FOLDER/kube-token",
  "kube_ca": "$FOLDER/ca.crt",
  "slurm_url": "http://$(docker port "$SLURM" 6820)",
  "slurm_token_file": "$FOLDER/slurm-token",
  "nodes": ["$CLUSTER-worker", "$CLUSTER-worker2"],
  "cpus_per_node": 2,
  "partition": "main",
  "high_partition": "high",
  "grace_partition": "grace",
  "container": {
    "image": "$NAME:$VERSION",
    "imagePullPolicy": "Never",
    "command": ["python3", "-c", "import time; time.sleep(3600)"]
  }
}
END
}

need docker kubectl
need_cluster
if ! command -v "$PYTHON" > /dev/null; then
  echo "$PYTHON is missing: make venv, or name one in PYTHON" >&2
  exit 1
fi
describe
trap wake EXIT
rest
"$PYTHON" -m pytest tests/stories --cluster "$FOLDER/cluster.json" "$@"
