"""Names the cause of a failed request to the API server, and says in words what helps."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import Final

from groundwork.refused import nothing_listens
from scheduler.kube.errors import (
    KubeError,
    KubeFenced,
    KubeGarbled,
    KubeRefused,
    KubeTooLarge,
    Unauthorized,
)
from scheduler.observe.trouble import Cause

CAUSES: Final = (
    *("unauthorized", "tls_not_trusted", "tls_not_spoken", "refused", "unresolved"),
    *("timeout", "no_api_server", "other"),
)


def cause_of(error: KubeError, *, server: str) -> Cause | None:
    """The cause, if the error shows that the API server cannot be used; None for other errors."""
    if isinstance(error, Unauthorized):
        return Cause(
            "unauthorized",
            f"the API server {server} refuses the credentials ({error}): a token that has expired "
            "or is another cluster's; correct the kubeconfig or the service account",
        )
    if isinstance(error, KubeFenced | KubeRefused | KubeTooLarge):
        return None
    return _of_connection(error, server) or _of_answer(error, server)


def _of_connection(error: KubeError, server: str) -> Cause | None:
    for it in _chain(error):
        match it:
            case ssl.SSLCertVerificationError():
                return Cause(
                    "tls_not_trusted",
                    f"the certificate of the API server {server} is not trusted: "
                    f"{_tls_text(it)}. The certificate authority of the kubeconfig "
                    "(certificate-authority-data) is another cluster's, or out of date",
                )
            case ssl.SSLError():
                return Cause(
                    "tls_not_spoken",
                    f"{server} does not speak TLS ({_tls_text(it)}): correct the "
                    "server of the kubeconfig",
                )
            case socket.gaierror():
                return Cause(
                    "unresolved",
                    f"the name of the API server {server} is not found: {it.strerror}. Correct the "
                    "server of the kubeconfig, or the DNS",
                )
            case OSError() if nothing_listens(it):
                return Cause(
                    "refused",
                    f"nothing listens at {server}: the API server is away, or the address wrong",
                )
            case TimeoutError():
                return Cause(
                    "timeout",
                    f"the API server {server} does not answer in time: it is away or overloaded, "
                    "or a NetworkPolicy or firewall is in between",
                )
            case _:
                continue
    return None


def _of_answer(error: KubeError, server: str) -> Cause:
    if isinstance(error, KubeGarbled):
        text = f"what answers at {server} is no Kubernetes API server ({error})"
        return Cause("no_api_server", f"{text}: correct the server of the kubeconfig")
    return Cause("other", f"the API server {server} does not answer as it should: {error}")


def _tls_text(error: ssl.SSLError) -> str:
    """The text of a TLS error. aiohttp's TLS errors are ssl.SSLErrors without that class's
    attributes.
    """
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    return str(getattr(inner, "verify_message", "") or getattr(inner, "reason", "") or inner)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and the chain of its causes. aiohttp keeps the error of the operating system
    or of the certificate check in an attribute; it is part of the chain.
    """
    while error is not None:
        yield error
        inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None)
        if isinstance(inner, BaseException) and inner is not error:
            yield inner
        error = error.__cause__
