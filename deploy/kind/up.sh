#!/usr/bin/env bash
# Starts a Kubernetes with kind, a Slurm beside it, and the scheduler that connects them. A second
# run updates image and scheduler. docs/kind.md lists the variables that this script reads.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

RELEASE=${RELEASE:-26.05}
case $RELEASE in
  26.05) base=debian:sid-slim ;;
  24.11) base=debian:trixie-slim ;;
  *) echo "RELEASE is $RELEASE: expected 26.05 or 24.11" >&2; exit 2 ;;
esac
base=${SLURM_BASE:-$base}

cluster() {
  mkdir -p "$(dirname "$KUBECONFIG")"
  if has_cluster; then
    kind export kubeconfig --name "$CLUSTER"
    return
  fi
  local options=(--config deploy/kind/cluster.yaml --wait 180s)
  if [ -n "${NODE_IMAGE:-}" ]; then options+=(--image "$NODE_IMAGE"); fi
  kind create cluster "${options[@]}"
}

slurm() {
  docker build --file deploy/kind/slurm.Dockerfile --tag "$SLURM:$RELEASE" \
    --build-arg "BASE=$base" --build-arg "RELEASE=$RELEASE" deploy
  if docker inspect "$SLURM" > /dev/null 2>&1; then
    docker start "$SLURM"
  else
    docker run --detach --init --name "$SLURM" --hostname slurm --network kind \
      --publish 127.0.0.1::6820 \
      --env "HOOKS_URL=http://$CLUSTER-worker:30800" "$SLURM:$RELEASE"
  fi
  until_it 120 answers
}

# Succeeds when the two nodes for pods are idle and slurmrestd answers.
answers() {
  [ "$(in_slurm sinfo --noheader --partition main --states idle --format %D)" = 2 ] &&
    in_slurm curl --silent --max-time 5 --output /dev/null http://127.0.0.1:6820/
}

image() {
  local name=$NAME:$VERSION
  ENGINE=docker IMAGE=$name deploy/image/image.sh build
  kind load docker-image "$name" --name "$CLUSTER"
}

# secret NAME KEY: makes a Secret of the standard input. Other users could see arguments.
secret() {
  kubectl create secret generic "$1" --namespace "$NAME" --from-file="$2=/dev/stdin" \
    --dry-run=client --output yaml | kubectl apply --filename -
}

scheduler() {
  local address
  address=$(docker inspect --format '{{.NetworkSettings.Networks.kind.IPAddress}}' "$SLURM")
  kubectl create namespace "$NAME" --dry-run=client --output yaml | kubectl apply --filename -
  in_slurm scontrol token username=slurm lifespan=86400 | secret slurm-token auth-token
  in_slurm cat /etc/slurm/hooks.token | secret slurm-hooks token
  helm upgrade --install "$NAME" deploy/helm/slurm-pod-scheduler --namespace "$NAME" \
    --values deploy/kind/values.yaml --set "scheduler.image.tag=$VERSION" \
    --set "scheduler.hostAliases[0].ip=$address" \
    --set "scheduler.hostAliases[0].hostnames[0]=slurm" --wait --timeout 3m
}

need docker kind kubectl helm
found=$(docker inspect --format '{{.Config.Image}}' "$SLURM" 2> /dev/null) || found=
if [ -n "$found" ] && [ "$found" != "$SLURM:$RELEASE" ]; then
  echo "$found is up: deploy/kind/down.sh before Slurm $RELEASE" >&2
  exit 1
fi
say "Kubernetes"; cluster
say "Slurm $RELEASE"; slurm
say "the image"; image
say "the scheduler"; scheduler
say "up; next: deploy/kind/test.sh, and: export KUBECONFIG=$KUBECONFIG"
