"""What people gave, fit to be shown: a token or a password in it is not.

A setting that holds a secret by itself is never shown at all (`flags`). This is for what has one
by mistake: a password in an address, a token in the place of another value.
"""

from __future__ import annotations

import re
from typing import Final

_HIDDEN: Final = "***"
# A JWT: two parts in Base64 of JSON objects, which begin so, and a signature.
_JWT: Final = re.compile(r"eyJ[\w-]{4,}(?:\.[\w-]*){0,2}")
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*://")
_URL_ENDING: Final = re.compile(r"(?<=://)([^\s?#]*)[?#]\S*")


def redacted(text: str) -> str:
    """The text without tokens, without what stands before an `@`, and behind `?` of an address."""
    return _URL_ENDING.sub(rf"\1?{_HIDDEN}", _without_user(_JWT.sub(_HIDDEN, text)))


def _without_user(text: str) -> str:
    """Word for word: a password may itself have any character but a blank."""
    return re.sub(r"\S*@", _hide, text)


def _hide(match: re.Match[str]) -> str:
    scheme = _SCHEME.match(match[0].lstrip("'\"("))
    lead = match[0][: len(match[0]) - len(match[0].lstrip("'\"("))]
    return f"{lead}{scheme[0] if scheme else ''}{_HIDDEN}@"
