"""Where the token of each request comes from: a fixed one, or a file that somebody renews.

A token is never part of a repr, a log line or an error text. `session.py` asks for a token before
each request, and once more if Slurm refuses it. `groundwork/files.py` notices a renewed file. The
tokens for the API server: `scheduler/kube/credentials.py`.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final, Protocol

from groundwork.files import Signature, read_if_changed
from slurmapi.errors import SlurmNoToken
from slurmapi.jwt import Lifetime, lifetime

CHECK_SECONDS: Final = 1.0
_MAX_BYTES: Final = 64 * 1024
_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e]+")
# `scontrol token` prints this prefix, and its output is what people put into files.
_SCONTROL_PREFIX: Final = "SLURM_JWT="


class TokenSource(Protocol):
    """The source of the JWT for `X-SLURM-USER-TOKEN`."""

    @property
    def lifetime(self) -> Lifetime:
        """The lifetime of the token that was returned last."""
        ...

    async def token(self) -> str:
        """The token to use now; raises SlurmNoToken when there is none."""
        ...

    def invalidate(self) -> None:
        """Note that the token was refused, so that it is read again before it is used again."""
        ...


class StaticToken:
    """One token for the life of the process."""

    def __init__(self, token: str) -> None:
        self._token = _token_in(token, origin="the given token")
        self.lifetime = lifetime(self._token)

    def __repr__(self) -> str:
        return "StaticToken(...)"

    async def token(self) -> str:
        """The token."""
        return self._token

    def invalidate(self) -> None:
        """Do nothing: there is no other token."""


class FileToken:
    """The token in a file, read again when the file changes (time, inode or size) or after a
    refusal.

    The file is checked at most once every CHECK_SECONDS, outside of the event loop. A file
    that cannot be read for a moment (a renewal in progress) leaves the last good token in use,
    unless that one was refused.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token: str | None = None
        self._signature: Signature | None = None
        self._look_at = float("-inf")
        self.lifetime = Lifetime()

    def __repr__(self) -> str:
        return f"FileToken({str(self._path)!r})"

    async def token(self) -> str:
        """The file's token; raises SlurmNoToken when there is no readable one."""
        if self._token is None or _now() >= self._look_at:
            await self._refresh()
        if self._token is None:
            raise SlurmNoToken(f"token file {self._path} holds no token yet")
        return self._token

    def invalidate(self) -> None:
        """Forget the token, so that the next call reads the file."""
        self._token = None
        self._signature = None

    async def _refresh(self) -> None:
        known = self._signature if self._token is not None else None
        try:
            read = await asyncio.to_thread(_read_if_changed, self._path, known)
        except (OSError, SlurmNoToken) as error:
            if self._token is None:
                raise SlurmNoToken(f"token file {self._path}: {_reason(error)}") from None
            read = None
        if read is not None:
            self._signature, self._token = read
            self.lifetime = lifetime(self._token)
        self._look_at = _now() + CHECK_SECONDS


def _now() -> float:
    return asyncio.get_running_loop().time()


def _reason(error: OSError | SlurmNoToken) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return error.description


def _read_if_changed(path: Path, known: Signature | None) -> tuple[Signature | None, str] | None:
    found = read_if_changed(path, known, most_bytes=_MAX_BYTES)
    if found is None:
        return None
    signature, raw = found
    return signature, _token_in(raw.decode("ascii", "replace"), origin="its content")


def _token_in(text: str, *, origin: str) -> str:
    token = text.strip().removeprefix(_SCONTROL_PREFIX)
    if not token:
        raise SlurmNoToken(f"{origin} is empty")
    if not _HEADER_SAFE.fullmatch(token):
        raise SlurmNoToken(f"{origin} is no token: expected one line of printable ASCII")
    return token
