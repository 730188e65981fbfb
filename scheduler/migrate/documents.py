"""Reads a file of manifests: the text, and its documents with the place of each of their parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from scheduler.config import strict_yaml

MOST_FILE_BYTES: Final = 2 * 1024 * 1024
"""Of a file. It is read in some 10 s; the API server takes objects of up to 1.5 MB."""
MOST_DOCUMENTS: Final = 5000
DEEPEST: Final = 64
"""Levels of mappings and lists in each other; a pod template has a dozen."""
# Kubernetes reads times as text, and knows neither `<<` nor `=`.
_NOT_READ: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("timestamp", "merge", "value")
)
_NUMBERS: Final = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})


def _as_in_kubernetes(tag: str, pattern: re.Pattern[str]) -> re.Pattern[str]:
    """For Kubernetes `1:30:00` is text. YAML 1.1 has such numbers, with 60 as their base."""
    if tag not in _NUMBERS:
        return pattern
    return re.compile(f"(?!.*:)(?:{pattern.pattern})", pattern.flags)


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A document: what it says, and its tree, in which each part has its place in the text."""

    data: Any
    root: yaml.Node


class _Loader(strict_yaml.Loader):
    """Refuses documents that are nested too deeply."""

    yaml_implicit_resolvers: Mapping[str, list[tuple[str, Any]]] = {  # type: ignore[assignment]
        first: [
            (tag, _as_in_kubernetes(tag, pattern)) for tag, pattern in found if tag not in _NOT_READ
        ]
        for first, found in strict_yaml.Loader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(
        self, parent: yaml.Node | None, index: yaml.Node | int | None
    ) -> yaml.Node | None:
        """The next node. Raises MarkedYAMLError if it is too deep."""
        if self._depth > DEEPEST:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, f"more than {DEEPEST} levels", mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def check_bytes(found: bytes) -> None:
    """Raises ValueError with a text to put after the file's name if there is more in the file than
    was read, or no text that could be searched.
    """
    if len(found) > MOST_FILE_BYTES:
        raise ValueError(f": larger than {MOST_FILE_BYTES >> 20} MiB: split it")
    if b"\0" in found:
        raise ValueError(": expected text in UTF-8; UTF-16 and bytes of zero are not read")


def load_documents(found: bytes) -> tuple[str, list[YamlDocument]]:
    """The text and its documents, without empty ones. Raises ValueError with a text to put after
    the file's name.
    """
    check_bytes(found)
    with strict_yaml.in_words():
        text = found.decode()
        documents = list(_documents(text))
    if len(documents) > MOST_DOCUMENTS:
        raise ValueError(f": more than {MOST_DOCUMENTS} documents: split it")
    return text, documents


def _documents(text: str) -> Iterator[YamlDocument]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            root = loader.get_node()
            data = None if root is None else loader.construct_document(root)
            if root is not None and data is not None:
                yield YamlDocument(data, root)
    finally:
        loader.dispose()
