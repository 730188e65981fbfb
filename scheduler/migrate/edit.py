"""Carries changes out in the text of a document. Whatever they do not name stays as it is written:
comments, order, quotes, indentation.

PyYAML gives the place of each part but cannot write a file back with its comments, so the text is
edited at these places. `examine.py` reads the result again, and refuses what is not as planned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple

import yaml

from scheduler.migrate.changes import DocumentChange, Drop, Path, Put, Rename
from scheduler.migrate.tree import Entry, end_of, entries, entry, line_of, node_at

# Anything else is put in quotes: it could be read as a number, a truth value or a time.
_PLAIN: Final = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)\Z)[A-Za-z][\w./-]*\Z", re.A)
_STEP: Final = "  "
_SHORT: Final = ("metadata", "annotations")
_COLLECTIONS: Final = (yaml.MappingNode, yaml.SequenceNode)


class EditError(ValueError):
    """The document cannot be edited as it is written. The text goes behind the file's name."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """The text from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


class _New(NamedTuple):
    """A value that is written, and the comment behind it."""

    value: str | int
    comment: str = ""


@dataclass(slots=True)
class _Work:
    """What happens to the entries of one mapping. `adds` and `values` hold `_New`, or mappings of
    new keys.
    """

    adds: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    renames: dict[str, Rename] = field(default_factory=dict)
    drops: set[str] = field(default_factory=set)


def edits_for(text: str, root: yaml.Node, changes: Iterable[DocumentChange]) -> list[TextEdit]:
    """The edits that carry the changes out, in the order of the text. Raises EditError."""
    writer = _Writer(text, root)
    found = [
        edit for path, work in _sorted_out(writer, changes) for edit in writer.edits(path, work)
    ]
    return sorted(found, key=lambda it: (it.start, it.end))


def with_edits(text: str, edits: Iterable[TextEdit], *, begin: int = 0) -> str:
    """The text after the edits. It begins at `begin` of the file that the edits are about."""
    parts, done = [], begin
    for edit in edits:
        parts += [text[done - begin : edit.start - begin], edit.text]
        done = edit.end
    return "".join([*parts, text[done - begin :]])


def _sorted_out(writer: _Writer, changes: Iterable[DocumentChange]) -> list[tuple[Path, _Work]]:
    """The work by mapping. A mapping that loses all of its entries is dropped itself."""
    found: dict[Path, _Work] = {}
    root = writer.root
    for change in changes:
        match change:
            case Put(path, value, source):
                if not _put(root, found, path, _New(value, writer.comment(source))):
                    writer.stranded.add(source)
            case Rename(path, _, _):
                found.setdefault(path[:-1], _Work()).renames[str(path[-1])] = change
            case Drop(path):
                found.setdefault(path[:-1], _Work()).drops.add(str(path[-1]))
    for path in sorted(found, key=len, reverse=True):
        _drop_if_empty(root, found, path)
    return list(found.items())


def _put(root: yaml.Node, found: dict[Path, _Work], path: Path, new: _New) -> bool:
    """Note where the value goes. False if no comment can stand behind it there."""
    steps = (node_at(root, path[: at + 1]) for at in range(len(path)))
    depth = next((at for at, it in enumerate(steps) if not isinstance(it, _COLLECTIONS)), None)
    if depth is None:
        raise EditError(f", line {line_of(root, path)}: expected one value")
    work = found.setdefault(path[:depth], _Work())
    there = node_at(root, path[: depth + 1]) is not None
    place = work.values if there else work.adds
    for step in map(str, path[depth:-1]):
        place = place.setdefault(step, {})
    place[str(path[-1])] = new
    mapping = node_at(root, path[:depth])
    return not there and isinstance(mapping, yaml.MappingNode) and not mapping.flow_style


def _drop_if_empty(root: yaml.Node, found: dict[Path, _Work], path: Path) -> None:
    work = found[path]
    keys = {it[0].value for it in entries(node_at(root, path))}
    if path and not work.adds and keys and keys <= work.drops:
        del found[path]
        found.setdefault(path[:-1], _Work()).drops.add(str(path[-1]))
        _drop_if_empty(root, found, path[:-1])


class _Writer:
    """Makes the edits of one document."""

    def __init__(self, text: str, root: yaml.Node) -> None:
        self._text = text
        self.root = root
        self.stranded: set[Path] = set()
        """Places of values whose comments did not go with them."""
        self._newline = "\r\n" if "\r\n" in text else "\n"

    def edits(self, path: Path, work: _Work) -> Iterator[TextEdit]:
        """The edits of one mapping."""
        node = node_at(self.root, path)
        if not isinstance(node, yaml.MappingNode):
            raise EditError(f", line {line_of(self.root, path)}: expected a mapping")
        for name, value in work.values.items():
            yield self._new_value(entry(node, name), value)
        for name, rename in work.renames.items():
            yield from self._new_name(entry(node, name), rename)
        yield from (
            self._of_flow(node, work) if node.flow_style else self._of_block(node, work, path)
        )

    def comment(self, path: Path) -> str:
        """The blanks and the comment behind a value of block style; "" if there is none."""
        node, above = node_at(self.root, path), node_at(self.root, path[:-1])
        if not path or node is None or not isinstance(above, yaml.MappingNode) or above.flow_style:
            return ""
        rest = self._text[end_of(node) : self._after(node)].rstrip()
        return rest if rest.lstrip().startswith("#") and node.end_mark.column else ""

    def _new_value(self, there: Entry | None, value: Any) -> TextEdit:
        key, node = _certain(there)
        start, end = node.start_mark.index, node.end_mark.index
        written = _flow(value) if isinstance(value, dict) else _scalar(value.value, like=node)
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(key)
        if start == end:
            written = f" {written}"
        elif self._text[end - 1] == "\n":  # the end of a block scalar
            written += self._newline
        return TextEdit(start, end, written)

    def _new_name(self, there: Entry | None, rename: Rename) -> Iterator[TextEdit]:
        key, node = _certain(there)
        name = _in_quotes(rename.key, key.style) or rename.key
        yield TextEdit(key.start_mark.index, key.end_mark.index, name)
        if (node.tag, node.value) != ("tag:yaml.org,2002:str", rename.value):
            yield self._new_value(there, _New(rename.value))

    # --- block style ------------------------------------------------------------------------------

    def _of_block(self, node: yaml.MappingNode, work: _Work, path: Path) -> Iterator[TextEdit]:
        for key, value in entries(node):
            if key.value in work.drops:
                indent = " " * key.start_mark.column  # deeper, it could continue a block scalar
                kept = "".join(indent + it for it in self._comments((*path, key.value), key, value))
                yield TextEdit(self._line_start(key), self._after(value), kept)
        if work.adds:
            indent = " " * node.value[0][0].start_mark.column
            lines = [it + self._newline for it in _block(work.adds, indent)]
            yield self._insertion(node, path, "".join(lines))

    def _insertion(self, node: yaml.MappingNode, path: Path, lines: str) -> TextEdit:
        """Where new entries of a mapping go. They come first, because specs are long. But they come
        last in the document itself, in metadata and annotations, and in a mapping that begins in
        the line of its key.
        """
        above = entry(node_at(self.root, path[:-1]), path[-1]) if path else None
        first = node.value[0][0]
        if above is None or path[-1] in _SHORT or above[0].end_mark.line == (first.start_mark.line):
            at = self._after(node.value[-1][1])
        else:
            at = self._text.index("\n", above[0].end_mark.index) + 1
        if at == len(self._text) and not self._text.endswith("\n"):
            lines = self._newline + lines.removesuffix(self._newline)
        return TextEdit(at, at, lines)

    def _comments(self, path: Path, key: yaml.Node, value: yaml.Node) -> Iterator[str]:
        """The comments that stay where an entry goes, as lines: those that have lines of their own
        in it, and those behind values that they could not follow.
        """
        if path in self.stranded and (behind := self.comment(path).strip()):
            yield f"{behind}{self._newline}"
        if not isinstance(value, yaml.MappingNode) or value.flow_style:
            return
        begin = self._text.find("\n", key.end_mark.index) + 1
        for below, its_value in value.value:
            between = self._text[begin : below.start_mark.index].split("\n")[:-1]
            yield from (f"{it.lstrip()}\n" for it in between if it.lstrip().startswith("#"))
            yield from self._comments((*path, below.value), below, its_value)
            begin = self._after(its_value)

    def _line_start(self, key: yaml.Node) -> int:
        start = self._text.rfind("\n", 0, key.start_mark.index) + 1
        if self._text[start : key.start_mark.index].strip(" \ufeff"):
            raise self._error(key)
        return start

    def _after(self, node: yaml.Node) -> int:
        """The start of the line behind the part."""
        end = end_of(node)
        if end and self._text[end - 1] == "\n":  # a block scalar ends there
            return end
        line = self._text.find("\n", end)
        return len(self._text) if line < 0 else line + 1

    # --- flow style, which JSON is too ------------------------------------------------------------

    def _of_flow(self, node: yaml.MappingNode, work: _Work) -> Iterator[TextEdit]:
        found = entries(node)
        kept = [it for it in found if it[0].value not in work.drops]
        yield from _gaps(found, work.drops)
        if work.adds:
            quoted = not found or self._text[found[0][0].start_mark.index] == '"'
            at = end_of(found[-1][1]) if found else node.start_mark.index + 1
            between = self._between(found) if kept else ""
            yield TextEdit(at, at, between + _members(work.adds, quoted=quoted, between=", "))

    def _between(self, found: list[Entry]) -> str:
        """What stands between two entries: a comma, and maybe a new line."""
        if len(found) < 2:
            return ", "
        between = self._text[end_of(found[0][1]) : found[1][0].start_mark.index]
        return between if between.strip() == "," else ", "

    def _error(self, node: yaml.Node) -> EditError:
        line = node.start_mark.line + 1
        return EditError(f", line {line}: this cannot be changed as it is written; do it by hand")


def _gaps(found: list[Entry], drops: set[str]) -> Iterator[TextEdit]:
    """The edits that remove entries, each with one comma."""
    kept = [at for at, it in enumerate(found) if it[0].value not in drops]
    if len(kept) == len(found):
        return
    bounds = [-1, *kept, len(found)]
    for before, behind in pairwise(bounds):
        if behind - before < 2:
            continue
        last = end_of(found[behind - 1][1])
        if before >= 0:
            yield TextEdit(end_of(found[before][1]), last, "")
        elif behind < len(found):
            yield TextEdit(found[0][0].start_mark.index, found[behind][0].start_mark.index, "")
        else:
            yield TextEdit(found[0][0].start_mark.index, last, "")


def _certain(there: Entry | None) -> tuple[yaml.ScalarNode, yaml.Node]:
    if there is None or not isinstance(there[0], yaml.ScalarNode):
        raise EditError(": a key is no text")
    return there[0], there[1]


def _block(adds: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in adds.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _block(value, indent + _STEP)
        else:
            yield f"{indent}{key}: {_scalar(value.value)}{value.comment}"


def _flow(adds: Mapping[str, Any]) -> str:
    return "{" + _members(adds, quoted=True, between=", ") + "}"


def _members(adds: Mapping[str, Any], *, quoted: bool, between: str) -> str:
    return between.join(
        f"{json.dumps(key) if quoted else key}: "
        + (_flow(it) if isinstance(it, dict) else _scalar(it.value, plain=not quoted))
        for key, it in adds.items()
    )


def _scalar(value: str | int, *, like: yaml.Node | None = None, plain: bool = True) -> str:
    """The value, in the quotes that the value before it had."""
    if isinstance(value, int):
        return str(value)
    style = like.style if isinstance(like, yaml.ScalarNode) else None
    if style is None and plain and _PLAIN.match(value):
        return value
    return _in_quotes(value, style) or json.dumps(value, ensure_ascii=False)


def _in_quotes(value: str, style: str | None) -> str:
    """The value in such quotes; "" if there are none."""
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value, ensure_ascii=False) if style == '"' else ""
