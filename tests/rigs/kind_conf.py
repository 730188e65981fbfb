"""`python -m tests.rigs.kind_conf [FOLDER]`: slurm.conf of the Slurm beside a kind cluster.

The text is that of the rigs, with the paths of a container and the names of kind's Nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.rigs import slurm_conf

FOLDER: Final = Path(__file__).parents[2] / "deploy/kind"
# kind names its Nodes by the name of the cluster and their role.
NODES: Final = ("slurm-pods-worker", "slurm-pods-worker2")
RELEASES: Final = ("26.05", "24.11")

_NATIVE: Final = "native"
_FIRST_PORT: Final = 6821
# Each kubelet offers the whole machine, so these sizes are small enough for both of them.
_SIZE: Final = "CPUs=2 RealMemory=3000"
_HEAD: Final = "# Made by `make docs` from the recipe of the test rigs.\n"
# The daemons write their logs to the container's output.
_PLACES: Final = """\
ClusterName=kind
SlurmctldHost=slurm(127.0.0.1)
SlurmctldPidFile=/var/spool/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmdSpoolDir=/var/spool/slurmd.%n
StateSaveLocation=/var/spool/slurmctld
"""


def made() -> Iterator[tuple[str, str]]:
    """Name and text of each file."""
    for release in RELEASES:
        yield f"slurm-{release}.conf", _slurm_conf(external=release != "24.11")


def _slurm_conf(*, external: bool) -> str:
    """With external nodes, kind's Nodes have no slurmd, and one slurmd serves native jobs.
    Otherwise each of kind's Nodes has a slurmd in the same container.
    """
    nodes = _external() if external else _served()
    return "\n".join(
        (
            _HEAD + _PLACES + slurm_conf.RECIPE.rstrip(),
            *slurm_conf.MEMORY_IGNORED,
            *nodes,
            *slurm_conf.pod_partitions(",".join(NODES)),
            *([f"PartitionName={slurm_conf.SLURMD_PARTITION} Nodes={_NATIVE}"] if external else ()),
            "",
        )
    )


def _external() -> Iterator[str]:
    """The external nodes. The slurmd of the other node answers for them (tests.rigs.slurm_conf)."""
    for name in NODES:
        yield f"NodeName={name} NodeAddr=127.0.0.1 Port={_FIRST_PORT} {_SIZE} State=EXTERNAL"
    yield _slurmd(_NATIVE, _FIRST_PORT)


def _served() -> Iterator[str]:
    for port, name in enumerate(NODES, start=_FIRST_PORT):
        yield _slurmd(name, port)


def _slurmd(name: str, port: int) -> str:
    return f"NodeName={name} NodeHostname=slurm NodeAddr=127.0.0.1 Port={port} {_SIZE}"


def main(arguments: list[str]) -> None:
    """Write the files."""
    folder = Path(arguments[0]) if arguments else FOLDER
    for name, text in made():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
