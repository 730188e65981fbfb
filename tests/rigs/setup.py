"""Get everything the live tier runs on: `python -m tests.rigs.setup`.

A second run finds all of it in the cache and takes about a second.
"""

from __future__ import annotations

import shutil
import sys
from typing import Final

from tests.rigs import kube_build, slurm_build
from tests.rigs.prerequisites import PrerequisiteError, need_root, told

_TOOLS: Final = {"unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux"}


def main() -> int:
    """0 when the live tier can run, else 1 and a word on what is missing."""
    try:
        need_root()
        _need_tools()
        with told("Kubernetes, etcd and containerd"):
            kube_build.ensure()
        for release in slurm_build.SUITES:
            with told(f"Slurm {release}"):
                slurm_build.ensure(release)
    except PrerequisiteError as missing:
        print(f"the live tier cannot run here: {missing}", file=sys.stderr)
        return 1
    return 0


def _need_tools() -> None:
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise PrerequisiteError(f"{tool} is missing: install the Debian package {package}")


if __name__ == "__main__":
    sys.exit(main())
