"""The folder with the files of a sandbox, which has no other files, and one sandbox at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MARK: Final = ".sandbox"


class FolderError(Exception):
    """A sandbox must not write into the folder; the message says why."""


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """Make the folder unless it is there, and yield its absolute path; until the end no other
    sandbox gets it. A former sandbox, also one that was killed, may have left its files there.

    Raises FolderError if there are other files, because a kubeconfig, a squeue or a pod.yaml of the
    user would be overwritten, or if a sandbox runs there. Raises OSError.
    """
    folder = folder.resolve()  # users paste the printed paths in other directories
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / _MARK
    if not mark.exists() and any(folder.iterdir()):
        raise FolderError(
            f"{folder}: has files that no sandbox has made; expected a new folder, an empty one, "
            "or that of a former sandbox"
        )
    with mark.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(f"{folder}: a sandbox runs there; expected another folder") from None
        yield folder
