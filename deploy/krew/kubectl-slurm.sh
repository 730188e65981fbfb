#!/bin/sh
# kubectl slurm, as krew installs it: the first call makes a virtual environment of the packages of
# the lock file beside this script and of the wheel beside it. Later calls use it.
set -eu

here=$(dirname "$(readlink -f "$0")")
wheel=$(basename "$here"/*.whl)
# Another version, or another build of the same, has other bytes.
place=${XDG_CACHE_HOME:-$HOME/.cache}/kubectl-slurm/$(cksum < "$here/$wheel" | tr ' ' -)

if [ ! -x "$place/current/bin/kubectl-slurm" ]; then
  python=${KUBECTL_SLURM_PYTHON:-python3}
  if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
    echo "kubectl slurm: $python is not Python 3.11 or newer: name one in KUBECTL_SLURM_PYTHON" >&2
    exit 1
  fi
  echo "kubectl slurm: installing its packages into $place, once (about 100 MB)" >&2
  mkdir -p "$place"
  # Two first calls at the same time make one each, and the later one is used.
  new=$(mktemp -d "$place/XXXXXX")
  trap 'rm -rf "$new"' EXIT
  "$python" -m venv "$new"
  pip="$new/bin/python -m pip install --quiet --disable-pip-version-check"
  # kubectl's output may be read by a program: pip may say nothing there.
  $pip --require-hashes --requirement "$here/runtime.txt" >&2
  $pip --no-deps --no-index "$here/$wheel" >&2
  ln -sfn "$(basename "$new")" "$place/current"
  trap - EXIT
fi
exec "$place/current/bin/kubectl-slurm" "$@"
