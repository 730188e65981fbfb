"""When a token was issued and when it expires: two claims of the JWT, read but not verified.

`scontrol token` writes both. Slurm refuses a token without `exp` (measured on 26.05.5).
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a token was issued and when it expires, in Unix seconds; NaN if it does not say."""

    issued_at: float = math.nan
    expires_at: float = math.nan


class _Claims(msgspec.Struct):
    exp: float = math.nan
    iat: float = math.nan


_CLAIMS = msgspec.json.Decoder(_Claims)


def lifetime(token: str) -> Lifetime:
    """The lifetime that the token states; NaN for both times if it is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return Lifetime()
    body = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        claims = _CLAIMS.decode(base64.b64decode(body, altchars="-_", validate=True))
    except (ValueError, msgspec.DecodeError):  # ValueError: not ASCII, or not Base64
        return Lifetime()
    return Lifetime(claims.iat, claims.exp)
