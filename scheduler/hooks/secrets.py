"""The secret of Slurm's hook scripts, and the tokens that jobs get instead of it.

A token is never part of a repr, a log line or an error text.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from pathlib import Path
from typing import Final

import structlog

from groundwork.files import Signature, read_if_changed
from scheduler.observe.clock import monotonic

log = structlog.get_logger(__name__)

SHORTEST: Final = 16
_MAX_BYTES: Final = 16 * 1024
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_CHECK_SECONDS: Final = 1.0


class SecretError(Exception):
    """The file has no usable secret. The text names the file and says what was expected."""


class Secrets:
    """The secrets in a file, one a line, read again when the file changes.

    All of them are accepted, so that a new one can be rolled out before the old one is removed.
    Tokens of jobs are made with the first. While the file cannot be read, the last good secrets
    stay in use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[bytes, ...] = ()
        self._signature: Signature | None = None
        self._look_at = float("-inf")

    def __repr__(self) -> str:
        return f"Secrets({str(self._path)!r})"

    async def load(self) -> None:
        """Read the file if it has changed. Raises SecretError if there was no usable secret yet."""
        self._look_at = monotonic() + _CHECK_SECONDS
        try:
            read = await asyncio.to_thread(_read_if_changed, self._path, self._signature)
        except (OSError, SecretError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            if not self._known:
                raise SecretError(f"{self._path}: {why}") from None
            log.warning("the hooks API keeps its former secret", file=str(self._path), error=why)
            return
        if read is not None:
            self._signature, self._known = read

    async def admits(self, token: str) -> bool:
        """Whether the caller knows the site's secret."""
        await self._refresh()
        return _any_equal(token, self._known)

    async def admits_job(self, token: str, *, unit: str) -> bool:
        """Whether the caller is the placeholder of that unit, or knows the site's secret."""
        await self._refresh()
        return _any_equal(token, [*(_derived(it, unit) for it in self._known), *self._known])

    def job_token(self, unit: str) -> str:
        """The token of that unit's placeholder. It is good for questions about that unit only."""
        return _derived(self._known[0], unit).decode()

    async def _refresh(self) -> None:
        if monotonic() >= self._look_at:
            await self.load()


def _any_equal(token: str, expected: list[bytes] | tuple[bytes, ...]) -> bool:
    """Compares with all of them. The time that this takes does not depend on the secrets."""
    given = token.encode("utf-8", "surrogateescape")
    return any([hmac.compare_digest(given, it) for it in expected])  # noqa: C419 - no early end


def _derived(secret: bytes, unit: str) -> bytes:
    return hmac.new(secret, f"unit {unit}".encode(), hashlib.sha256).hexdigest().encode()


def _read_if_changed(
    path: Path, known: Signature | None
) -> tuple[Signature | None, tuple[bytes, ...]] | None:
    found = read_if_changed(path, known, most_bytes=_MAX_BYTES)
    return None if found is None else (found[0], _secrets_in(found[1]))


def _secrets_in(raw: bytes) -> tuple[bytes, ...]:
    lines = [line.strip() for line in raw.decode("ascii", "replace").splitlines()]
    found = [line for line in lines if line]
    good = all(len(line) >= SHORTEST and _TOKEN.fullmatch(line) for line in found)
    if not found or not good or len(raw) > _MAX_BYTES:
        raise SecretError(
            f"expected one secret a line, each of at least {SHORTEST} printable ASCII characters "
            f"without blanks, {_MAX_BYTES // 1024} KiB in all"
        )
    return tuple(line.encode() for line in found)
