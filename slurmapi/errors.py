"""What can go wrong with a call to slurmrestd, as one tree.

The first question is the one that matters to a scheduler: was the request never sent, maybe acted
upon, or answered? `retryable` and `retry_after` are decided here once, so that no caller has to
interpret error numbers; a `Retry-After` is limited where the header is read (`http1.py`). Whether a
call may be repeated at all is decided in `session.py`: reads, and a write that was rejected for its
token or its path, so that Slurm has not acted on it.

    SlurmError
    |- SlurmUnreachable   never sent
    |- SlurmFenced        never sent, because this process may not write any more
    |- SlurmInterrupted   maybe sent: Slurm may or may not have acted
    |- SlurmRefused       answered: no
    |  |- SlurmDenied        the token lacks the right, or is not valid any more
    |  |  `- SlurmNoToken    there is no token to send: nothing was sent
    |  |- SlurmNoSuchJob     Slurm's own error 2017 and nothing else
    |  `- SlurmInvalid       will never work as requested
    |- SlurmBusy          not possible now: try later
    |- SlurmStranger      answered by another Slurm
    |- SlurmNoApi         answered by a server without a known version of slurmrestd's API
    `- SlurmGarbled       an answer that cannot be read
       `- SlurmUnreadable    Slurm's own answer about a job, and the next one will be the same
"""

from __future__ import annotations

from typing import ClassVar


class SlurmError(Exception):
    """Root of everything this package raises on purpose."""

    retryable: ClassVar[bool] = False
    outcome: ClassVar[str] = "error"

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SlurmUnreachable(SlurmError):  # noqa: N818 - reads as what happened
    """The request was never sent, so it can be repeated without doing anything twice."""

    retryable = True
    outcome = "unreachable"


class SlurmFenced(SlurmError):  # noqa: N818 - reads as what happened
    """A write was not sent, because the caller had no permission to write at that time."""

    outcome = "fenced"


class SlurmInterrupted(SlurmError):  # noqa: N818 - reads as what happened
    """The answer is lost, so Slurm may or may not have carried out the request.

    `job_id` is set if a submit is known to have created a job that could not be cancelled again.
    """

    retryable = True
    outcome = "interrupted"

    def __init__(
        self, message: str, *, retry_after: float | None = None, job_id: int | None = None
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.job_id = job_id


class SlurmBusy(SlurmError):  # noqa: N818 - reads as what happened
    """Slurm cannot do this now: the controller is down or overloaded, or a limit is reached that
    will be free when other jobs end.
    """

    retryable = True
    outcome = "busy"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        error_number: int = 0,
        status: int = 0,
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.error_number = error_number
        self.status = status


class SlurmGarbled(SlurmError):  # noqa: N818 - reads as what happened
    """The answer is not HTTP, not JSON, or lacks a required part. It says nothing about any job."""

    outcome = "garbled"


class SlurmUnreadable(SlurmGarbled):
    """The answer is too large, or it is about a job and none of its records can be read as that
    job. This happens with an array whose first task has gone. Asking again gives the same answer.
    """


class SlurmStranger(SlurmError):  # noqa: N818 - reads as what happened
    """The answer is from another Slurm, so it says nothing about our jobs.

    `job_id` is set if that Slurm has created a job.
    """

    outcome = "stranger"

    def __init__(self, found: str, *, expected: str, job_id: int | None = None) -> None:
        super().__init__(
            f"the answer comes from the Slurm cluster {found!r}, expected {expected!r}"
        )
        self.found = found
        self.expected = expected
        self.job_id = job_id


class SlurmNoApi(SlurmError):  # noqa: N818 - reads as what happened
    """404 without an error of Slurm: from another program, from slurmctld's own port, or for a
    wrong path. It says nothing about any job, so it does not count as a refusal.
    """

    outcome = "refused"


class SlurmRefused(SlurmError):  # noqa: N818 - reads as what happened
    """Slurm has read the request and refused it.

    `error_number` is Slurm's (0 if the answer has none or nothing was sent), and `status` is the
    HTTP status (0 if nothing was sent).
    """

    outcome = "refused"

    def __init__(self, description: str, *, error_number: int = 0, status: int = 0) -> None:
        super().__init__(_sentence(description, error_number, status))
        self.error_number = error_number
        self.status = status
        self.description = description


class SlurmDenied(SlurmRefused):
    """The token is missing, expired or wrong, or its user may not do this.

    `authentication` is true in the first case, in which another token may help.
    """

    outcome = "denied"

    @property
    def authentication(self) -> bool:
        """Whether the token itself was refused."""
        return self.status in AUTHENTICATION_STATUSES or self.error_number in _AUTHENTICATION


class SlurmNoToken(SlurmDenied):
    """The file of the token is missing, empty, or holds something else. Nothing was sent."""

    @property
    def authentication(self) -> bool:
        """True: a token would help."""
        return True


class SlurmNoSuchJob(SlurmRefused):
    """The controller answered that it knows no such job (error 2017)."""

    outcome = "no_such_job"


class SlurmInvalid(SlurmRefused):
    """The request will never work as requested.

    `warnings` has Slurm's remarks. They are all it says if it ignored a job because of wrong types.
    """

    outcome = "invalid"

    def __init__(
        self,
        description: str,
        *,
        error_number: int = 0,
        status: int = 0,
        warnings: tuple[str, ...] = (),
    ) -> None:
        super().__init__(description, error_number=error_number, status=status)
        self.warnings = warnings


def _sentence(description: str, error_number: int, status: int) -> str:
    marks = [f"Slurm error {error_number}"] if error_number else []
    marks += [f"HTTP {status}"] if status else []
    return f"{description} ({', '.join(marks)})" if marks else description


# Numbers are those of slurm_errno.h, 26.05. slurmrestd 26.05.5 uses the status 511 to pass on a
# refusal of slurmctld (measured).
AUTHENTICATION_STATUSES = frozenset({401, 511})
_AUTHENTICATION = frozenset({1007, 6000, 6001, 6004, 6007, 6008, 6009, 6010, 6011, 9008})
# 1 and 13 are EPERM and EACCES of errno(3).
_PERMISSION = frozenset({1, 13, 2002, 2010, 2052, 2129})
_NO_SUCH_JOB = 2017
ALREADY_ENDED = frozenset({2021, 2084})
# The link to slurmctld broke, or slurmctld did not answer, so it is not known whether it acted.
# Numbers below 1000 are those of errno(3).
_LINK = (
    frozenset({4, 11, 32, 104, 110, 111, 113, 5003, 5004, 5005})
    | frozenset(range(1000, 1026)) - {1005, 1007, 1008}
    | frozenset(range(1800, 1806))
)
# A read gets -1 from a controller that hangs or is away. A write gets other numbers then (104,
# 1000, 1800, 5004). For a write, -1 means that a job_submit plugin refuses this job (measured on
# 26.05.5 and 24.11.5).
_UNSPECIFIED = -1
# Errors that concern every job: MaxJobCount, a standby controller, submissions disabled, no
# slurmdbd.
_LATER = frozenset({2007, 2027, 2105, 2131, 7000})
_NEVER = frozenset(
    {
        2000, 2001, 2003, 2004, 2005, 2006, 2008, 2009, 2012, 2014, 2015, 2018, 2019, 2023, 2025,
        2029, 2038, 2039, 2040, 2044, 2045, 2048, 2051, 2053, 2054, 2057, 2063, 2066, 2070, 2071,
        2072, 2073, 2081, 2099, 2102, 2111, 2113, 2114, 2115, 2119, 2122, 2123, 2124, 2127, 2130,
        2132, 2133, 2134, 2165, 2166, 2167, 2172, 2189,
    }
)  # fmt: skip
_REST_INVALID = range(9000, 9400)


def refusal(
    error_number: int, *, status: int, description: str, of_write: bool = False
) -> SlurmError:
    """The error for Slurm's error number. `of_write` says that it answers a submit or an update. An
    unknown number is a plain SlurmRefused, because unknown answers must not destroy anything.
    """
    hangs = error_number == _UNSPECIFIED and not of_write
    if hangs or error_number in _LATER or error_number in _LINK:
        sentence = _sentence(description, error_number, status)
        return SlurmBusy(sentence, error_number=error_number, status=status)
    error_type: type[SlurmRefused] = SlurmRefused
    if error_number == _NO_SUCH_JOB:
        error_type = SlurmNoSuchJob
    elif error_number in _AUTHENTICATION | _PERMISSION or status in AUTHENTICATION_STATUSES:
        error_type = SlurmDenied
    elif error_number in _NEVER or error_number in _REST_INVALID:
        error_type = SlurmInvalid
    return error_type(description, error_number=error_number, status=status)


def refusal_by_status(status: int, *, text: str, retry_after: float | None) -> SlurmError:
    """The error for an answer without an error number of Slurm: from slurmrestd itself, or from a
    proxy before it.
    """
    description = text or "no explanation"
    if status in AUTHENTICATION_STATUSES or status == 403:
        return SlurmDenied(description, status=status)
    if status in {429, 502, 503, 504}:
        sentence = _sentence(description, 0, status)
        return SlurmBusy(sentence, retry_after=retry_after, status=status)
    if status < 400:
        return SlurmGarbled(f"HTTP {status} is no answer to this request: {description}")
    return SlurmRefused(description, status=status)


def is_word_of_slurm(error: SlurmError) -> bool:
    """Whether Slurm itself has answered the request, so that asking again gives the same answer. A
    gateway's error page, another program's JSON and a refused token say nothing about any job.
    """
    if isinstance(error, SlurmDenied) and error.authentication:
        return False
    if isinstance(error, SlurmRefused):
        return error.error_number != 0
    return isinstance(error, SlurmUnreadable)


def leaves_open(error: SlurmError) -> bool:
    """Whether a write with this answer may have been carried out nevertheless, because nobody who
    knows has refused it.

    This is so if the controller did not answer (502/1800 after ten seconds, measured), for a 5xx
    in plain text from slurmrestd or a proxy, and if the answer cannot be read.
    """
    if isinstance(error, SlurmInvalid):
        return False
    if isinstance(error, SlurmBusy):
        return error.error_number in _LINK or (error.error_number == 0 and error.status != 429)
    if isinstance(error, SlurmRefused):
        return error.error_number == 0 and error.status >= 500 and error.status != 511
    return isinstance(error, SlurmGarbled)
