#!/usr/bin/env bash
# The container image: `image.sh build [OPTION OF THE ENGINE...]` builds it, `image.sh save FILE`
# writes it as an OCI archive, and `image.sh sbom` prints its bill of materials. docs/image.md lists
# the variables that this script reads.
set -euo pipefail
cd "$(dirname "$0")/../.."

SBOM=/usr/share/slurm-pod-scheduler/sbom.cdx.json
VERSION=${VERSION:-$(sed -n 's/^__version__ = "\(.*\)"/\1/p' scheduler/__init__.py)}
IMAGE=${IMAGE:-slurm-pod-scheduler:$VERSION}

engine() {
  local name
  for name in ${ENGINE:-docker podman buildah}; do
    # A docker client without its daemon does not count.
    if "$name" info > /dev/null 2>&1; then echo "$name"; return; fi
  done
  echo "none of ${ENGINE:-docker, podman and buildah} works here: name one in ENGINE" >&2
  return 1
}

in_git() {
  local fallback=$1
  shift
  git "$@" 2> /dev/null || echo "$fallback"
}

build() {
  local engine options
  engine=$(engine)
  REVISION=${REVISION:-$(in_git unknown rev-parse HEAD)}
  export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(in_git 0 log -1 --format=%ct)}
  options=(--file Dockerfile --tag "$IMAGE")
  options+=(--build-arg "VERSION=$VERSION" --build-arg "REVISION=$REVISION")
  options+=(--build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH")
  if [ -n "${BASE:-}" ]; then options+=(--build-arg "BASE=$BASE"); fi
  if [ -n "${SOURCE:-}" ]; then options+=(--build-arg "SOURCE=$SOURCE"); fi
  if [ -n "${PIP_INDEX_URL:-}" ]; then options+=(--build-arg "PIP_INDEX_URL=$PIP_INDEX_URL"); fi
  if [ -n "${PIP_CONFIG_FILE:-}" ]; then options+=(--secret "id=pip.conf,src=$PIP_CONFIG_FILE"); fi
  if [ -n "${PIP_CERT:-}" ]; then options+=(--secret "id=ca.crt,src=$PIP_CERT"); fi
  # The default format of podman and buildah (OCI) has no HEALTHCHECK.
  if [ "$engine" != docker ]; then
    options+=(--format docker --timestamp "$SOURCE_DATE_EPOCH")
  fi
  "$engine" build "${options[@]}" "$@" .
}

save() {
  local engine
  engine=$(engine)
  case $engine in
    docker) docker save --output "$1" "$IMAGE" ;;
    podman) podman save --quiet --format oci-archive --output "$1" "$IMAGE" ;;
    buildah) buildah push --quiet "$IMAGE" "oci-archive:$1" ;;
  esac
}

sbom() {
  local engine
  engine=$(engine)
  if [ "$engine" != buildah ]; then
    "$engine" run --rm --entrypoint cat "$IMAGE" "$SBOM"
    return
  fi
  container=$(buildah from --pull=never "$IMAGE")
  trap 'buildah rm "$container" > /dev/null' EXIT
  buildah run "$container" cat "$SBOM"
}

case ${1:-} in
  build) shift; build "$@" ;;
  save) save "${2:?usage: $0 save FILE}" ;;
  sbom) sbom ;;
  *) echo "usage: $0 build|save|sbom" >&2; exit 2 ;;
esac
