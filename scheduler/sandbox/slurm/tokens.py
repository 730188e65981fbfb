"""auth/jwt: mint and verify the HS256 tokens that slurmrestd passes through to slurmctld.

Claims as measured on 26.05.5 and 24.11.5: ``sun`` names the user, ``exp`` is required, ``iat`` is
ignored.
"""

import base64
import hashlib
import hmac
import time

import msgspec


class _Claims(msgspec.Struct):
    sun: str
    exp: int


class _Header(msgspec.Struct):
    alg: str


def mint_token(key: bytes, user: str, lifespan: float = 3600.0) -> str:
    """Return a token for ``user`` valid for ``lifespan`` seconds, as ``scontrol token`` does."""
    now = int(time.time())
    header = _encode(msgspec.json.encode({"alg": "HS256", "typ": "JWT"}))
    claims = {"exp": now + int(lifespan), "iat": now, "sun": user}
    signed = header + b"." + _encode(msgspec.json.encode(claims))
    return (signed + b"." + _encode(_sign(key, signed))).decode()


def user_of_token(key: bytes, token: str, *, now: float) -> str | None:
    """Return the user a valid token names, None for a wrong, expired or malformed one."""
    try:
        signed, _, signature = token.encode().rpartition(b".")
        header, _, claims_text = signed.partition(b".")
        if msgspec.json.decode(_decode(header), type=_Header).alg != "HS256":
            return None
        if not hmac.compare_digest(_sign(key, signed), _decode(signature)):
            return None
        claims = msgspec.json.decode(_decode(claims_text), type=_Claims)
    except (ValueError, msgspec.MsgspecError):
        return None
    return claims.sun if claims.exp > now else None


def _sign(key: bytes, signed: bytes) -> bytes:
    return hmac.new(key, signed, hashlib.sha256).digest()


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _decode(data: bytes) -> bytes:
    return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))
