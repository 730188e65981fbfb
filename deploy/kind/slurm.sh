#!/usr/bin/env bash
# Slurm in one container: slurmctld, slurmd and slurmrestd, until one of them ends. It has secrets of
# its own, made at the first start. The host's name has to be `slurm`.
set -euo pipefail

ETC=/etc/slurm

# secret NAME BYTES: for slurmctld and the hooks, which run as SlurmUser.
secret() {
  [ ! -e "$ETC/$1" ] || return 0
  head -c "$2" /dev/urandom > "$ETC/$1.new"
  chown slurm:slurm "$ETC/$1.new"
  mv "$ETC/$1.new" "$ETC/$1"
}

# In a shell of its own, for its umask.
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

# The nodes that have a slurmd here.
served() {
  sed -n 's/^NodeName=\([^ ]*\) NodeHostname=.*/\1/p' "$ETC/slurm.conf"
}

# until_it COMMAND...: waits until it succeeds, for a minute, or until the last daemon has ended.
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
  # Without slurmdbd, 24.11 dies of the other plugin at its start.
  if slurmrestd -V | grep -q ' 24\.11\.'; then plugins=(-s openapi/slurmctld); fi
  # It refuses to run as root or as SlurmUser.
  SLURM_JWT=daemon exec setpriv --reuid=nobody --regid=nogroup --clear-groups \
    slurmrestd -a rest_auth/jwt "${plugins[@]}" 0.0.0.0:6820
}

# slurmctld writes its state at its end.
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
  # One by one: all bind the same socket, and two at once are one too many.
  until_it registered "$node"
done
rest &
wait -n
