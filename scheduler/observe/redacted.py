"""Removes tokens and passwords from values that people gave, before they are shown.

A setting that is a secret is never shown at all (see `flags`). This module is for secrets that are
in a value by mistake: a password in a URL, or a token in place of another value.
"""

from __future__ import annotations

import re
from typing import Final

_HIDDEN: Final = "***"
# A JWT: two JSON objects in Base64, the first of which therefore begins with "eyJ", and a
# signature.
_JWT: Final = re.compile(r"eyJ[\w-]{4,}(?:\.[\w-]*){0,2}")
_SCHEME: Final = re.compile(r"[A-Za-z][\w+.-]*://")
_URL_ENDING: Final = re.compile(r"(?<=://)([^\s?#]*)[?#]\S*")


def redacted(text: str) -> str:
    """The text without JWTs, without anything before an `@`, and without the query of a URL."""
    return _URL_ENDING.sub(rf"\1?{_HIDDEN}", _without_user(_JWT.sub(_HIDDEN, text)))


def _without_user(text: str) -> str:
    """Works on whole words, since a password may contain any character but a blank."""
    return re.sub(r"\S*@", _hide, text)


def _hide(match: re.Match[str]) -> str:
    scheme = _SCHEME.match(match[0].lstrip("'\"("))
    lead = match[0][: len(match[0]) - len(match[0].lstrip("'\"("))]
    return f"{lead}{scheme[0] if scheme else ''}{_HIDDEN}@"
