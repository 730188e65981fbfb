#!/usr/bin/env bash
# Runs slurmctld, slurmd and slurmrestd in one container, until one of them ends. Makes Slurm's
# secrets at the first start. The container's host name must be `slurm`.
set -euo pipefail

ETC=/etc/slurm

# secret NAME BYTES: makes a file of random bytes for slurmctld and the hooks, both of SlurmUser.
secret() {
  [ ! -e "$ETC/$1" ] || return 0
  head -c "$2" /dev/urandom > "$ETC/$1.new"
  chown slurm:slurm "$ETC/$1.new"
  mv "$ETC/$1.new" "$ETC/$1"
}

# Runs in a subshell, because it sets a umask.
settings() (
  umask 077
  secret slurm.key 1024
  secret jwt_hs256.key 32
  [ -e "$ETC/hooks.token" ] || head -c 24 /dev/urandom | base64 > "$ETC/hooks.token"
  echo "CgroupPlugin=disabled" > "$ETC/cgroup.conf"
  printf '%s\n' "URL=${HOOKS_URL:-}" "TOKEN_FILE=$ETC/hooks.token" \
    > "$ETC/slurm-pod-scheduler-hooks.conf"
  chown slurm:slurm "$ETC/hooks.token"
  chmod 644 "$ETC/cgroup.conf" "$ETC/slurm-pod-scheduler-hooks.conf"
)

# Prints the nodes that have a slurmd in this container.
served() {
  sed -n 's/^NodeName=\([^ ]*\) NodeHostname=.*/\1/p' "$ETC/slurm.conf"
}

# until_it COMMAND...: repeats the command until it succeeds. Fails after a minute, or if the daemon
# that was started last has ended.
until_it() {
  local tries=120
  until "$@" > /dev/null 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ] || ! kill -0 $!; then echo "slurm.sh: never succeeded: $*" >&2; return 1; fi
    sleep 0.5
  done
}

responds() {
  scontrol ping | grep -q "is UP"
}

registered() {
  scontrol --oneliner show node "$1" | grep -q "Version="
}

rest() {
  local plugins=()
  # Without slurmdbd, slurmrestd 24.11 crashes at its start if it loads the other plugin.
  if slurmrestd -V | grep -q ' 24\.11\.'; then plugins=(-s openapi/slurmctld); fi
  # slurmrestd refuses to run as root or as SlurmUser.
  SLURM_JWT=daemon exec setpriv --reuid=nobody --regid=nogroup --clear-groups \
    slurmrestd -a rest_auth/jwt "${plugins[@]}" 0.0.0.0:6820
}

# Waits for the daemons, because slurmctld writes its state when it ends.
finish() {
  trap - EXIT
  # shellcheck disable=SC2046
  kill $(jobs -p) 2> /dev/null || true
  wait
}

trap finish EXIT
trap 'exit 0' INT TERM
settings
slurmctld -D &
until_it responds
for node in $(served); do
  slurmd -D -N "$node" &
  # One after the other, because all bind the same socket, and two at once conflict.
  until_it registered "$node"
done
rest &
wait -n
