"""Builds or fetches all that the live tier needs: `python -m tests.rigs.setup`.

A second run finds all of it in the cache and takes about a second.
"""

from __future__ import annotations

import shutil
import sys
from typing import Final

from tests.rigs import (
    chromium,
    faketime,
    group_build,
    helm,
    image,
    kind,
    kind_slurm,
    kube_build,
    prometheus,
    slurm_build,
)
from tests.rigs.prerequisites import PrerequisiteError, announced, need_root
from tests.support import former

_TOOLS: Final = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
}


def main() -> int:
    """Exit status: 0 if the live tier can run, else 1 with a message that says what is missing."""
    try:
        need_root()
        _need_tools()
        with announced("Kubernetes, etcd and containerd"):
            kube_build.ensure()
        with announced("Prometheus"):
            prometheus.ensure()
        with announced("libfaketime"):
            faketime.ensure()
        _offer_chromium()
        with announced("helm, kustomize, kubeconform, krew and kind"):
            helm.helm_program()
            helm.kustomize_program()
            helm.kubeconform_program()
            helm.krew_program()
            kind.kind_program()
        for source in group_build.SOURCES:
            with announced(f"the controller {source.name}"):
                group_build.ensure(source)
        for release in slurm_build.SUITES:
            with announced(f"Slurm {release}"):
                slurm_build.ensure(release)
                kind_slurm.ensure(release)
        with announced("the container image"):
            image.ensure()
        if former.is_known():
            with announced("an older scheduler"):
                former.ensure()
    except PrerequisiteError as missing:
        print(f"the live tier cannot run here: {missing}", file=sys.stderr)
        return 1
    return 0


def _offer_chromium() -> None:
    """Without it only the test of the live page is skipped, which then says why."""
    try:
        with announced("Chromium"):
            chromium.ensure()
    except PrerequisiteError as missing:
        print(f"the live page is not tried in a browser: {missing}", file=sys.stderr)


def _need_tools() -> None:
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise PrerequisiteError(f"{tool} is missing: install the Debian package {package}")


if __name__ == "__main__":
    sys.exit(main())
