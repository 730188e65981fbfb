"""How many pods a gang has, and in which order they come: from the object behind it. Pure.

The allocation is asked for by this shape, not by the pods that exist. Some groups make their later
pods only when the first ones are Ready, or have a Node, so a scheduler that waits for all pods
would wait for ever.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from annotations.problems import Problem
from scheduler.core.gang_objects import (
    BatchJob,
    GroupCondition,
    GroupMeta,
    GroupObject,
    JobSet,
    JobSpec,
    LeaderWorkerSet,
    PluginsPodGroup,
    PodGroup,
    ReplicatedJob,
    Unserved,
)
from scheduler.core.gang_sources import (
    JOBSET_BY_LABELS,
    JOBSET_EXCLUSIVE,
    LWS_EXCLUSIVE,
    MOST_GANG_PODS,
    Membership,
    Source,
)

_LEADER: Final = "spec.leaderWorkerTemplate.leaderTemplate"
_WORKER: Final = "spec.leaderWorkerTemplate.workerTemplate"
_FIELD: Final = "spec.replicatedJobs[{}].template.spec.template"
_IN_ORDER: Final = "InOrder"
_COMPLETE: Final = "Complete"
_LEADER_READY: Final = "LeaderReady"
# A batch Job has one of the first two when it ends its pods, and one of the others afterwards.
_JOB_ENDS: Final = frozenset({"SuccessCriteriaMet", "FailureTarget", "Complete", "Failed"})
_JOBSET_ENDS: Final = frozenset({"Completed", "Failed"})
_FIRST_JOB: Final = attrgetter("first_job")
# The Job controller writes at most 5 digits and a comma for each pod of a gang.
_LONGEST_NUMBERS: Final = 6 * MOST_GANG_PODS
_SPAN: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


class Block(NamedTuple):
    """The Jobs of one replicated Job of a JobSet, each with so many pods. They follow each other
    from the Job and the rank with these numbers on.
    """

    first_job: int
    first_rank: int
    jobs: int
    pods: int


class GangShape(msgspec.Struct, frozen=True, kw_only=True):
    """`size` pods get one allocation. `minimum` of them come by themselves, and the others when
    those are Ready or have a Node. `over` says that no pod is expected any more.
    """

    size: int
    minimum: int
    over: bool = False
    open: bool = False
    """Whether the group may have more than `size` pods. Of a PodGroup, only `size` pods are the
    gang.
    """
    blocks: tuple[Block, ...] = ()
    """Of a JobSet, in order; see `blocks_of`."""
    done: frozenset[int] = frozenset()
    """The ranks that no pod is expected for, because a pod of each has succeeded."""

    @property
    def in_steps(self) -> bool:
        """Whether some pods come only when others are Ready or have a Node."""
        return self.minimum < self.size


@dataclass(frozen=True, slots=True)
class NoGang:
    """The pods of this object are no gang, and why. The sources `instead` may make them gangs."""

    why: str
    instead: tuple[Source, ...] = ()


def shape_of(member: Membership, group: GroupObject) -> GangShape | NoGang | Problem:
    """The shape of the gang of this pod, whose object is `group`. A problem if it is too large."""
    found = _shape_of(member, group)
    if isinstance(found, GangShape) and found.size > MOST_GANG_PODS:
        expected = (
            f"at most {MOST_GANG_PODS} pods in one gang, or the annotation gang: none on each pod"
        )
        return Problem(f"number of pods of {member.group}", str(found.size), expected)
    return found


def _shape_of(member: Membership, group: GroupObject) -> GangShape | NoGang:
    match group:
        case BatchJob():
            return _of_job(group)
        case JobSet():
            return _of_jobset(group)
        case LeaderWorkerSet():
            return _of_lws(member, group)
        case PodGroup():
            policy = group.spec.scheduling_policy.gang
            least = 0 if policy is None else policy.min_count
            return _of_pod_group(group.metadata, least, "spec.schedulingPolicy.gang.minCount")
        case PluginsPodGroup():
            return _of_pod_group(group.metadata, group.spec.min_member or 0, "spec.minMember")
        case Unserved():
            return NoGang(f"this cluster has no {group.plural} of {group.api_version}")


@dataclass(frozen=True, slots=True)
class Template:
    """The template of this many pods, whose ranks follow each other. `field` is where it stands in
    the object, and `data` its JSON; empty if there is none.
    """

    pods: int
    field: str
    data: bytes


def templates_of(group: GroupObject, shape: GangShape) -> tuple[Template, ...]:
    """The templates of a gang's pods in the order of their ranks; () if the object has no
    template whose pods come in steps.
    """
    match group:
        case LeaderWorkerSet():
            of_set = group.spec.leader_worker_template
            leader, worker = bytes(of_set.leader_template), bytes(of_set.worker_template)
            if not leader:
                return (Template(shape.size, _WORKER, worker),)
            return (Template(1, _LEADER, leader), Template(shape.size - 1, _WORKER, worker))
        case JobSet():
            parts = ((it, _jobs_and_pods(it)) for it in group.spec.replicated_jobs)
            return tuple(
                Template(jobs * pods, _FIELD.format(part.name), bytes(part.template.spec.template))
                for part, (jobs, pods) in parts
                if jobs * pods
            )
        case _:
            return ()


def rank_of(member: Membership, shape: GangShape) -> int | None:
    """The rank of a pod; None if neither it nor the shape tells it. In a JobSet the Jobs follow
    each other in the order of the set.
    """
    if member.place is None:
        return member.rank
    job, own = member.place
    index = bisect_right(shape.blocks, job, key=_FIRST_JOB) - 1
    if index < 0:
        return None
    block = shape.blocks[index]
    job -= block.first_job
    known = job < block.jobs and own < block.pods
    return block.first_rank + job * block.pods + own if known else None


def blocks_of(parts: Iterable[tuple[int, int]]) -> tuple[Block, ...]:
    """The blocks of replicated Jobs, of which each is given by its number of Jobs and the number of
    pods of each Job. Those without pods have none: there may be ten thousand.
    """
    found, first_job, first_rank = list[Block](), 0, 0
    for jobs, pods in parts:
        if jobs * pods:
            found.append(Block(first_job, first_rank, jobs, pods))
        first_job += jobs
        first_rank += jobs * pods
    return tuple(found)


def _of_job(job: BatchJob) -> GangShape | NoGang:
    pods = _pods(job.spec)
    if pods is None:
        return NoGang(f"batch Job {job.metadata.name!r} is a work queue: {_queue_text(job.spec)}")
    if pods < 2:
        return NoGang(f"batch Job {job.metadata.name!r} has one pod at a time")
    over = _is_over(job.metadata, job.spec.suspend, job.status.conditions, ends=_JOB_ENDS)
    minimum = 1 if _begins_with_one_pod(job.metadata.annotations) else pods
    done = _numbers(job.status.completed_indexes, below=pods)
    return GangShape(size=pods, minimum=minimum, over=over, done=done)


def _numbers(text: str, *, below: int) -> frozenset[int]:
    """The numbers of a text such as "0,3-5" that are below this."""
    found, below = set[int](), min(below, MOST_GANG_PODS)
    for span in _SPAN.finditer(text, 0, _LONGEST_NUMBERS):
        found.update(range(int(span[1]), min(int(span[2] or span[1]) + 1, below)))
    return frozenset(found)


def _of_jobset(group: JobSet) -> GangShape | NoGang:
    refusal = _each_job_for_itself(group)
    if refusal is not None:
        return NoGang(refusal, (Source.JOB,))
    parts = list(map(_jobs_and_pods, group.spec.replicated_jobs))
    size = sum(jobs * pods for jobs, pods in parts)
    if size < 2:
        return NoGang(f"JobSet {group.metadata.name!r} has one pod at a time")
    over = _is_over(group.metadata, group.spec.suspend, group.status.conditions, ends=_JOBSET_ENDS)
    minimum = max(1, _first_step(group, parts))
    return GangShape(size=size, minimum=minimum, over=over, blocks=blocks_of(parts))


def _each_job_for_itself(group: JobSet) -> str | None:
    """Why the Jobs of the set are not one gang; None if they are."""
    name = group.metadata.name
    for part in group.spec.replicated_jobs:
        if any(it.status == _COMPLETE for it in part.depends_on):
            return (
                f"{part.name!r} of JobSet {name!r} waits until other Jobs of it are complete, so "
                "they never run together; each Job is a gang of its own"
            )
        if _pods(part.template.spec) is None:
            queue = _queue_text(part.template.spec)
            return f"{part.name!r} of JobSet {name!r} is a work queue: {queue}"
    return None


def _jobs_and_pods(part: ReplicatedJob) -> tuple[int, int]:
    """How many Jobs are made of it, and how many pods of each Job."""
    jobs = 1 if part.replicas is None else max(0, part.replicas)
    return jobs, _pods(part.template.spec) or 0


def _first_step(group: JobSet, sizes: Sequence[tuple[int, int]]) -> int:
    """How many pods are made before any pod is Ready or has a Node."""
    parts = list(zip(group.spec.replicated_jobs, sizes, strict=True))
    policy = group.spec.startup_policy
    if policy is not None and policy.startup_policy_order == _IN_ORDER:
        # A part without pods counts as started at once.
        parts = [it for it in parts if it[1][0] * it[1][1]][:1]
    return sum(
        jobs * _pods_at_once(group, part, pods)
        for part, (jobs, pods) in parts
        if not part.depends_on
    )


def _pods_at_once(group: JobSet, part: ReplicatedJob, pods: int) -> int:
    """How many of the pods of a Job of this part are made before any of them has a Node."""
    noted = (group.metadata.annotations, part.template.metadata.annotations)
    return min(1, pods) if _begins_with_one_pod(*noted) else pods


def _begins_with_one_pod(*annotations: Mapping[str, str]) -> bool:
    """Whether a Job of a JobSet has its other pods created when the first one has a Node. The
    annotations are those of the Job, or of the set and of the part of it to which the Job belongs.
    """
    exclusive = [it for it in annotations if JOBSET_EXCLUSIVE in it]
    return bool(exclusive) and not any(JOBSET_BY_LABELS in it for it in exclusive)


def _of_lws(member: Membership, group: LeaderWorkerSet) -> GangShape | NoGang:
    """The size is the one that the pod names: its group may be older than the set's template."""
    size = member.size or group.spec.leader_worker_template.size or 1
    if size < 2:
        return NoGang(f"the groups of LeaderWorkerSet {group.metadata.name!r} have one pod each")
    exclusive = LWS_EXCLUSIVE in group.metadata.annotations
    minimum = 1 if exclusive or group.spec.startup_policy == _LEADER_READY else size
    return GangShape(size=size, minimum=minimum, over=_is_deleted(group.metadata))


def _of_pod_group(meta: GroupMeta, least: int, field: str) -> GangShape | NoGang:
    """A PodGroup says how many pods must start together, not how many there are. The others are
    served one by one (`spare_pods.py`).
    """
    if least < 2:
        return NoGang(f"PodGroup {meta.name!r} lets its pods start singly ({field} is below 2)")
    return GangShape(size=least, minimum=least, over=_is_deleted(meta), open=True)


def _pods(spec: JobSpec) -> int | None:
    """How many pods the Job has at a time; None if it is a work queue, in which pods come one after
    the other. If fewer pods must succeed than may run at a time, the result is the number that must
    succeed.
    """
    together = 1 if spec.parallelism is None else max(0, spec.parallelism)
    if spec.completions is None or spec.completions == together:
        return together
    return None if spec.completions > together else max(0, spec.completions)


def _queue_text(spec: JobSpec) -> str:
    together = 1 if spec.parallelism is None else spec.parallelism
    return f"{spec.completions} completions, of which {together} at a time (parallelism)"


def _is_over(
    meta: GroupMeta,
    suspended: bool | None,
    conditions: Iterable[GroupCondition],
    *,
    ends: frozenset[str],
) -> bool:
    ended = any(it.type in ends and it.status == "True" for it in conditions)
    return ended or bool(suspended) or _is_deleted(meta)


def _is_deleted(meta: GroupMeta) -> bool:
    return meta.deletion_timestamp is not None
