"""Lives of jobs and pods as a test writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.audit.history import (
    NEVER,
    Bind,
    By,
    History,
    JobLife,
    Owner,
    PodLife,
    Run,
    Span,
    Touch,
    When,
    at,
)

OURS = Owner("cluster-1", "slurm-scheduler")
NODE = "n1"
END = 1000.0


def us(moment: float) -> Touch:
    return Touch(at(moment), By.US)


def other(moment: float) -> Touch:
    return Touch(at(moment), By.OTHER)


def run(start: float, end: float | When = NEVER, *, node: str = NODE, ready: float = -1) -> Run:
    ended = end if isinstance(end, When) else at(end)
    made_ready = at(start if ready < 0 else ready)
    return Run(Span(at(start), ended), frozenset({node}), made_ready)


def job(job_id: int = 1, *runs: Run, uid: str = "pod-1", **more: Any) -> JobLife:
    """A placeholder that was submitted at 5."""
    given: dict[str, Any] = {
        "submitted": at(5),
        "owner": OURS,
        "namespace": "space",
        "uids": frozenset({uid}),
        "runs": runs,
    }
    return JobLife(job_id=job_id, **(given | more))


def pod(uid: str = "pod-1", **more: Any) -> PodLife:
    """A pod that was bound at 20 to the node, has stopped at 50, and is gone at 51."""
    given: dict[str, Any] = {
        "namespace": "space",
        "name": uid,
        "scheduler": OURS.scheduler,
        "node": NODE,
        "placed": at(20),
        "stopped": at(50),
        "over": at(51),
        "binds": (Bind(at(20), By.US, NODE, accepted=True),),
    }
    return PodLife(uid=uid, **(given | more))


def cancelled(one: JobLife, moment: float, by: By = By.US) -> JobLife:
    """The job as it is once somebody has cancelled it."""
    runs = tuple(
        replace(it, span=Span(it.span.start, at(moment))) if it.span.end == NEVER else it
        for it in one.runs
    )
    kills = (*one.kills, Touch(at(moment), by))
    return replace(one, runs=runs, ended=at(moment), state="CANCELLED", kills=kills)


def history(*parts: JobLife | PodLife, **more: Any) -> History:
    """All of them, up to END."""
    given: dict[str, Any] = {
        "jobs": tuple(it for it in parts if isinstance(it, JobLife)),
        "pods": tuple(it for it in parts if isinstance(it, PodLife)),
        "owners": frozenset({OURS}),
        "schedulers": frozenset({OURS.scheduler}),
        "closed": END,
    }
    return History(**(given | more))
