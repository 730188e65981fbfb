"""PEM files of the hooks API: read at the start, and again whenever they are renewed.

If a new file cannot be used, the previous one stays in use, so a file that is half written does no
harm.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from groundwork.files import Signature, signature_of

log = structlog.get_logger(__name__)

LARGEST_AUTHORITY: Final = 16 * 1024
"""The certificate is sent with every job; a bundle of all public authorities is ten times as large.
"""
_LOOK_SECONDS: Final = 5.0

_Signatures = tuple[Signature, ...] | None


class PemFiles:
    """Files that belong together; `what` names them for people. `take` reads them and takes them
    into use.
    """

    def __init__(self, *paths: Path, what: str, take: Callable[[], None]) -> None:
        self._paths = paths
        self._what = what
        self._take = take
        self._signatures: _Signatures = None

    def load(self) -> None:
        """Take them into use. Raises OSError if that fails."""
        signatures = self._looked()
        self._take()
        self._signatures = signatures

    async def follow(self) -> None:
        """Take them into use again whenever they change. Never returns."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                seen = await asyncio.to_thread(self._looked)
                if seen is None or seen != self._signatures:
                    await asyncio.to_thread(self.load)
                    log.info("hooks API file renewed", what=self._what, file=str(self._paths[0]))
            except OSError as error:
                log.warning("hooks API file cannot be used", what=self._what, error=str(error))

    def _looked(self) -> _Signatures:
        """The signatures of the files; None if a file has just changed, as the other may follow."""
        found = [signature_of(path.stat()) for path in self._paths]
        known = tuple(it for it in found if it is not None)
        return known if len(known) == len(found) else None


class Certificate:
    """A TLS context with the certificate and the key that two files hold."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self.files = PemFiles(certificate, key, what="certificate", take=self._take)
        self.context = _context()

    def _take(self) -> None:
        try:
            # A half-written pair must not spoil the context in use.
            for context in (_context(), self.context):
                # Without a pass phrase OpenSSL would ask for it on the terminal, and stand still.
                context.load_cert_chain(*self._files, password="")
        except OSError as error:
            certificate, key = self._files
            raise OSError(
                f"expected a certificate chain in {certificate} and its key in {key}, both in PEM, "
                f"and the key without a pass phrase ({error})"
            ) from None


class Authority:
    """The authority that signed the certificate. Scripts of placeholders get `text`, its PEM."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.files = PemFiles(path, what="authority", take=self._take)
        self.text = ""

    def _take(self) -> None:
        with self._path.open("rb") as file:
            raw = file.read(LARGEST_AUTHORITY + 1)
        if len(raw) > LARGEST_AUTHORITY:
            raise OSError(
                f"{self._path}: more than {LARGEST_AUTHORITY} bytes; expected only the certificate "
                "of the authority that signed that of the hooks API"
            )
        try:
            text = raw.decode("ascii")
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
        except (ValueError, ssl.SSLError) as error:
            raise OSError(f"{self._path}: expected a certificate in PEM ({error})") from None
        self.text = text


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
