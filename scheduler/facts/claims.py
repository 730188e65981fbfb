"""The job id in a pod's annotation is only a claim, because the pod's author can write it too.

A claim costs its own unit one look. It has no effect until the look has shown our tag for this very
unit, or for a group of pods that the pod belongs to. If Slurm refutes the claim, it counts as a
missing annotation, and the census decides. It stays a claim if the job only seems to be the unit's
own (`core/untagged.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.core.naming import JOB_ID
from scheduler.core.owner_tag import Owner
from scheduler.core.tagged import TaggedJob
from scheduler.kube.wire import Pod
from scheduler.state.said import SaidOnPod
from scheduler.state.units import Unit, Units

BEFORE_US: Final = float("-inf")
"""A doubt from before our start: a former process may have submitted a job for the unit."""
_LONGEST_JOB_ID: Final = len(str(2**32))
# slurmrestd accepts no id from this number on (422, error 9000, measured on 26.05.5 and 24.11.5):
# one below NO_VAL of slurm.h, NO_VAL itself, and INFINITE.
_NO_JOB_ID: Final = 2**32 - 3


def recorded_job(pod: Pod) -> int | None:
    """The job id in the pod's annotation; None if there is none. It is believed only after
    a look.
    """
    text = pod.metadata.annotations.get(JOB_ID, "")
    plain = text.isascii() and text.isdigit() and len(text) <= _LONGEST_JOB_ID
    job_id = int(text) if plain else 0
    return job_id if 0 < job_id < _NO_JOB_ID else None


def said_on(pod: Pod) -> SaidOnPod:
    """What a former process wrote on the pod last, so that it is not written again."""
    scheduled = pod.condition("PodScheduled")
    last = ("", "") if scheduled is None else (scheduled.reason, scheduled.message)
    return SaidOnPod(condition=last, recorded=recorded_job(pod))


def unweighed(unit: Unit) -> bool:
    """Whether the claimed job must still be looked at, or `weigh` must still use the result of that
    look.
    """
    return unit.job is not None and unit.job.claimed and unit.job.known_as is None


def _is_true(unit: Unit, record: TaggedJob, owner: Owner) -> bool:
    """Whether the job is the unit's own, or that of a group (`core/unknown_unit.py`)."""
    if unit.owns(record, owner=owner):
        return True
    return any(record.seats(uid, owner=owner) for uid in unit.uids)


def weigh(
    unit: Unit,
    units: Units,
    *,
    owner: Owner,
    covered: bool,
    seems_own: Callable[[TaggedJob], bool | None],
) -> None:
    """Believe the unit's claim if a look has proven it, and drop it if a look has refuted it.
    `covered` says that an unrecorded job would have been found by now. `seems_own` says whether a
    job without our tag may be the unit's all the same; None if that cannot be told yet.
    """
    job = unit.job
    if job is None or not job.claimed:
        return
    record = job.record
    if record is None:
        refuted = job.refuted
    elif _is_true(unit, record, owner):
        job.believe()
        return
    else:
        seems = seems_own(record)
        refuted = seems is False
        if seems:
            job.recognise(record)
    if refuted:
        others = None if record is None else job.job_id
        units.drop_false_claim(unit, others=others, doubt_since=None if covered else BEFORE_US)
