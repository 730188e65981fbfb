# shellcheck shell=sh
# Builds Slurm's image of deploy/kind in the storage that the environment names, and leaves its files:
# sh kind_slurm.sh BASE-DIRECTORY CONTEXT RELEASE TARGET.
set -e
container=$(buildah from scratch)
buildah add --quiet "$container" "$1" / > /dev/null
buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
buildah commit --quiet "$container" localhost/rig/debian:1 > /dev/null
buildah rm "$container" > /dev/null
buildah build --quiet --pull=never --format docker --file "$2/kind/slurm.Dockerfile" \
  --build-arg BASE=localhost/rig/debian:1 --build-arg "RELEASE=$3" --tag localhost/rig/slurm:1 "$2" >&2
container=$(buildah from --pull=never localhost/rig/slurm:1)
cp --archive "$(buildah mount "$container")" "$4"
