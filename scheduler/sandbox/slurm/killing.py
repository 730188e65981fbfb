"""DELETE jobs/: which jobs a kill request names, and each result (measured on both releases)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from .errors import SlurmError
from .model import SlurmModel
from .parsing import Warned, wrong_type
from .records import Job
from .render_job import states
from .wire import Wire, number, unset

_SIGNALS: Final = {"": 9, "HUP": 1, "INT": 2, "KILL": 9, "USR1": 10, "USR2": 12, "TERM": 15}
_FILTERS: Final = ("job_name", "user_name", "partition", "account", "qos", "job_state")


def signal_number(text: object) -> int:
    """Return the number of ``TERM``, ``SIGTERM``, ``15`` or 15; SIGKILL's if none is known."""
    name = str(text or "").upper().removeprefix("SIG")
    return int(name) if name.isdigit() else _SIGNALS.get(name, 9)


def kill(
    model: SlurmModel, body: Mapping[str, Any], *, user: str
) -> tuple[list[Wire], list[Warned]]:
    """Signal the named jobs and those that the filters match; return failures and warnings.

    Raises SlurmError 2137 for an id that is not a positive number (no job is killed then), 2173 if
    there is neither an id nor a filter, 9202 if ``jobs`` is not a list, 1 for another user's job.
    """
    ids, warnings = _ids(body.get("jobs", []))
    if not ids and not any(body.get(name) for name in _FILTERS):
        raise SlurmError(2173)
    signal = signal_number(body.get("signal", ""))
    failures = [failure for i in ids if (failure := kill_one(model, i, signal, user=user))]
    if any(body.get(name) for name in _FILTERS):
        for job in [job for job in model.jobs() if job.alive and _matches(job, body)]:
            kill_one(model, job.id, signal, user=user)
    return failures, warnings


def kill_one(model: SlurmModel, job_id: int, signal: int, *, user: str) -> Wire | None:
    """Signal one job; return the ``status`` entry of a failure. Raises SlurmError 1."""
    try:
        model.cancel(job_id, user=user, signal=signal)
    except SlurmError as fault:
        if fault.number == 1:
            raise
        known = fault.number != 2017
        return {
            "error": {"string": fault.text, "code": fault.number, "message": fault.text},
            "step_id": _step_id(model, job_id),
            "job_id": number(job_id) if known else unset(),
            "federation": {"sibling": ""},
        }
    return None


def _step_id(model: SlurmModel, job_id: int) -> str:
    job = model.cluster.jobs.get(job_id)
    if job is None or not job.het_offset:
        return str(job_id)
    return f"{job.het_id}+{job.het_offset}"


def _ids(named: object) -> tuple[list[int], list[Warned]]:
    if not isinstance(named, list):
        description = "Unexpected type string when expecting a list"
        raise SlurmError(9202, description, source="#/jobs/")
    warnings = [wrong_type(i, "string", "#/jobs") for i in named if not isinstance(i, str)]
    return list(_numbers(map(str, named))), warnings


def _numbers(texts: Iterator[str]) -> Iterator[int]:
    for text in texts:
        if not text.isdigit() or not int(text):
            raise SlurmError(2137)
        yield int(text)


def _matches(job: Job, body: Mapping[str, Any]) -> bool:
    """Whether the job matches all filters; a list of several states matches none, as measured."""
    values = {
        "job_name": job.name,
        "user_name": job.asked.user_name,
        "partition": job.asked.request.partition,
        "account": job.asked.account,
        "qos": job.asked.qos,
        "job_state": states(job),
    }
    return all(values[name] == body[name] for name in _FILTERS if body.get(name))
