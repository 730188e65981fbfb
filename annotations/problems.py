"""What is wrong with a pod, said so that its owner can put it right."""

from dataclasses import dataclass

NOT_SET = "not set"
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: the full annotation key or spec path, its value, and what would be accepted.

    `known_as` is what the SUNK scheduler says of the same fault, in its own words.
    """

    field: str
    value: str
    expected: str
    known_as: str = ""

    @property
    def text(self) -> str:
        """One sentence for people: field, value (shortened, control characters escaped), remedy;
        what it is known as in front.
        """
        told = f"{self.field} is {_shown(self.value)}; expected {self.expected}"
        return f"{self.known_as}: {told}" if self.known_as else told


class NotAcceptableError(ValueError):
    """A single value was refused; the message is what would have been accepted."""


def _shown(value: str) -> str:
    if value == NOT_SET:
        return value
    if len(value) <= _SHOWN_CHARACTERS:
        return repr(value)
    return f"{value[:_SHOWN_CHARACTERS]!r}... ({len(value)} characters)"
