"""A cluster that somebody else has brought up, described in a file (`pytest --cluster FILE`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NoReturn, cast

import msgspec

from tests.support.cluster import Cluster


class ClusterDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of the file, which is JSON with absolute paths.

    `release` is Slurm's, as in "26.05". `container` holds fields for the containers of pods, such
    as an image that the Nodes have.
    """

    release: str
    kubeconfig: str
    kube_url: str
    kube_token_file: str
    kube_ca: str | None
    slurm_url: str
    slurm_token_file: str
    nodes: tuple[str, ...]
    cpus_per_node: int
    partition: str
    high_partition: str
    grace_partition: str
    container: dict[str, Any]


class OutsideCluster:
    """A Cluster with only those members that stories marked `anywhere` need."""

    gpus_per_node: Final = 0
    real_node: Final = None

    def __init__(self, description: ClusterDescription) -> None:
        self.name = f"outside-{description.release}"
        self.placeholder_mode = "script" if description.release == "24.11" else "external"
        self.kubeconfig = Path(description.kubeconfig)
        self.kube_url = description.kube_url
        self.kube_token = Path(description.kube_token_file).read_text().strip()
        self.kube_ca = None if description.kube_ca is None else Path(description.kube_ca)
        self.slurm_url = description.slurm_url
        self.slurm_token_file = Path(description.slurm_token_file)
        self.nodes = description.nodes
        self.cpus_per_node = description.cpus_per_node
        self.partition = description.partition
        self.high_partition = description.high_partition
        self.grace_partition = description.grace_partition
        self.container = description.container

    def recorder(self) -> None:
        """None, because the logs of its servers cannot be read from here."""

    def slurm_token(self, user: str) -> str:
        """The token of an administrator, the only one there is."""
        assert user == "root", f"no token of {user} for {self.name}"
        return self.slurm_token_file.read_text().strip().removeprefix("SLURM_JWT=")

    async def script_runs(self, job_id: int) -> bool:
        """Nobody can tell from here: that it does is taken for granted."""
        return True

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"{self.name} has no {name}: the story must not be marked `anywhere`")


def read(path: Path) -> Cluster:
    """The cluster that a file describes. Raises OSError, msgspec.DecodeError."""
    description = msgspec.json.decode(path.read_bytes(), type=ClusterDescription)
    # Members that it lacks raise AssertionError when a story asks for them.
    return cast("Cluster", OutsideCluster(description))
