"""What `explain` tells of a pod's gang, as lines for people and as an object for programs.

What the pods themselves say, such as "Gang x (7 of 8 pods exist)", is written in `core/gang.py`
(`missing_of`), and read back in `gang.py` of this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scheduler.core.incomplete import a_few
from scheduler.view.peers import Company
from scheduler.view.printing import member_object
from scheduler.view.table import UNKNOWN


def gang_lines(company: Company) -> Iterator[tuple[str, str]]:
    """What is shown, and its value."""
    gang = company.gang
    yield "name", gang.name or f"{UNKNOWN} (key {gang.short_key})"
    yield "rank and size", f"{_or_unknown(gang.rank)} of {_or_unknown(gang.size)}"
    if company.pods is not None:
        yield "pods", f"{len(company.there)} exist, {len(company.placed)} have a Node"
    if company.missing:
        yield "missing", company.missing
    waiting = [it.name for it in company.there if not it.node]
    if waiting:
        yield "without a Node", a_few(waiting)
    if gang.first_node:
        yield "first Node", gang.first_node


def gang_object(company: Company) -> dict[str, Any]:
    """The same for programs, with all pods."""
    gang = company.gang
    return {
        "name": gang.name or None,
        "rank": gang.rank,
        "size": gang.size,
        "missing": company.missing or None,
        "firstNode": gang.first_node or None,
        "pods": None if company.pods is None else [member_object(it) for it in company.pods],
    }


def _or_unknown(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)
