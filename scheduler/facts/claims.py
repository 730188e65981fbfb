"""What a pod's annotation says of its job is a claim: the pod's author can write it too.

A claim costs its own unit one look. Until that has shown our tag for this very unit, nothing is
done by it; one that Slurm refutes is the same as no annotation, so that the census has the word.
"""

from __future__ import annotations

from typing import Final

from scheduler.core.naming import JOB_ID, Owner
from scheduler.kube.wire import Pod
from scheduler.state.units import Unit, Units

BEFORE_US: Final = float("-inf")
"""In doubt since then: a process before this one may have submitted for the unit."""
_LONGEST_JOB_ID: Final = len(str(2**32))
# From here on slurmrestd takes no number for an id (422, error 9000, measured on 26.05.5 and
# 24.11.5): NO_VAL of slurm.h, INFINITE above it, and one below.
_NO_JOB_ID: Final = 2**32 - 3


def recorded_job(pod: Pod) -> int | None:
    """The job id in the pod's annotation; it is believed only after Slurm confirms it."""
    text = pod.metadata.annotations.get(JOB_ID, "")
    plain = text.isascii() and text.isdigit() and len(text) <= _LONGEST_JOB_ID
    job_id = int(text) if plain else 0
    return job_id if 0 < job_id < _NO_JOB_ID else None


def unweighed(unit: Unit) -> bool:
    """Whether its claim is yet to be looked at, or what the look has shown yet to be weighed."""
    return unit.job is not None and unit.job.claimed


def weigh(unit: Unit, units: Units, *, owner: Owner, covered: bool) -> None:
    """Believe the claim of the unit where a look has proven it, and drop it where one has refuted
    it. `covered` says that a job which nobody recorded would have been found by now.
    """
    job = unit.job
    if job is None or not job.claimed:
        return
    if job.record is None:
        refuted = job.refuted
    else:
        refuted = not job.record.stands_for(unit.key, owner=owner)
        if not refuted:
            job.believe()
    if refuted:
        others = None if job.record is None else job.job_id
        units.refute(unit, others=others, doubt_since=None if covered else BEFORE_US)
