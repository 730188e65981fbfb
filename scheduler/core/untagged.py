"""A job that is the unit's own, but has lost its owner tag: somebody has changed its AdminComment.

A site's job_submit plugin may set the admin_comment of every job, where our tag is. Without the tag
nobody knows after a restart whose job it is, so a job that no pod runs on is cancelled while this
process still knows it: by its id, name and submit time, which it remembers from the answer to its
own submit or from an earlier look that showed the tag.

An operator may also write something else there while a pod runs on the job. A process that starts
after that has nothing but the pod's annotation and the job's name, which the pod's author and a
Slurm user can forge. On that evidence no job is ever changed or cancelled. But if the job runs on
the pod's node and holds all that the pod uses, the pod is left alone. So a forger's pod only runs
on what a job of the forger's own pays for.

The same is done about a job whose tag names this very pod and another cluster id: ours has changed,
for example because the right to read kube-system was granted. The job holds what the pod uses, so a
new one for the node would only wait behind it, and seem to wait for others.
"""

from __future__ import annotations

from scheduler.core.actions import Action, Again, Inspect, TakeBack, Warn
from scheduler.core.beside import words_beside
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import Tracked, UnitFacts
from scheduler.core.intervals import SLOW_LOOK_SECONDS, SOON_SECONDS
from scheduler.core.job_tres import MEMORY, ROUNDING, amounts_of
from scheduler.core.node_gres import count_of
from scheduler.core.shapes import Size
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState


def seems_own(record: TaggedJob, *, name: str, node: str, size: Size) -> bool:
    """Whether a job that only a running pod's annotation names seems to be the pod's own. `name` is
    what the pod's job is called, `node` is where the pod runs, and `size` is what it uses there. A
    job with a tag says itself whose it is.
    """
    if record.tag is not None or record.state.base is not BaseState.RUNNING:
        return False
    return record.name == name and record.nodes == (node,) and _holds(record, size)


def made_for(record: TaggedJob, *, uid: str, node: str) -> bool:
    """Whether a job that a running pod's annotation names was submitted for this very pod, which
    runs on `node`, by a scheduler of another identity: the cluster id has changed since. Nobody but
    an administrator can write such a tag.
    """
    tag = record.tag
    if tag is None or tag.given_back or record.state.base is not BaseState.RUNNING:
        return False
    return uid in tag.uids and node in record.nodes


def _holds(record: TaggedJob, size: Size) -> bool:
    """Whether a job of one node holds there what a pod of this size takes."""
    held = amounts_of(record.tres_allocated)
    if size.cpus > held.get("cpu", 0.0) or size.memory_mib > held.get(MEMORY, 0.0) * ROUNDING:
        return False
    there = record.gres.replace("gres/", "")
    wanted = ((size.gres or "").replace("gres/", "")).split(",")
    counted = (entry.rpartition(":") for entry in filter(None, wanted))
    return all(count_of(there, kind) >= int(count) for kind, _, count in counted)


def untagged(facts: UnitFacts) -> bool:
    """Whether this is the very job of the unit, but without our tag. One that only seems to be the
    unit's counts only while a pod runs on it.
    """
    job = facts.job
    if not isinstance(job, Tracked) or job.record is None or job.record.state.ended:
        return False
    if job.claimed and not (facts.any_runs and job.record.state.base is BaseState.RUNNING):
        return False
    return is_known(job, job.record) and not facts.owns(job.record)


def is_known(job: Tracked, record: TaggedJob) -> bool:
    """Whether the record is of the job that is known to be the unit's, whatever its AdminComment
    says.
    """
    return record.submit_time is not None and job.known_as == (record.name, record.submit_time)


def give_up(facts: UnitFacts, job: Tracked, now: float) -> tuple[Action, ...]:
    """Cancel the job at once, and do not submit another one soon. But a job whose pod runs is kept,
    and so is one whose pod is gone but may still have running containers.
    """
    record = job.record
    if record is None or job.known_as is None:
        return ()
    if job.state is not None and job.state.base is not record.state.base:
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    held = record.state.base is not BaseState.PENDING
    if facts.any_runs and held:
        kept = (Warn(Reason.PLACEHOLDER_LOST, _words(job)), Again(SLOW_LOOK_SECONDS))
        return (*words_beside(facts, kept), *kept)
    if now < facts.lingers_until and held:
        return (Again(facts.linger_look(now)),)
    name, submit_time = job.known_as
    return (TakeBack(job.job_id, name, submit_time, unseen=facts.unseen), Again(0.0))


def _words(job: Tracked) -> str:
    tag = None if job.record is None else job.record.tag
    if job.claimed and tag is not None:
        return (
            f"Slurm job {job.job_id} was submitted for this pod by a scheduler with the cluster id "
            f"{tag.cluster}, which is not that of this scheduler. The pod is left alone while the "
            "job runs, but neither will end with the other: set --cluster-id to that value, or "
            "recreate the pod and cancel the job with scancel"
        )
    if job.claimed:
        return (
            f"Slurm job {job.job_id} seems to be the pod's job, but its AdminComment, which shows "
            "whose job it is, was changed by somebody else. The pod is left alone while the job "
            "runs, but neither will end with the other: restore the AdminComment that the "
            "scheduler wrote, or recreate the pod and cancel the job with scancel"
        )
    return (
        f"The AdminComment of Slurm job {job.job_id} was changed by somebody else. The job is "
        "kept while the pod runs, but the pod will not end with it: restore the AdminComment "
        "that the scheduler wrote, or recreate the pod"
    )
