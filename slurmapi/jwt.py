"""What a token says of itself: when it was issued, when it expires, and whose it is. These claims
of the JWT are read but not verified.

`scontrol token` writes all three. Slurm refuses a token without `exp` (measured on 26.05.5).
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
    sun: object = None


_CLAIMS = msgspec.json.Decoder(_Claims)


def lifetime(token: str) -> Lifetime:
    """The lifetime that the token states; NaN for both times if it is not a JWT."""
    claims = _claims(token)
    return Lifetime(claims.iat, claims.exp)


def user_of(token: str) -> str:
    """The Slurm user that the token names; "" if it is not a JWT, or names none."""
    user = _claims(token).sun
    return user if isinstance(user, str) else ""


def _claims(token: str) -> _Claims:
    parts = token.split(".")
    if len(parts) != 3:
        return _Claims()
    body = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        return _CLAIMS.decode(base64.b64decode(body, altchars="-_", validate=True))
    except (ValueError, msgspec.DecodeError):  # ValueError: not ASCII, or not Base64
        return _Claims()
