"""The file that says which Kubernetes Node is behind a Slurm node, read again when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
import yaml

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 5.0


class MapFileError(Exception):
    """What is wrong with the file."""


class MapFile:
    """YAML, `slurm-node: kubernetes-node`. Reads at once; raises MapFileError.

    A file that has become unreadable or wrong is logged, and what it said before still holds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told = ""
        self.nodes: Mapping[str, str] = read(path)

    async def follow(self, on_change: Callable[[], None]) -> None:
        """Look every few seconds, for ever; end it by cancelling."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if await self.look():
                on_change()

    async def look(self) -> bool:
        """Read it again; whether it says something else now."""
        try:
            nodes = await asyncio.to_thread(read, self._path)
        except MapFileError as error:
            self._complain(str(error))
            return False
        self._told = ""
        if nodes == self.nodes:
            return False
        self.nodes = nodes
        log.info("node map read", path=str(self._path), nodes=len(nodes))
        return True

    def _complain(self, error: str) -> None:
        if error != self._told:
            log.error("node map cannot be read, the former one holds", error=error)
        self._told = error


def read(path: Path) -> Mapping[str, str]:
    """Slurm node to Kubernetes Node; raises MapFileError naming the file and the entry."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise MapFileError(f"{path}: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise MapFileError(f"{path}: expected lines such as `slurm-node: kubernetes-node`")
    return {_text(path, key): _text(path, value) for key, value in content.items()}


def _text(path: Path, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MapFileError(f"{path}: {value!r}: expected the name of a node, quoted if it is none")
    return value.strip()
