"""What can go wrong between us and the API server, as one tree.

KubeError
├─ KubeUnreachable       never sent
├─ KubeInterrupted       maybe applied: the answer was lost, look before writing again
├─ KubeRefused           answered no: status, reason, message, retry_after
│   ├─ Unauthorized  401
│   ├─ Forbidden     403
│   ├─ NamespaceEnds 403, of whatever would be new in a namespace that is being deleted
│   ├─ NotFound      404
│   ├─ Conflict      409
│   ├─ VersionTooOld 410
│   ├─ Invalid       422
│   └─ TooMany       429
└─ KubeGarbled           answered, and not understood

The first split is the question that matters to a scheduler: was it sent, maybe, or answered?
"""

# ruff: noqa: N818 - named for what happened, as an `except` clause reads

from __future__ import annotations

import re
from collections.abc import Collection
from typing import ClassVar, Final

_ABOUT_THIS: Final = frozenset({400, 403, 405, 413, 415, 422})
# The words of webhooks, of ValidatingAdmissionPolicies and of webhooks that do not answer (500).
_ADMISSION: Final = re.compile(r"denied (?:the )?request|failed calling webhook")
LONGEST_MESSAGE = 512  # an API server repeats whole objects in some messages; logs need the start


class WentBackError(Exception):
    """The API server shows an earlier state than before: its etcd was restored from a backup. So
    what was learnt from it may never have happened. This is no KubeError, because trying again does
    not help.
    """


def went_back(error: BaseException) -> WentBackError | None:
    """The error itself if it is a WentBackError, or the first one of an exception group that has
    no other kind of error; otherwise None.
    """
    if isinstance(error, WentBackError):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [went_back(it) for it in error.exceptions]
    return found[0] if all(found) else None


class KubeError(Exception):
    """A request failed, on the way to the API server or there."""

    outcome: ClassVar[str] = "error"
    """A word from a closed set, which can be the label of a metric."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later although nobody changes anything."""
        return False

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks the client to wait; None if it does not."""
        return None


class KubeUnreachable(KubeError):
    """The request never left: no route, connection refused, TLS failed."""

    outcome = "unreachable"

    @property
    def retryable(self) -> bool:
        """Nothing was sent, so sending is safe."""
        return True


class KubeFenced(KubeError):
    """A write that was not sent: another process may lead by now."""

    outcome = "fenced"


class KubeInterrupted(KubeError):
    """The request was sent, or may have been, and no whole answer came back."""

    outcome = "interrupted"

    @property
    def retryable(self) -> bool:
        """True for an idempotent request. For any other request the caller looks at the object
        first.
        """
        return True


class KubeGarbled(KubeError):
    """The answer is not what the Kubernetes API describes."""

    outcome = "garbled"


class KubeRefused(KubeError):
    """The server answered with a status of 400 or more."""

    outcome = "refused"

    def __init__(
        self, status: int, *, reason: str = "", message: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message[:LONGEST_MESSAGE]
        self._retry_after = retry_after

    def __str__(self) -> str:
        said = " ".join(part for part in (self.reason, self.message) if part)
        return f"{self.status} {said}".strip()

    @property
    def retryable(self) -> bool:
        """Trouble of the server itself passes; a refusal of the request does not."""
        return self.status >= 500 or self._retry_after is not None

    @property
    def retry_after(self) -> float | None:
        """Seconds, from the Retry-After header or the Status' details."""
        return self._retry_after

    @property
    def about_this(self) -> bool:
        """Whether this request was refused as such, so that it will be refused again: by a rule, a
        right, a quota or an admission webhook, which may answer with any status.
        """
        return self.status in _ABOUT_THIS or _ADMISSION.search(self.message) is not None

    @property
    def maybe_applied(self) -> bool:
        """A 5xx may come after the write: etcd timed out, or a proxy gave up on the answer."""
        return self.status >= 500


class Unauthorized(KubeRefused):
    """401: the credentials are missing, wrong or expired."""

    outcome = "unauthorized"


class Forbidden(KubeRefused):
    """403: the caller is known, and may not do this."""

    outcome = "forbidden"


class NamespaceEnds(KubeRefused):
    """403: nothing may be created in a namespace that is being deleted. No right is missing."""

    outcome = "namespace_ends"

    @property
    def about_this(self) -> bool:
        """False: the pod will be deleted with its namespace, which the watch is about to show."""
        return False


class NotFound(KubeRefused):
    """404: no such object, or no such namespace."""

    outcome = "not_found"


class Conflict(KubeRefused):
    """409: the object is not in the state the request supposes."""

    outcome = "conflict"


class VersionTooOld(KubeRefused):
    """410: the resourceVersion or continue token is older than the server remembers."""

    outcome = "gone"


class Invalid(KubeRefused):
    """422: the object would be invalid."""

    outcome = "invalid"


class TooMany(KubeRefused):
    """429: priority and fairness, or a disruption budget, says later."""

    outcome = "too_many"

    @property
    def retryable(self) -> bool:
        """Refused before anything was done."""
        return True


# metav1.StatusCause of k8s.io/api/core/v1: NamespaceTerminatingCause.
_NAMESPACE_ENDS: Final = "NamespaceTerminating"

_BY_STATUS: dict[int, type[KubeRefused]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: VersionTooOld,
    422: Invalid,
    429: TooMany,
}


def refused(
    status: int,
    *,
    reason: str = "",
    message: str = "",
    retry_after: float | None = None,
    causes: Collection[str] = (),
) -> KubeRefused:
    """The error class that fits an HTTP status (or a Status object's code) and its causes."""
    kind = _BY_STATUS.get(status, KubeRefused)
    if kind is Forbidden and _NAMESPACE_ENDS in causes:
        kind = NamespaceEnds
    return kind(status, reason=reason, message=message, retry_after=retry_after)
