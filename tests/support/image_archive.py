"""Reads the content of a container image from its docker archive, without running it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any


class ImageArchive:
    """An archive as `docker save` writes it, with one image; `config` is its configuration.

    `layers` are the digests of the image's layers from the base up, `sizes` their bytes.
    """

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as archive:
            (manifest,) = json.loads(_read(archive, "manifest.json"))
            self.config: dict[str, Any] = json.loads(_read(archive, manifest["Config"]))
            self.layers: list[str] = []
            self.sizes: list[int] = []
            self._files: dict[str, bytes | None] = {}
            for name in manifest["Layers"]:
                self._add(_read(archive, name))

    def paths(self) -> set[str]:
        """The paths of all files and links that a container sees."""
        return set(self._files)

    def read(self, path: str) -> bytes:
        """The content of a regular file; KeyError for any other path."""
        content = self._files[path]
        if content is None:
            raise KeyError(f"{path} is not a regular file")
        return content

    def _add(self, layer: bytes) -> None:
        self.layers.append(hashlib.sha256(layer).hexdigest())
        self.sizes.append(len(layer))
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            for entry in files:
                path = PurePosixPath("/", entry.name)
                if path.name.startswith(".wh."):
                    self._remove(str(path.with_name(path.name.removeprefix(".wh."))))
                elif not entry.isdir():
                    content = files.extractfile(entry) if entry.isreg() else None
                    self._files[str(path)] = content.read() if content else None

    def _remove(self, path: str) -> None:
        gone = [it for it in self._files if it == path or it.startswith(f"{path}/")]
        for it in gone:
            del self._files[it]


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    content = archive.extractfile(name)
    assert content is not None, f"{name} is not a file of the archive"
    return content.read()
