# shellcheck shell=sh
# Builds the image in the storage that the environment names: sh image.sh BASE-DIRECTORY ARCHIVE.
set -e
container=$(buildah from scratch)
buildah add --quiet "$container" "$1" / > /dev/null
buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
buildah commit --quiet --timestamp "$SOURCE_DATE_EPOCH" "$container" "$BASE" > /dev/null
buildah rm "$container" > /dev/null
deploy/image/image.sh build --quiet --pull=never >&2
buildah push --quiet "$IMAGE" "docker-archive:$2:$IMAGE"
