"""The types an annotation's value can have: how each is read, and how its readers call it."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from annotations.problems import NotAcceptableError
from annotations.quantity import divide_up

# slurmctld refuses a longer name, comment or extra ("too long"); measured on Slurm 26.05.5.
_LONGEST_TEXT_BYTES = 1024
# Control characters, surrogates, line and paragraph separators.
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
# Slurm's time_limit is an unsigned 32 bit number whose two largest values have meanings (slurm.h).
_LONGEST_MINUTES = 2**32 - 3


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of value: its name in the docs, and its reader (raises NotAcceptableError)."""

    name: str
    read: Callable[[str], object]


def read_text(value: str) -> str:
    """The value itself, when Slurm can carry it unchanged."""
    if not value:
        raise NotAcceptableError("a value of at least one character, or no such annotation")
    if any(unicodedata.category(character) in _UNPRINTABLE for character in value):
        raise NotAcceptableError("one line of text without control characters")
    if value != value.strip():
        raise NotAcceptableError(f"no blanks around the value: {value.strip()[:80]!r}")
    if len(value.encode()) > _LONGEST_TEXT_BYTES:
        raise NotAcceptableError(f"at most {_LONGEST_TEXT_BYTES} characters (bytes of UTF-8)")
    return value


def read_minutes(value: str) -> int:
    """Whole seconds as Slurm's minutes, rounded up."""
    if not _INTEGER.fullmatch(value) or int(value) <= 0:
        raise NotAcceptableError("a whole number of seconds above 0, such as 3600")
    minutes = divide_up(int(value), 60)
    if minutes > _LONGEST_MINUTES:
        raise NotAcceptableError(
            f"at most {60 * _LONGEST_MINUTES} seconds, the longest Slurm can count"
        )
    return minutes


TEXT = Kind("string", read_text)
SECONDS = Kind("integer, seconds", read_minutes)
