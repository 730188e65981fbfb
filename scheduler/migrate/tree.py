"""Finds parts of a document in its tree, which knows the place of each part in the text."""

from __future__ import annotations

import yaml

from scheduler.migrate.changes import Path

Entry = tuple[yaml.Node, yaml.Node]
"""A key of a mapping, and its value."""


def entries(node: yaml.Node | None) -> list[Entry]:
    """The entries of a mapping; none of anything else."""
    return list(node.value) if isinstance(node, yaml.MappingNode) else []


def entry(node: yaml.Node | None, key: object) -> Entry | None:
    """The entry with this key; None if there is none."""
    return next((it for it in entries(node) if it[0].value == str(key)), None)


def node_at(root: yaml.Node, path: Path) -> yaml.Node | None:
    """The part there; None if there is none."""
    node: yaml.Node | None = root
    for step in path:
        node = _below(node, step)
    return node


def _below(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode):
        inside = isinstance(step, int) and step < len(node.value)
        found: yaml.Node | None = node.value[step] if inside else None
        return found
    mapped = entry(node, step)
    return None if mapped is None else mapped[1]


def line_of(root: yaml.Node, path: Path) -> int:
    """The line of the part, or of the nearest one above it that exists, counted from 1."""
    node, line = root, root.start_mark.line
    for step in path:
        key = entry(node, step)
        below = _below(node, step)
        if below is None:
            break
        node, line = below, (below if key is None else key[0]).start_mark.line
    return int(line) + 1


def end_of(node: yaml.Node) -> int:
    """Where the part ends in the text. The mark of a block mapping or list lies behind the comments
    and empty lines that follow it, so the last of its parts is asked.
    """
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return end_of(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)
