"""Slurm's hooks as a site sets them up: switched on for one scheduler, and off again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.support.cluster import Cluster

CONF: Final = "slurm-pod-scheduler-hooks.conf"
SECRET: Final = "a-secret-of-the-hooks-in-tests"
_TOKEN: Final = "hooks.token"


@contextmanager
def hooks_on(cluster: Cluster, url: str, **settings: object) -> Iterator[None]:
    """The cluster's hooks ask `url`; `settings` are lines of their configuration."""
    folder = cluster.hooks_folder
    told = {"URL": url, "TOKEN_FILE": f"{cluster.hooks_seen_as}/{_TOKEN}"} | settings
    (folder / _TOKEN).write_text(SECRET + "\n")
    (folder / _TOKEN).chmod(0o644)  # SlurmUser has no name here
    # Renamed into place: a hook of another job may read it at any moment.
    draft = folder / f"{CONF}.new"
    draft.write_text("".join(f"{name}='{value}'\n" for name, value in told.items()))
    os.replace(draft, folder / CONF)
    try:
        yield
    finally:
        (folder / CONF).unlink()


def secret_file(folder: Path) -> Path:
    """A file with the secret, for the scheduler."""
    path = folder / "hooks-secret"
    path.write_text(SECRET + "\n")
    return path
