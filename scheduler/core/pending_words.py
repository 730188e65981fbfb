"""Reads back what `pending_text` of `pending_reasons.py` has written on a pod.

The pod is all that its owner may read, and the condition has no fields for Slurm's words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_REASON: Final = re.compile(r"Slurm job \d{1,10} is pending: (?P<reason>[^\s,.():;]{1,64})")
_DETAILS: Final = re.compile(
    r" \((?=priority |partition |expected start )"
    r"(?:priority (?P<priority>\d{1,10})(?:, |\)))?"
    r"(?:partition (?P<partition>[^\s()]{1,256}?)(?:, |\)))?"
    r"(?:expected start (?P<start>\d{4}-\d\d-\d\d \d\d:\d\d) UTC\))?"
)


@dataclass(frozen=True, slots=True)
class PendingWords:
    """What Slurm says of a pending job; empty and None for what the text does not say."""

    reason: str = ""
    priority: int | None = None
    partition: str = ""
    expected_start: datetime | None = None


def read_back(message: str) -> PendingWords:
    """What the message of a condition says of a pending job. Any other message says nothing."""
    found = _REASON.match(message)
    if found is None:
        return PendingWords()
    # Slurm's description, which stands before the details, may have brackets of its own.
    words = message.partition(". That is: ")[0]
    details = max(_DETAILS.finditer(words), key=lambda it: it.end(), default=None)
    if details is None:
        return PendingWords(found["reason"])
    return PendingWords(
        found["reason"],
        None if details["priority"] is None else int(details["priority"]),
        details["partition"] or "",
        _read_moment(details["start"]),
    )


def _read_moment(text: str | None) -> datetime | None:
    try:
        return (
            None if text is None else datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
        )
    except ValueError:  # the 31st of June
        return None
