"""Explains errors of the connection to Slurm: their cause, and what to do about it.

`CAUSES` lists all of them. docs/runbooks.md has a row for each, and alerts name them.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import UnionType
from typing import Final
from urllib.parse import urlsplit

from groundwork.refused import nothing_listens
from scheduler.observe.trouble import Cause
from slurmapi import (
    SlurmBusy,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmNoApi,
    SlurmNoToken,
    SlurmRefused,
    SlurmStranger,
)
from slurmapi.jwt import Lifetime

CAUSES: Final = (
    *("token_missing", "token_expired", "token_refused", "not_an_administrator"),
    *("no_slurmrestd", "tls_expected", "tls_not_spoken", "tls_not_trusted"),
    *("refused", "unresolved", "timeout", "controller_away", "other_cluster", "other"),
)
# Slurm's own text may be too long for a line of /readyz.
_LONGEST_WORDS: Final = 300
_SLURMCTLD_PORT: Final = 6817
_BASE: Final = "--slurm-api-base"
_RENEWING: Final = "`scontrol token username=slurm lifespan=86400` on a Slurm host makes one"


class SlurmCauses:
    """`where` is --slurm-api-base. `token` names the source of the token, for people. `lifetime`
    returns how long the present token is valid, and `answered` whether Slurm has ever answered.
    """

    def __init__(
        self,
        where: str,
        *,
        token: str,
        lifetime: Callable[[], Lifetime],
        answered: Callable[[], bool],
    ) -> None:
        self._where = where
        self._token = token
        self._lifetime = lifetime
        self._answered = answered

    def of(self, error: SlurmError) -> Cause:
        """The cause of an error that does not concern a single job."""
        found = self._of_token(error) or self._of_connection(error) or self._of_answer(error)
        return found or Cause("other", f"Slurm does not answer as it should: {_one_line(error)}")

    def _of_token(self, error: SlurmError) -> Cause | None:
        if isinstance(error, SlurmNoToken):
            return Cause(
                "token_missing",
                f"{_one_line(error)}: expected the token of a Slurm administrator there; "
                f"{_RENEWING}",
            )
        if not (isinstance(error, SlurmDenied) and error.authentication):
            return None
        expired_at = self._lifetime().expires_at
        if expired_at <= time.time():
            return Cause(
                "token_expired",
                f"the token of {self._token} expired at {utc_text(expired_at)}: put a new one in "
                f"its place, and see that whatever renews it works; {_RENEWING}",
            )
        return Cause(
            "token_refused",
            f"Slurm refuses the token of {self._token}, which has not expired: {_one_line(error)}. "
            "It was signed with another key than AuthAltParameters=jwt_key= names, or slurmctld "
            "does not know its user",
        )

    def _of_connection(self, error: SlurmError) -> Cause | None:
        for it in _chain(error):
            match it:
                case ssl.SSLCertVerificationError():
                    return Cause(
                        "tls_not_trusted",
                        f"the certificate of {self._where} is not trusted: {it.verify_message}. "
                        "Name its authority by the variable SSL_CERT_FILE, and the host as the "
                        "certificate does",
                    )
                case ssl.SSLError():
                    return Cause(
                        "tls_not_spoken",
                        f"{self._where} does not speak TLS ({it.reason or 'handshake failed'}): "
                        f"slurmrestd usually speaks plain HTTP, {_BASE}=http://HOST:PORT",
                    )
                case socket.gaierror():
                    return Cause(
                        "unresolved",
                        f"the name in {_BASE}={self._where} is not found: {it.strerror}. Correct "
                        "it, or the DNS of this pod",
                    )
                # The second is a unix socket that does not exist.
                case OSError() if nothing_listens(it) or isinstance(it, FileNotFoundError):
                    return Cause(
                        "refused",
                        f"nothing listens at {self._where}: start slurmrestd there, or correct "
                        f"{_BASE}",
                    )
                case _:
                    continue
        return None

    def _of_answer(self, error: SlurmError) -> Cause | None:
        words = _one_line(error)
        if isinstance(error, SlurmStranger):
            return Cause("other_cluster", f"{words}: correct {_BASE} or --slurm-cluster")
        if isinstance(error, SlurmBusy) and (error.error_number or not error.status):
            return Cause(
                "controller_away",
                f"slurmrestd answers, but slurmctld does not: {words}; see `scontrol ping`",
            )
        if self._is_plain and ("HTTPS" in words or self._is_not_http(error)):
            return Cause(
                "tls_expected",
                f"{self._where} does not answer in plain HTTP ({words}): where it speaks TLS, "
                f"{_BASE} begins with https://",
            )
        if any(isinstance(it, SlurmNoApi | SlurmGarbled) for it in _chain(error)) or _is_text(
            error
        ):
            return Cause("no_slurmrestd", f"{self._no_slurmrestd()}: {words}")
        if _has(error, TimeoutError) or "in time" in words:
            return Cause(
                "timeout",
                f"{self._where} does not answer in time: a NetworkPolicy or firewall in between, "
                "or slurmrestd hangs",
            )
        return None

    def _no_slurmrestd(self) -> str:
        parts = urlsplit(self._where)
        if parts.scheme != "unix" and parts.port == _SLURMCTLD_PORT:
            return (
                f"{self._where} is not slurmrestd: {_SLURMCTLD_PORT} is the port of slurmctld, "
                "slurmrestd usually listens on 6820"
            )
        path = f" without {parts.path!r}" if parts.scheme != "unix" and parts.path else ""
        return (
            f"what answers at {self._where} is not slurmrestd, or has an unsupported version: "
            f"correct {_BASE}, usually http://HOST:6820{path}"
        )

    @property
    def _is_plain(self) -> bool:
        return self._where.startswith("http:")

    def _is_not_http(self, error: SlurmError) -> bool:
        """Whether Slurm has never answered, and now the answer was not HTTP or the connection was
        cut. A server that expects TLS behaves like that.
        """
        return not self._answered() and any(
            isinstance(it, SlurmGarbled | SlurmInterrupted)
            and "without JSON" not in str(it)
            and "in time" not in str(it)
            for it in _chain(error)
        )


def _is_text(error: SlurmError) -> bool:
    """Whether this is a refusal without an error number of Slurm."""
    return isinstance(error, SlurmRefused) and not error.error_number


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, its cause, the cause of that, and so on."""
    while error is not None:
        yield error
        error = error.__cause__


def _has(error: SlurmError, kind: type | UnionType) -> bool:
    return any(isinstance(it, kind) for it in _chain(error))


def _one_line(error: SlurmError) -> str:
    return " ".join(str(error).split())[:_LONGEST_WORDS]


def utc_text(epoch: float) -> str:
    """The moment as people read it, in UTC."""
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%d %H:%M:%S} UTC"
