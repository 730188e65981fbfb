"""Reads the file that names the Kubernetes Node behind each Slurm node, again whenever it
changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from groundwork.files import Signature, read_at_rest, read_bounded
from scheduler.config import strict_yaml

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 5.0
# Enough for some hundred thousand lines.
_MAX_BYTES: Final = 16 * 1024 * 1024


class MapFileError(Exception):
    """The file is wrong or cannot be read; the text says why."""


class MapFile:
    """YAML with lines `slurm-node: kubernetes-node`. Read when constructed; raises MapFileError.

    If the file becomes unreadable, wrong or empty later, that is logged, and its former content
    stays in force. A change counts only when the file has rested for two seconds: its writer may
    not be at its end, and half a map would send pods to Nodes that do not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logged_error = ""
        self._signature: Signature | None = None
        self.nodes: Mapping[str, str] = {}
        self._take(_read(path))

    async def follow(self, on_change: Callable[[], None]) -> None:
        """Look for changes every few seconds, for ever; cancel it to stop."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if await self.look():
                on_change()

    async def look(self) -> bool:
        """Read the file again if it rests. Returns whether its content has changed."""
        try:
            read = await asyncio.to_thread(_read_at_rest, self._path, self._signature)
        except MapFileError as error:
            self._signature = None
            self._complain(str(error))
            return False
        if read is None:
            return False
        self._signature, nodes = read
        self._logged_error = ""
        return self._take(nodes)

    def _take(self, nodes: Mapping[str, str]) -> bool:
        if nodes == self.nodes:
            return False
        self.nodes = nodes
        log.info("node map read", path=str(self._path), nodes=len(nodes))
        return True

    def _complain(self, error: str) -> None:
        if error != self._logged_error:
            log.error("node map cannot be read, the former one holds", error=error)
        self._logged_error = error


def _read(path: Path) -> Mapping[str, str]:
    """The Kubernetes Node of each Slurm node. Raises MapFileError, which names the file and the
    entry.
    """
    try:
        raw = read_bounded(path, most_bytes=_MAX_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None
    return _understood(path, raw)


def _read_at_rest(
    path: Path, known: Signature | None
) -> tuple[Signature, Mapping[str, str]] | None:
    """The same of a file that rests and has another signature; None otherwise."""
    try:
        found = read_at_rest(path, known, most_bytes=_MAX_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None
    return None if found is None else (found[0], _understood(path, found[1]))


def _unreadable(path: Path, error: OSError) -> MapFileError:
    return MapFileError(f"{path}: {error.strerror or error}")


def _understood(path: Path, raw: bytes) -> Mapping[str, str]:
    if len(raw) > _MAX_BYTES:
        raise MapFileError(f"{path}: expected at most {_MAX_BYTES} bytes")
    try:
        content = strict_yaml.load(raw)
    except ValueError as error:
        raise MapFileError(f"{path}{error}") from None
    if content is None:
        raise MapFileError(f"{path}: is empty, expected `{{}}` if no node has a name of its own")
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
