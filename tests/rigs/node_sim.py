"""Any number of simulated Nodes in a real cluster, served by one process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import msgspec

from tests.rigs.kube import KubeRig
from tests.rigs.kube_files import SIMULATOR
from tests.rigs.process import Daemon
from tests.rigs.simulator.nodes import NodeShape

_ROOT: Final = Path(__file__).parents[2]


class SimulatedNodes:
    """Nodes of `shapes` in `kube`; a context manager within which they are Ready."""

    def __init__(self, kube: KubeRig, shapes: Sequence[NodeShape]) -> None:
        self._kube = kube
        self._shapes = tuple(shapes)
        self._daemon: Daemon | None = None

    def __enter__(self) -> Self:
        settings = self._kube.files.directory / "simulator.json"
        settings.write_bytes(msgspec.json.encode(self._settings()))
        settings.chmod(0o600)
        self._daemon = Daemon(
            (sys.executable, "-m", "tests.rigs.simulator", str(settings)),
            log=self._kube.log_directory / "simulator.log",
            environment={"PYTHONPATH": str(_ROOT)},
        )
        try:
            self._daemon.wait_until(self._ready, what="simulated Nodes", every_seconds=0.2)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; the Nodes stay in the API and are lost later, as after a crash."""
        if self._daemon is not None:
            self._daemon.stop(kill=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all Nodes."""
        return tuple(shape.name for shape in self._shapes)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Pause all kubelets (SIGSTOP) within the block, as if their network had failed.

        A Node that the API has marked as lost meanwhile is Ready again seconds after the block.
        """
        assert self._daemon is not None
        os.kill(self._daemon.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._daemon.pid, signal.SIGCONT)

    def _settings(self) -> dict[str, object]:
        return {
            "url": self._kube.url,
            "token": self._kube.files.tokens[SIMULATOR],
            "ca": str(self._kube.ca),
            "nodes": self._shapes,
        }

    def _ready(self) -> bool:
        ready = self._kube.ready_nodes()
        return ready.issuperset(self.names)
