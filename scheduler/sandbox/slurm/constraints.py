"""Node features of a job, in sbatch's syntax: `a&b`, `a|b`, `a,b`, `(a|b)&c`, `[a|b]`, `a*2`.

Measured on 26.05.5 and 24.11.5: Slurm refuses blanks, `!`, an empty operand, unclosed or nested
brackets, and every name that no node has. All operators have the same precedence and bind from left
to right: `a|b&c` is `(a|b)&c`. Square brackets and counts matter only to jobs of several nodes. For
a job of one node they mean the same as parentheses.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_TOKEN: Final = re.compile(r"(?P<name>[\w.:=/-]+)(?:\*[0-9]+)?|(?P<sign>[&,|()\[\]])")
_OPENING: Final = {"(": ")", "[": "]"}
_CLOSING: Final = frozenset(_OPENING.values())
_JOINING: Final = frozenset("&,|")


class ConstraintError(ValueError):
    """Slurm refuses the text."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A feature name, or operands of which all or any must hold; with neither it always holds."""

    name: str = ""
    operands: tuple["Constraint", ...] = ()
    any_will_do: bool = False

    def holds(self, features: Collection[str]) -> bool:
        """Whether a node with these features satisfies the constraint."""
        if self.name:
            return self.name in features
        verdicts = (operand.holds(features) for operand in self.operands)
        return any(verdicts) if self.any_will_do else all(verdicts)

    def names(self) -> Iterator[str]:
        """Yield every feature that the constraint names."""
        if self.name:
            yield self.name
        for operand in self.operands:
            yield from operand.names()


NOTHING: Final = Constraint()


@lru_cache(maxsize=1024)
def read(text: str) -> Constraint:
    """Return the constraint that the text describes; raises ConstraintError."""
    if not text:
        return NOTHING
    tokens = list(_tokens(text))
    found = _chain(tokens)
    if tokens:
        raise ConstraintError(text)
    return found


def _tokens(text: str) -> Iterator[str]:
    at = depth = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        sign = match["sign"] if match else None
        depth += (sign in _OPENING) - (sign in _CLOSING)
        if match is None or depth > 1:
            raise ConstraintError(text)
        at = match.end()
        yield match["name"] or match["sign"]


def _chain(tokens: list[str]) -> Constraint:
    found = _operand(tokens)
    while tokens and tokens[0] in _JOINING:
        sign = tokens.pop(0)
        found = Constraint("", (found, _operand(tokens)), any_will_do=sign == "|")
    return found


def _operand(tokens: list[str]) -> Constraint:
    token = tokens.pop(0) if tokens else ""
    if token in _OPENING:
        inner = _chain(tokens)
        if not tokens or tokens.pop(0) != _OPENING[token]:
            raise ConstraintError("open bracket")
        return inner
    if not token or token in _JOINING | _CLOSING:
        raise ConstraintError("an operand is missing")
    return Constraint(token)
