"""Text from pods, made fit for a terminal.

Whoever creates pods chooses annotations and can have containers that report any text. Raw control
characters could move the cursor, rewrite what stands above, or set the clipboard.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_END: Final = "…"
_WIDE: Final = frozenset({"W", "F"})


def shown(text: str) -> str:
    """The text with everything escaped that is not printable: control characters, line ends, and
    what changes the direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() else ascii(it)[1:-1] for it in text)


def width(text: str) -> int:
    """The columns that printable text takes, or more: combining characters count as one, so that
    text of this width is also of bounded length.
    """
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(it) in _WIDE else 1 for it in text)


def cut(text: str, columns: int) -> str:
    """The text if it fits into this many columns; else its beginning and an ellipsis."""
    if width(text) <= columns:
        return text
    kept, left = "", columns - width(_END)
    for character in text:
        left -= width(character)
        if left < 0:
            break
        kept += character
    return kept + _END
