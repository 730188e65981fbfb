"""Reads files that other programs renew, again whenever they may have changed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

# Two changes at the same moment leave the same signature, and we may have read the file between
# them.
_RACY_SECONDS: Final = 2.0

Signature = tuple[int, int, int]
"""Time of change, inode and size. A renewal changes at least one of them, whether it writes,
renames or links.
"""


def signature_of(stat: os.stat_result) -> Signature | None:
    """The signature of a file; None if it changed so recently that the next change could look the
    same.
    """
    if abs(time.time() - stat.st_mtime) < _RACY_SECONDS:
        return None
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def read_bounded(path: Path, *, most_bytes: int) -> bytes:
    """The content of the file, up to a byte more than `most_bytes`. Blocks; raises OSError."""
    with path.open("rb") as file:
        return file.read(most_bytes + 1)


def read_if_changed(
    path: Path, known: Signature | None, *, most_bytes: int
) -> tuple[Signature | None, bytes] | None:
    """The file's signature and its content, up to a byte more than `most_bytes`; None if the
    signature is `known`. Blocks; raises OSError.
    """
    with path.open("rb") as file:
        signature = signature_of(os.fstat(file.fileno()))
        if signature is not None and signature == known:
            return None
        return signature, file.read(most_bytes + 1)


def read_at_rest(
    path: Path, known: Signature | None, *, most_bytes: int
) -> tuple[Signature, bytes] | None:
    """The same for a file that nobody has written for two seconds. None for any other: its writer
    may not be at its end, and half a file can have a meaning of its own.
    """
    with path.open("rb") as file:
        signature = signature_of(os.fstat(file.fileno()))
        if signature is None or signature == known:
            return None
        content = file.read(most_bytes + 1)
        rests = signature_of(os.fstat(file.fileno())) == signature
        return (signature, content) if rests else None
