"""Reads the file that names the Kubernetes Node behind each Slurm node, again whenever it
changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from groundwork.files import Signature, read_if_changed
from scheduler.config import strict_yaml

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 5.0
# Enough for some hundred thousand lines.
_MAX_BYTES: Final = 16 * 1024 * 1024


class MapFileError(Exception):
    """The file is wrong or cannot be read; the text says why."""


class MapFile:
    """YAML with lines `slurm-node: kubernetes-node`. Read when constructed; raises MapFileError.

    If the file becomes unreadable or wrong later, that is logged, and its former content stays in
    force.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged_error = ""
        self._signature: Signature | None = None
        self.nodes: Mapping[str, str] = {}
        self._take(_read_if_changed(path, None))

    async def follow(self, on_change: Callable[[], None]) -> None:
        """Look for changes every few seconds, for ever; cancel it to stop."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if await self.look():
                on_change()

    async def look(self) -> bool:
        """Read the file again. Returns whether its content has changed."""
        try:
            read = await asyncio.to_thread(_read_if_changed, self._path, self._signature)
        except MapFileError as error:
            self._signature = None
            self._complain(str(error))
            return False
        self._logged_error = ""
        return self._take(read)

    def _take(self, read: tuple[Signature | None, Mapping[str, str]] | None) -> bool:
        if read is None:
            return False
        self._signature, nodes = read
        if nodes == self.nodes:
            return False
        self.nodes = nodes
        log.info("node map read", path=str(self._path), nodes=len(nodes))
        return True

    def _complain(self, error: str) -> None:
        if error != self._logged_error:
            log.error("node map cannot be read, the former one holds", error=error)
        self._logged_error = error


def _read_if_changed(
    path: Path, known: Signature | None
) -> tuple[Signature | None, Mapping[str, str]] | None:
    """The Kubernetes Node of each Slurm node. Raises MapFileError, which names the file and the
    entry.
    """
    try:
        found = read_if_changed(path, known, most_bytes=_MAX_BYTES)
    except OSError as error:
        raise MapFileError(f"{path}: {error.strerror or error}") from None
    if found is None:
        return None
    signature, raw = found
    if len(raw) > _MAX_BYTES:
        raise MapFileError(f"{path}: expected at most {_MAX_BYTES} bytes")
    return signature, _understood(path, raw)


def _understood(path: Path, raw: bytes) -> Mapping[str, str]:
    try:
        content = strict_yaml.load(raw)
    except ValueError as error:
        raise MapFileError(f"{path}{error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise MapFileError(f"{path}: expected lines such as `slurm-node: kubernetes-node`")
    return {_node_name(path, key): _node_name(path, value) for key, value in content.items()}


def _node_name(path: Path, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MapFileError(
            f"{path}: {value!r}: expected the name of a node, in quotes if YAML reads it as "
            "something else"
        )
    return value.strip()
