"""Cuts texts that are written on objects or kept for long."""

from __future__ import annotations

from typing import Final

MOST_TEXT_BYTES: Final = 1024
"""The longest text that the Events API allows. A longer message in a condition helps nobody, and
each watcher pays for it.
"""
_END: Final = "…"


def clipped(text: str, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """The text if it takes at most `most_bytes` in UTF-8; else its beginning and an ellipsis."""
    if len(text) <= most_bytes // 4:
        return text
    raw = text.encode(errors="replace")
    if len(raw) <= most_bytes:
        return text
    return raw[: most_bytes - len(_END.encode())].decode(errors="ignore") + _END
