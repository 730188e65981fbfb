"""Archives that are the same, byte by byte, whenever and by whomever they are made."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Collection, Mapping


def tar(files: Mapping[str, bytes], epoch: int, *, programs: Collection[str] = ()) -> bytes:
    """An archive of these files, of nobody in particular, in the given order. All have the time
    `epoch`, in Unix seconds, and those in `programs` can be executed.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as packed:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), epoch
            entry.mode = 0o755 if name in programs else 0o644
            packed.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def zipped(archive: bytes) -> bytes:
    """The archive, compressed by gzip."""
    return gzip.compress(archive, mtime=0)
