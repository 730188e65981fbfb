"""The scheduler with Slurm's hooks, and without them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.main_path.servers import Servers
from tests.support.hooks import hooks_on, secret_file
from tests.support.ports import free_ports


@contextmanager
def hooks(found: Servers, folder: Path, *, on: bool) -> Iterator[tuple[str, ...]]:
    """The flags of a scheduler. If they are `on`, the hooks of each job ask it within the block:
    PrologSlurmctld before a pod is bound, and EpilogSlurmctld when a job ends.
    """
    if not on:
        yield ("--hooks-api-bind-address=0",)
        return
    (port,) = free_ports(1)
    with hooks_on(found, f"http://127.0.0.1:{port}"):
        yield (
            f"--hooks-api-bind-address=127.0.0.1:{port}",
            f"--hooks-api-token-file={secret_file(folder)}",
        )
