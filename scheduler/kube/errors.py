"""The errors of requests to the API server, as one tree.

KubeError
├─ KubeUnreachable       not sent: there was no connection
├─ KubeFenced            not sent: another process may lead by now
├─ KubeInterrupted       perhaps applied: the answer was lost, so read before writing again
├─ KubeTooLarge          answered, but with more bytes than the caller accepts
├─ KubeRefused           refused by the server: status, reason, message, retry_after
│   ├─ Unauthorized  401
│   ├─ Forbidden     403
│   ├─ NamespaceEnds 403, for a new object in a namespace that is being deleted
│   ├─ NotFound      404
│   ├─ Conflict      409
│   ├─ VersionTooOld 410
│   ├─ Invalid       422
│   └─ TooMany       429
└─ KubeGarbled           answered, but the answer was not understood
    └─ KubeTooDeep       it may be, once what is nested too deeply is cut (`depth.py`)

The first level answers the question that matters most to a scheduler: was the request not sent,
perhaps applied, or answered?
"""

# ruff: noqa: N818 - named for what happened, as an `except` clause reads

from __future__ import annotations

import re
from collections.abc import Collection
from typing import ClassVar, Final

_CONCERN_THIS_REQUEST: Final = frozenset({400, 403, 405, 413, 415, 422})
# Words in the refusals of webhooks and ValidatingAdmissionPolicies ("denied"), and of the server
# for a webhook that does not answer ("failed calling webhook", status 500).
_ADMISSION: Final = re.compile(r"denied (?:the )?request|failed calling webhook")
LONGEST_RETRY_AFTER_SECONDS = 60.0  # a longer pause must be a mistake
LONGEST_MESSAGE = 512  # an API server repeats whole objects in some messages; logs need the start


class WentBackError(Exception):
    """The API server shows an earlier state than before: its etcd was restored from a backup.
    Changes that it showed before may not exist any more. This is no KubeError, because trying again
    does not help.
    """


def went_back(error: BaseException) -> WentBackError | None:
    """The error itself if it is a WentBackError. For an exception group of WentBackErrors alone,
    the first of them. None for any other error.
    """
    if isinstance(error, WentBackError):
        return error
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [went_back(it) for it in error.exceptions]
    return found[0] if all(found) else None


class KubeError(Exception):
    """A request failed, on its way to the API server or at the server."""

    outcome: ClassVar[str] = "error"
    """A word from a closed set; it is used as the label of a metric."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later without any change by a person."""
        return False

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks the client to wait; None if it asks for no wait."""
        return None


class KubeUnreachable(KubeError):
    """The request never left: no route, connection refused, TLS failed."""

    outcome = "unreachable"

    @property
    def retryable(self) -> bool:
        """True: nothing was sent, so sending again is safe."""
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


class KubeTooLarge(KubeError):
    """The answer has more bytes than the caller accepts: the rest of it was not read."""

    outcome = "too_large"


class KubeGarbled(KubeError):
    """The answer is not what the Kubernetes API describes."""

    outcome = "garbled"


class KubeTooDeep(KubeGarbled):
    """The answer is nested too deeply to be decoded as it is."""


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
        limit = LONGEST_RETRY_AFTER_SECONDS
        self._retry_after = None if retry_after is None else min(retry_after, limit)

    def __str__(self) -> str:
        said = " ".join(part for part in (self.reason, self.message) if part)
        return f"{self.status} {said}".strip()

    @property
    def retryable(self) -> bool:
        """True for trouble of the server itself, and if it says when to come back. False for a
        refusal of the request.
        """
        return self.status >= 500 or self._retry_after is not None

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait, at most a minute, from the Retry-After header or the Status' details;
        None if neither says.
        """
        return self._retry_after

    @property
    def concerns_this_request(self) -> bool:
        """Whether the refusal is about this request, so that the server will refuse it again. The
        cause is a rule, a missing right, a quota, or an admission webhook; webhooks may answer with
        any status.
        """
        return self.status in _CONCERN_THIS_REQUEST or _ADMISSION.search(self.message) is not None

    @property
    def maybe_applied(self) -> bool:
        """Whether the write may have been applied. A 5xx may come after the write, if etcd timed
        out or a proxy gave up waiting for the answer.
        """
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
    def concerns_this_request(self) -> bool:
        """False: the pod will be deleted with its namespace, which the watch is about to show."""
        return False


class NotFound(KubeRefused):
    """404: no such object, or no such namespace."""

    outcome = "not_found"


class Conflict(KubeRefused):
    """409: the object is not in the state that the request assumes."""

    outcome = "conflict"


class VersionTooOld(KubeRefused):
    """410: the resourceVersion or continue token is older than the server remembers."""

    outcome = "gone"


class Invalid(KubeRefused):
    """422: the object would be invalid."""

    outcome = "invalid"


class TooMany(KubeRefused):
    """429: API Priority and Fairness, or a PodDisruptionBudget, asks to try again later."""

    outcome = "too_many"

    @property
    def retryable(self) -> bool:
        """True: the server refused before it did anything."""
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
    """An error of the class that fits the HTTP status (or a Status object's code) and causes."""
    kind = _BY_STATUS.get(status, KubeRefused)
    if kind is Forbidden and _NAMESPACE_ENDS in causes:
        kind = NamespaceEnds
    return kind(status, reason=reason, message=message, retry_after=retry_after)
