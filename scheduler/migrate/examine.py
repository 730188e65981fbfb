"""Looks at one file: what is to be done to it, and how it reads afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.migrate.changes import Note, applied
from scheduler.migrate.documents import YamlDocument, check_bytes, load_documents
from scheduler.migrate.edit import EditError, TextEdit, edits_for, with_edits
from scheduler.migrate.plan import Site, plan
from scheduler.migrate.tree import line_of

# Without such a word there is nothing of either scheduler in a file, and it is not parsed.
_CONCERNS: Final = re.compile(rb"sunk|slurm|slinky|syncer|schedulerConfig", re.I)


@dataclass(frozen=True, slots=True)
class LineNote:
    """A note, and the line it is about."""

    line: int
    note: Note


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found in a file. Without edits it stays as it is."""

    text: str = ""
    edits: Sequence[TextEdit] = ()
    findings: Sequence[LineNote] = ()

    @property
    def new_text(self) -> str:
        """The text after the edits."""
        return with_edits(self.text, self.edits)


def examine(found: bytes, site: Site) -> Examined:
    """What is to be done to a file with this content. Raises ValueError with a text to put after
    the file's name.
    """
    check_bytes(found)
    words = [name.encode() for name in site.old_names]
    if not _CONCERNS.search(found) and not any(word in found for word in words):
        return Examined(found.decode(errors="surrogateescape"))  # printed as it was
    text, documents = load_documents(found)
    edits: list[TextEdit] = []
    findings: list[LineNote] = []
    meant = []
    for document in documents:
        planned = plan(document.data, site)
        findings += _findings(document, planned.notes)
        edits += edits_for(text, document.root, planned.changes)
        meant.append(applied(document.data, planned.changes))
    examined = Examined(text, edits, findings)
    if edits and not _says(examined.new_text, meant):
        raise EditError(": this cannot be changed as it is written; do it by hand")
    return examined


def _says(text: str, meant: list[Any]) -> bool:
    try:
        return [it.data for it in load_documents(text.encode())[1]] == meant
    except ValueError:
        return False


def _findings(document: YamlDocument, notes: Sequence[Note]) -> Iterator[LineNote]:
    for note in notes:
        yield LineNote(line_of(document.root, note.path), note)
