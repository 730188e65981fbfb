"""`kubectl slurm` as a plugin for krew: the archive that krew installs, and the manifest that tells
krew about it (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.archives import tar, zipped

MANIFEST: Final = "slurm.yaml"
"""krew wants the name of the plugin as the name of the file."""
_PROGRAM: Final = "kubectl-slurm"
_HERE: Final = Path(__file__).parent
_ROOT: Final = Path(__file__).parents[2]


def archive(wheel: Path, epoch: int) -> bytes:
    """The wheel, the lock file, the licence, and the script that installs them at its first call.
    All have the time `epoch`, in Unix seconds.
    """
    files = {
        _PROGRAM: (_HERE / "kubectl-slurm.sh").read_bytes(),
        "LICENSE": (_ROOT / "LICENSE").read_bytes(),
        "runtime.txt": (_ROOT / "requirements/runtime.txt").read_bytes(),
        wheel.name: wheel.read_bytes(),
    }
    return zipped(tar(files, epoch, programs={_PROGRAM}))


def manifest(made: Path, *, version: str, url: str) -> str:
    """The manifest, in YAML, of an archive that will be in the folder at `url`."""
    platform: dict[str, Any] = {
        "selector": {
            "matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]
        },
        "uri": f"{url.rstrip('/')}/{made.name}",
        "sha256": hashlib.sha256(made.read_bytes()).hexdigest(),
        "bin": _PROGRAM,
    }
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "slurm"},
            "spec": {
                "version": f"v{version}",
                "shortDescription": "Shows pods that Slurm schedules, and why they wait",
                "description": (
                    "For clusters with slurm-pod-scheduler: lists pods as squeue lists jobs, tells "
                    "the story of a pod, and which partitions have room. It needs only the rights "
                    "of its user."
                ),
                "caveats": (
                    "Needs Python 3.11 or newer; KUBECTL_SLURM_PYTHON names one that is not "
                    "python3. The first call installs about 100 MB of Python packages into "
                    "~/.cache/kubectl-slurm."
                ),
                "platforms": [platform],
            },
        },
        sort_keys=False,
    )
