#!/usr/bin/env bash
# Removes the cluster and the Slurm that up.sh has made. The images stay in Docker.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

need docker kind
docker rm --force "$SLURM" > /dev/null 2>&1 || true
kind delete cluster --name "$CLUSTER"
rm -f "$KUBECONFIG"
