"""Problems of a pod, worded so that its owner can correct them."""

import msgspec

NOT_SET = "not set"
_SHOWN_CHARACTERS = 80


class Problem(msgspec.Struct, frozen=True):
    """One problem: the full annotation key or spec path, its value, and what would be accepted.

    `known_as` is SUNK's message for the same problem.
    """

    field: str
    value: str
    expected: str
    known_as: str = ""

    @property
    def text(self) -> str:
        """One sentence for people: `known_as` if there is one, field, value (shortened, control
        characters escaped), and what is expected.
        """
        text = f"{self.field} is {_quoted(self.value)}; expected {self.expected}"
        return f"{self.known_as}: {text}" if self.known_as else text


class NotAcceptableError(ValueError):
    """A value was refused; the message says what would be accepted."""


def _quoted(value: str) -> str:
    if value == NOT_SET:
        return value
    if len(value) <= _SHOWN_CHARACTERS:
        return repr(value)
    return f"{value[:_SHOWN_CHARACTERS]!r}... ({len(value)} characters)"
