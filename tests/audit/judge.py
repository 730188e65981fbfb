"""Decides after the fact whether the invariants held. It knows nothing of how the scheduler works.

It acquits in doubt: a rule is only broken if no order of uncertain moments could explain it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final

from tests.audit.history import (
    LOST,
    NEVER,
    Bind,
    By,
    History,
    JobLife,
    PodLife,
    Run,
    Sign,
    Touch,
    When,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken invariant: which one, for which pod or job, and what happened."""

    rule: str
    subject: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule} {self.subject}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Delays between two servers that the judge tolerates, in seconds.

    `bind_age`: Slurm may end a job, the pod's own or that of another pod on the Node, between the
    look at it and the bind, which has that long.
    `look_age`: what a write to a job rests on may be 2 s old when it is sent, and a crowded machine
    takes its time to deliver it.
    `settle`: a new placeholder may start just while its pod is deleted for the former's end.
    `gang_start`: pods of a gang are bound one after the other, and a bind that fails is repeated.
    I7, by the brake's defaults: of the bound pods no more go for a lost node within `brake_window`
    than the share, or `brake_minimum`, unless the evidence against them is `brake_pause` old. Both
    times are a second off, as the API server's and the scheduler's clocks may tell them. Other weak
    evidence cannot be told from strong here: starts of slurmctld are not on record.
    """

    bind_age: float = 2.5
    look_age: float = 10.0
    settle: float = 5.0
    gang_start: float = 60.0
    brake_share: float = 0.25
    brake_minimum: int = 10
    brake_window: float = 59.0
    brake_pause: float = 29.0


DEFAULT: Final = Limits()
_LOST_NODE: Final = frozenset({"NODE_FAIL", "BOOT_FAIL"})


def judge(history: History, limits: Limits = DEFAULT) -> list[Violation]:
    """Every breach of I1 to I8, of I12 by our own binds, and of I14, that is certain."""
    case = _Case(history, limits)
    return [found for rule in RULES for found in rule(case)]


class _Case:
    """A history with indexes for the rules."""

    def __init__(self, history: History, limits: Limits) -> None:
        self.history = history
        self.limits = limits
        self.placeholders: dict[str, list[JobLife]] = defaultdict(list)
        self.pods = {pod.uid: pod for pod in history.pods}
        for job in history.ours():
            for uid in job.uids:
                self.placeholders[uid].append(job)

    def binds(self) -> Iterator[tuple[PodLife, Bind]]:
        """Our binds that were accepted."""
        for pod in self.history.pods:
            yield from ((pod, it) for it in pod.binds if it.by is By.US and it.accepted)

    def runs_on(self, pod: PodLife) -> Iterator[tuple[JobLife, Run]]:
        """The periods in which a placeholder of the pod held its node."""
        node = self.history.slurm_node(pod.node)
        for job in self.placeholders[pod.uid]:
            yield from ((job, run) for run in job.runs if node in run.nodes)


def one_runs(case: _Case) -> Iterator[Violation]:
    """I1: two placeholders of one unit never run at once."""
    for uid, jobs in case.placeholders.items():
        for one, other in combinations(jobs, 2):
            if any(
                first.span.surely_overlap(second.span)
                for first in one.runs
                for second in other.runs
            ):
                yield Violation(
                    "I1", _unit(case, uid), f"jobs {one.job_id} and {other.job_id} ran at once"
                )


def bound_where_held(case: _Case) -> Iterator[Violation]:
    """I2: a pod is bound to a node that its placeholder holds at that moment, ready."""
    for pod, bind in case.binds():
        node = case.history.slurm_node(bind.node)
        since = bind.when.earliest - case.limits.bind_age
        if not any(
            node in run.nodes and run.ready.maybe_before(bind.when) and run.span.end.latest >= since
            for job in case.placeholders[pod.uid]
            for run in job.runs
        ) and not _may_have_held(case, pod, node, bind.when):
            jobs = "; ".join(map(_held, case.placeholders[pod.uid]))
            what = f"bound to {bind.node} at {_time(bind.when)}, which none held of: {jobs}"
            yield Violation("I2", _name(pod), what)


def _may_have_held(case: _Case, pod: PodLife, node: str, when: When) -> bool:
    """Whether a job that nobody saw, or saw in time, may have been its placeholder there."""
    ours = (it for job in case.placeholders[pod.uid] for it in job.unseen)
    strays = (it.started for it in case.history.strays if not it.nodes or node in it.nodes)
    return any(it.maybe_before(when) for it in (*ours, *strays))


def bound_once(case: _Case) -> Iterator[Violation]:
    """I3: nothing is written again once a bind was accepted, whoever's it was. What is refused
    because the pod is gone by then is no second.
    """
    for pod in case.history.pods:
        accepted = [bind for bind in pod.binds if bind.accepted]
        again = [
            bind
            for bind in pod.binds
            if bind.by is By.US
            and bind.when.surely_before(pod.over)
            and any(it.when.surely_before(bind.when) for it in accepted)
        ]
        if len(accepted) > 1 and any(bind.by is By.US for bind in accepted):
            yield Violation("I3", _name(pod), f"bound {len(accepted)} times")
        elif again:
            yield Violation("I3", _name(pod), f"bound again at {_time(again[0].when)}")


def kept_while_running(case: _Case) -> Iterator[Violation]:
    """I5: we do not end the placeholder that holds the node of a pod whose containers may run."""
    for pod in case.history.pods:
        for job, run in case.runs_on(pod):
            for kill in job.kills:
                if (
                    kill.by is By.US
                    and run.span.start.surely_before(kill.when)
                    and run.span.end.latest >= kill.when.earliest
                    and pod.held.surely_covers(kill.when)
                ):
                    what = f"job {job.job_id} was cancelled at {_time(kill.when)}; the containers"
                    yield Violation("I5", _name(pod), f"{what} stopped {_time(pod.stopped)}")


def none_left(case: _Case) -> Iterator[Violation]:
    """I4: at the end no placeholder is without a pod that may run, and none has a twin. Of one that
    was there before the record began it cannot be known whose fault it is.
    """
    for job in case.history.ours():
        began = job.submitted.earliest > case.history.opened
        if began and job.ended == NEVER and all(_is_over(case, uid) for uid in job.uids):
            yield Violation("I4", f"job {job.job_id}", f"{job.state} without a pod: {_units(job)}")
    for uid, jobs in case.placeholders.items():
        live = [job.job_id for job in jobs if job.ended == NEVER]
        if len(live) > 1:
            yield Violation("I4", _unit(case, uid), f"has jobs {live} at the end")


def ended_on_evidence(case: _Case) -> Iterator[Violation]:
    """I6: we delete a pod only when Slurm's own record had taken its job from it."""
    for pod in case.history.pods:
        for deletion in pod.deletions:
            if deletion.by is By.US and _evidence(case, pod, deletion) is None:
                jobs = {job.job_id: job.state for job in case.placeholders[pod.uid]}
                what = f"deleted at {_time(deletion.when)} without evidence in Slurm's record"
                yield Violation("I6", _name(pod), f"{what}: {jobs}")


def braked(case: _Case) -> Iterator[Violation]:
    """I7: not more than a share of the bound pods goes at once on evidence nobody looked at twice.

    The pods of one job count as one. Each process counts anew, and what it counts is not on record:
    what was bound at any time within the window counts as bound.
    """
    limits = case.limits
    hasty = sorted(_hasty(case), key=lambda it: it[0].latest)
    for first, _ in hasty:
        window = When(first.latest, first.latest + limits.brake_window)
        gone = len({unit for it, unit in hasty if first.latest <= it.latest <= window.latest})
        bound = len(
            {
                _counted_with(case, pod)
                for pod in case.history.pods
                if pod.placed.maybe_before(window) and window.maybe_before(pod.over)
            }
        )
        if gone > max(limits.brake_minimum, limits.brake_share * bound):
            what = (
                f"{gone} of {bound} bound pods or gangs were deleted within {limits.brake_window} s"
            )
            yield Violation("I7", f"from {_time(first)}", f"{what} on fresh evidence")
            return


def bound_beside_nobody(case: _Case) -> Iterator[Violation]:
    """I12: no pod is bound beside one of ours whose containers run while no placeholder of it holds
    the node. Who put a pod there is known only of what was bound within the record. Which jobs of
    others wait for a guard is on no record.
    """
    there: dict[str, list[PodLife]] = defaultdict(list)
    for pod, bind in case.binds():
        there[bind.node].append(pod)
    for pod, bind in case.binds():
        for beside in there[bind.node]:
            if beside is pod:
                continue  # whether the pod itself may be there is judged by I2
            if beside.held.surely_covers(bind.when) and not _may_be_covered(case, beside, bind):
                jobs = "; ".join(map(_held, case.placeholders[beside.uid]))
                what = f"bound to {bind.node} at {_time(bind.when)}, beside {_name(beside)}, for"
                yield Violation("I12", _name(pod), f"{what} which no job held it: {jobs}")


def _may_be_covered(case: _Case, pod: PodLife, bind: Bind) -> bool:
    """Whether a placeholder of the pod may have held its node then, or shortly before."""
    since = bind.when.earliest - case.limits.bind_age
    return any(
        run.span.start.maybe_before(bind.when) and run.span.end.latest >= since
        for _, run in case.runs_on(pod)
    ) or _may_have_held(case, pod, case.history.slurm_node(pod.node), bind.when)


def foreign_untouched(case: _Case) -> Iterator[Violation]:
    """I8: no job and no pod that is not ours is written to."""
    for job in case.history.jobs:
        if job.owner not in case.history.owners:
            for touch in (*job.kills, *job.updates):
                if touch.by is By.US:
                    what = f"foreign ({job.owner}), and touched at {_time(touch.when)}"
                    yield Violation("I8", f"job {job.job_id}", what)
    for pod in case.history.pods:
        if pod.scheduler not in case.history.schedulers:
            for touch in (*pod.touches, *pod.deletions):
                if touch.by is By.US:
                    what = f"is {pod.scheduler}'s, and was touched at {_time(touch.when)}"
                    yield Violation("I8", _name(pod), what)


def read_before_written(case: _Case) -> Iterator[Violation]:
    """I14: a placeholder that we cancel or update was looked at by us shortly before. What is not
    ours is I8's, however recently it was looked at.
    """
    if not case.history.looks:
        return
    for job in case.history.ours():
        seen = [it.when for it in job.looks if it.by is not By.OTHER]
        for touch in (*job.kills, *job.updates):
            since = touch.when.earliest - case.limits.look_age
            read = any(it.latest >= since and it.maybe_before(touch.when) for it in seen)
            if touch.by is By.US and not read:
                told = f"written at {_time(touch.when)}, and not looked at shortly before"
                yield Violation("I14", f"job {job.job_id}", told)


def slots_not_shared(case: _Case) -> Iterator[Violation]:
    """A node holds no more pods of a gang at once than their job has slots there."""
    for job in case.history.ours():
        there: dict[str, list[PodLife]] = defaultdict(list)
        for uid in job.uids if job.slots else ():
            if uid in case.pods and case.pods[uid].placed != NEVER:
                there[case.pods[uid].node].append(case.pods[uid])
        for node, pods in there.items():
            for pod in pods:
                others = (it for it in pods if it is not pod)
                beside = [it for it in others if it.held.surely_covers(pod.placed)]
                if len(beside) >= job.packed.get(node, job.per_node):
                    names = ", ".join(map(_name, beside))
                    what = f"put on {node}, where {names} took all slots of job {job.job_id}"
                    yield Violation("gangs", _name(pod), what)


def none_half_started(case: _Case) -> Iterator[Violation]:
    """If one pod of a gang is bound, all that existed then are, or are gone soon."""
    for job in case.history.ours():
        pods = [case.pods[uid] for uid in job.uids if job.slots and uid in case.pods]
        first = min((it.placed.latest for it in pods if it.placed != NEVER), default=None)
        if first is None:
            continue
        late = When(first + case.limits.gang_start, first + case.limits.gang_start)
        if late.latest > case.history.closed:
            continue
        for pod in pods:
            was_there = pod.made.latest < first and late.surely_before(pod.over)
            if was_there and not pod.placed.maybe_before(late):
                what = f"waited {case.limits.gang_start:.0f} s after others of job {job.job_id}"
                yield Violation("gangs", _name(pod), what)


RULES: Final[tuple[Callable[[_Case], Iterator[Violation]], ...]] = (
    one_runs,
    bound_where_held,
    bound_once,
    none_left,
    kept_while_running,
    ended_on_evidence,
    braked,
    foreign_untouched,
    read_before_written,
    bound_beside_nobody,
    slots_not_shared,
    none_half_started,
)


def _evidence(case: _Case, pod: PodLife, deletion: Touch) -> When | None:
    """Since when Slurm's record justified the deletion of the pod; None if it did not."""
    found = [
        when
        for job in case.placeholders[pod.uid]
        for when in (*_signs(job), *_taken(job, case.history.slurm_node(pod.node)))
        if when.maybe_before(deletion.when)
        and (pod.placed == NEVER or when.latest >= pod.placed.earliest - case.limits.bind_age)
        and not _superseded(case, pod, job, deletion.when)
    ]
    return min(found, default=None)


def _signs(job: JobLife) -> Iterator[When]:
    """Moments at which somebody other than us took the job from its pod."""
    if job.ended != NEVER and job.state != LOST and not _by_our_own_hand(job):
        yield job.ended
    yield from (it.when for it in job.evidence)


def _taken(job: JobLife, node: str) -> Iterator[When]:
    """Moments at which the job went on without this node."""
    for run, later in pairwise(job.runs):
        if node in run.nodes and node not in later.nodes:
            yield run.span.end


def _by_our_own_hand(job: JobLife) -> bool:
    """Whether it ended because we cancelled it, and nobody else can have done so."""
    return job.state == "CANCELLED" and {kill.by for kill in job.kills} == {By.US}


def _superseded(case: _Case, pod: PodLife, job: JobLife, when: When) -> bool:
    """Whether another placeholder had held the pod's node for a while, and went on to."""
    return any(
        other is not job
        and run.span.start.latest + case.limits.settle < when.earliest
        and run.span.end.earliest > when.latest
        and not any(it.sign is Sign.PREEMPTED for it in other.evidence)
        for other, run in case.runs_on(pod)
    )


def _counted_with(case: _Case, pod: PodLife) -> str:
    """What the brake counts the pod as: itself, or the last job of its gang."""
    jobs = [it.job_id for it in case.placeholders[pod.uid] if it.slots]
    return f"job {max(jobs)}" if jobs else pod.uid


def _hasty(case: _Case) -> Iterator[tuple[When, str]]:
    """Our deletions of bound pods that came soon after the evidence, each with what it counts
    as.
    """
    for pod in case.history.pods:
        for deletion in pod.deletions[:1]:
            if deletion.by is not By.US or not pod.placed.maybe_before(deletion.when):
                continue
            evidence = _evidence(case, pod, deletion)
            lost = any(job.state in _LOST_NODE for job in case.placeholders[pod.uid])
            if evidence is not None and lost:
                longest = deletion.when.latest - evidence.earliest
                if longest < case.limits.brake_pause:
                    yield deletion.when, _counted_with(case, pod)


def _is_over(case: _Case, uid: str) -> bool:
    pod = case.pods.get(uid)
    return pod is None or pod.over.latest <= case.history.closed


def _name(pod: PodLife) -> str:
    return f"pod {pod.namespace}/{pod.name} ({pod.uid[:8]})"


def _unit(case: _Case, uid: str) -> str:
    pod = case.pods.get(uid)
    return f"pod {uid[:8]}" if pod is None else _name(pod)


def _units(job: JobLife) -> str:
    return f"{job.namespace} {' '.join(sorted(uid[:8] for uid in job.uids))}"


def _held(job: JobLife) -> str:
    runs = [
        f"{','.join(run.nodes)} at {_time(run.span.start)} to {_time(run.span.end)}, "
        f"ready at {_time(run.ready)}"
        for run in job.runs
    ]
    return f"job {job.job_id} ({' and '.join(runs) or 'never ran'})"


def _time(when: When) -> str:
    if when == NEVER:
        return "never"
    return f"{when.earliest:.3f}..{when.latest:.3f}"
