"""How long a token is good for, as it says itself: two claims of a JWT, read and not verified.

`scontrol token` writes both; Slurm refuses a token without `exp` (measured on 26.05.5).
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Lifetime:
    """From when until when a token is good, in seconds of the epoch; NaN where it does not say."""

    issued_at: float = math.nan
    expires_at: float = math.nan


class _Claims(msgspec.Struct):
    exp: float = math.nan
    iat: float = math.nan


_CLAIMS = msgspec.json.Decoder(_Claims)


def lifetime(token: str) -> Lifetime:
    """What the token says of itself; nothing where it is no JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return Lifetime()
    body = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        claims = _CLAIMS.decode(base64.b64decode(body, altchars="-_", validate=True))
    except (ValueError, msgspec.DecodeError):  # the former where it is no ASCII, no Base64
        return Lifetime()
    return Lifetime(claims.iat, claims.exp)
