"""A pod waits for a Node: what to do until its placeholder holds one, and what to do then.

Which edits its pending job can take: `edits.py`. Which Nodes are fit: `node_suitability.py`. How
long an allocation on an unfit Node is kept: `_unfit` and `unfit_node.py`, with the times in
`intervals.py`.
"""

from __future__ import annotations

from typing import Final, assert_never

from annotations import JobRequest
from scheduler.core.actions import (
    Action,
    Again,
    Bind,
    Cancel,
    DropJob,
    Exclude,
    Inspect,
    Locate,
    LookForTwins,
    ReadGang,
    Readmit,
    Record,
    Submit,
    Tell,
    Update,
)
from scheduler.core.edits import called, differences, edit_of
from scheduler.core.ended_before_bind import ended_before_bind
from scheduler.core.endings import warned
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import (
    GangFacts,
    InDoubt,
    NoJob,
    PodFacts,
    PodStage,
    Tracked,
    UnitFacts,
    Vanished,
)
from scheduler.core.gang import (
    before_submit,
    missing_of,
    outdated,
    outlived,
    reshaped,
    resized,
    seats_asked,
    shapes_asked,
)
from scheduler.core.gang_patience import taken_as_a_gang
from scheduler.core.in_the_way import ASK_AGAIN_SECONDS, InWay
from scheduler.core.incomplete import lacking
from scheduler.core.intervals import (
    FRESH_SECONDS,
    LINGER_LOOK_SECONDS,
    MADE_READY_SECONDS,
    SLOW_LOOK_SECONDS,
    SOON_SECONDS,
    UNFIT_SECONDS,
)
from scheduler.core.node_suitability import Place
from scheduler.core.outgrown import outgrown
from scheduler.core.owner_tag import OwnerTag
from scheduler.core.pending_reasons import TOO_LARGE_REASONS, pending_text
from scheduler.core.remaining import ends_at
from scheduler.core.seating import Seating, miscounted, reseated, seating
from scheduler.core.stuck import (
    not_to_be_bound,
    on_unfit_node,
    releases,
    while_others_run,
    without_slot,
)
from scheduler.core.tagged import TaggedJob
from scheduler.core.twins import behind_twin
from scheduler.core.unfit_node import complaint, is_waited_for, unavailable, until_it_suits
from scheduler.core.unserved import rejections
from scheduler.core.untold import first_words, recorded
from slurmapi.model import BaseState, Job, JobState

_NO_NODE: Final = "no Node fits"
_NEXT_ELSEWHERE: Final = "the job is cancelled, and the next one avoids this node"
_UNCOMPARED_SECONDS: Final = 3.0
_UNCOMPARED: Final = (
    "It is not known yet which Nodes suit the pod: other templates are compared with the Nodes "
    "first; nothing needs to be done"
)


def serve_waiting(facts: UnitFacts, now: float) -> tuple[Action, ...]:
    """Decide about a pod that waits for a Node."""
    pods = tuple(pod for pod in facts.pods if pod.stage is PodStage.WAITING)
    if not pods or facts.unjudged:
        return (Again(SLOW_LOOK_SECONDS),)
    if not isinstance(facts.request, JobRequest):
        if facts.gang is not None and facts.gang.unread:
            return (ReadGang(),)  # it may be at fault who is none of the gang
        refused = rejections(
            facts, facts.request, pods, reason=Reason.GANG_INCOMPLETE, others=_waits_for_culprit
        )
        return (*refused, *_take_back(facts))
    match facts.job:
        case NoJob():
            return _begin(facts, facts.request, pods, now)
        case InDoubt():
            return (LookForTwins(tell=True), Again(SOON_SECONDS))
        case Vanished(job_id=job_id, confirmed=confirmed):
            if not confirmed:
                return (*recorded(facts, job_id, now), Inspect(job_id), Again(SOON_SECONDS))
            return (DropJob(job_id, "Slurm no longer knows it"), Again(0.0))
        case Tracked() as job:
            return _follow(facts, pods, job, now)
        case _:
            assert_never(facts.job)


def _waits_for_culprit(gang: GangFacts) -> str:
    return (
        f"Gang {gang.name} waits because its pod {gang.culprit} cannot be served: the condition of "
        "that pod says why"
    )


def _begin(
    facts: UnitFacts, request: JobRequest, pods: tuple[PodFacts, ...], now: float
) -> tuple[Action, ...]:
    if facts.unlisted:
        return _unlisted(facts, pods)
    missing = lacking(facts)
    if missing:
        message = f"No Slurm job is submitted while another pod of the group is missing: {missing}"
        return (*_pending(pods, message), Again(SLOW_LOOK_SECONDS))
    not_yet = before_submit(facts, pods, now)
    if not_yet:
        return not_yet
    if facts.uncompared_since is not None:
        return _uncompared(facts.uncompared_since, pods, now)
    if facts.nowhere:
        return _nowhere(facts, pods)
    if now < facts.held_until:
        return _held_back(facts, pods, now)
    if now < facts.submit_at:
        return (Again(facts.submit_at - now),)
    excluded = tuple(facts.excluded.items())
    seats = seats_asked(facts)
    submit = Submit(
        request,
        seats,
        per_node=1 if facts.gang is None else facts.gang.per_node,
        shapes=() if facts.gang is None else shapes_asked(facts, seats),
        excluded=excluded,
        grace_seconds=facts.grace_seconds,
    )
    return (submit, Again(SLOW_LOOK_SECONDS))


def _nowhere(facts: UnitFacts, pods: tuple[PodFacts, ...]) -> tuple[Action, ...]:
    """No Node can take the pod, so a job would only hold resources that nobody can use."""
    # The cause is constant, so that there is one Event however often the counts in the message
    # change.
    tell = (Tell(pod, Reason.NO_NODE_FITS, facts.nowhere, cause=_NO_NODE) for pod in pods)
    return (*tell, Again(SLOW_LOOK_SECONDS))


def _uncompared(since: float, pods: tuple[PodFacts, ...], now: float) -> tuple[Action, ...]:
    """The comparison is mostly over before anybody reads about it, so only a long wait is shown."""
    if now - since < _UNCOMPARED_SECONDS:
        return (Again(SOON_SECONDS),)
    tell = (Tell(pod, Reason.NODES_NOT_COMPARED, _UNCOMPARED) for pod in pods)
    return (*tell, Again(SLOW_LOOK_SECONDS))


def _held_back(facts: UnitFacts, pods: tuple[PodFacts, ...], now: float) -> tuple[Action, ...]:
    """The pods that it replaces ended too soon, and it would most likely do the same."""
    reason = Reason.CONTROLLER_BACK_OFF
    tell = (Tell(pod, reason, facts.held_why, cause=reason) for pod in pods)
    return (*tell, Again(min(facts.held_until - now, SLOW_LOOK_SECONDS)))


def _unlisted(facts: UnitFacts, pods: tuple[PodFacts, ...]) -> tuple[Action, ...]:
    """Nothing is submitted before Slurm's nodes are known: such a job would soon be replaced
    because of an edit, or get a node that does not fit.
    """
    message = f"Slurm's nodes cannot be listed: {facts.unlisted}"
    tell = (Tell(pod, Reason.SLURM_UNAVAILABLE, message) for pod in pods)
    return (*tell, Again(SLOW_LOOK_SECONDS))


def _take_back(facts: UnitFacts) -> tuple[Action, ...]:
    """The pod was edited into something unacceptable after its placeholder was submitted."""
    match facts.job:
        case NoJob():
            return ()
        case InDoubt():
            return (LookForTwins(), Again(SOON_SECONDS))
        case Vanished(job_id=job_id, confirmed=confirmed):
            if not confirmed:
                return (Inspect(job_id), Again(SOON_SECONDS))
            return (DropJob(job_id, "Slurm no longer knows it"),)
        case Tracked(job_id=job_id, record=record):
            if record is None:
                return (Inspect(job_id), Again(SOON_SECONDS))
            if not facts.owns(record):
                return (DropJob(job_id, "its id belongs to another job now"),)
            if record.state.ended:
                return (DropJob(job_id, f"it is {record.state}"),)
            return _give_back(job_id, "the pod cannot be served as it is now")
        case _:
            assert_never(facts.job)


def _give_back(job_id: int, why: str) -> tuple[Action, ...]:
    """Remove the job from the pod before it is cancelled. If this process dies in between, a census
    finds the job. But a cancelled job that the pod still names would look like somebody else's
    scancel.
    """
    return (DropJob(job_id, why), Cancel(job_id, why))


def _follow(
    facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked, now: float
) -> tuple[Action, ...]:
    """A pod waits, and its placeholder is known: decide by the job's state."""
    if job.state is None:
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    if job.record is not None and not facts.owns(job.record):
        return (DropJob(job.job_id, "its id belongs to another job now"), Again(0.0))
    if job.cancelled_at is not None:
        return (DropJob(job.job_id, "the scheduler has cancelled it"), Again(0.0))
    # The first words about a new job, or the Binding, will write its id.
    at_once = facts.tell_at is None and job.record is not None
    if facts.unrecorded and at_once and not job.state.ended:
        return (Record(job.job_id), Again(0.0))
    return first_words(facts, job, _by_state(facts, pods, job, job.state, now), now)


def _by_state(
    facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked, state: JobState, now: float
) -> tuple[Action, ...]:
    match state.base:
        case BaseState.PENDING:
            return _wait(facts, pods, job, now)
        case BaseState.RUNNING:
            return allocated(facts, pods, job, now)
        case BaseState.SUSPENDED | BaseState.UNKNOWN:
            if job.record is None:
                return (Inspect(job.job_id), Again(SOON_SECONDS))
            message = f"Slurm job {job.job_id} is {state}"
            return (*_pending(pods, message), Again(SLOW_LOOK_SECONDS))
        case (
            BaseState.COMPLETED
            | BaseState.CANCELLED
            | BaseState.FAILED
            | BaseState.TIMEOUT
            | BaseState.NODE_FAIL
            | BaseState.PREEMPTED
            | BaseState.BOOT_FAIL
            | BaseState.DEADLINE
            | BaseState.OUT_OF_MEMORY
        ):
            return ended_before_bind(facts, pods, job)
        case _:
            assert_never(state.base)


def _wait(
    facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked, now: float
) -> tuple[Action, ...]:
    record, request = job.record, facts.request
    if record is None or facts.unlisted or not isinstance(request, JobRequest):
        return _tell_pending(facts, pods, job)
    misfit = resized(facts, record)
    if misfit:
        why = f"{misfit}: a new job follows, at the end of the queue"
        return (*_give_back(job.job_id, why), Again(0.0))
    edit = edit_of(record, request)
    if edit.anew:
        what = ", ".join(called(name, request) for name in edit.anew)
        why = f"{what} was edited, and this edit needs a new job, at the end of the queue"
        return (*_give_back(job.job_id, why), Again(0.0))
    other = "" if facts.gang is None else reshaped(facts, record)
    if other:
        why = f"{other}: a new job follows, at the end of the queue"
        return (*_give_back(job.job_id, why), Again(0.0))
    if edit.in_place and now >= facts.update_at:
        return (Update(job.job_id, request, edit.in_place), Again(SLOW_LOOK_SECONDS))
    again = (Again(facts.update_at - now),) if edit.in_place else ()
    again = (*again, *outdated(facts, record, now))
    return (*_tell_pending(facts, pods, job), *_readmit(facts, job, now), *again)


def _tell_pending(facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked) -> tuple[Action, ...]:
    record = job.record
    message = pending_text(job.job_id, record)
    if record is not None and isinstance(facts.request, JobRequest):
        odd = [facts.untaken] if facts.untaken else list(differences(record, facts.request))
        message = ". ".join([message, *odd])
    cause = record.state_reason if record is not None else ""
    if facts.gang is not None and cause in TOO_LARGE_REASONS and record is not None and record.tag:
        message += taken_as_a_gang(facts.gang.name, len(record.tag.ranks))
    tell = tuple(Tell(pod, Reason.SLURM_PENDING, message, cause) for pod in pods)
    twins = (LookForTwins(),) if record is not None and behind_twin(facts, record) else ()
    return (*tell, *twins, Again(SLOW_LOOK_SECONDS))


def _readmit(facts: UnitFacts, job: Tracked, now: float) -> tuple[Action, ...]:
    """Update the excluded nodes, but only right after a look, so that updates are as rare as looks.
    Nodes that a former process has excluded stay so until Slurm's nodes are known (`_wait`).
    """
    record = job.record
    if record is None or not isinstance(facts.request, JobRequest):
        return ()
    if record.state.base is not BaseState.PENDING or now - job.record_at > FRESH_SECONDS:
        return ()
    if facts.uncompared_since is not None:
        return ()
    if record.tag is None:
        return ()
    readmit = _readmission(facts, facts.request, record, record.tag)
    if readmit is None:
        return ()
    if now < facts.readmit_at and readmit.digest == facts.readmit_refused:
        return ()
    return (readmit,)


def _readmission(
    facts: UnitFacts, request: JobRequest, record: TaggedJob, tag: OwnerTag
) -> Readmit | None:
    """How the excluded nodes of the job, or of its components, must be changed."""
    if not tag.parts:
        wanted = _excluded(facts, request, "")
        same = set(wanted) == set(record.excluded_nodes)
        return None if same else Readmit(record.job_id, wanted)
    each = [_excluded(facts, request, part.kind) for part in tag.parts]
    pairs = list(zip(record.parts, each, strict=True))
    if all(set(part.excluded_nodes) == set(excluded) for part, excluded in pairs):
        return None
    others = tuple((part.job_id, excluded) for part, excluded in pairs[1:])
    return Readmit(record.job_id, each[0], others)


def _excluded(facts: UnitFacts, request: JobRequest, kind: str) -> tuple[str, ...]:
    """The nodes that pods of this kind must not get."""
    found = facts.excluded_for.get(kind, facts.excluded) if kind else facts.excluded
    ours = found.keys() - set(request.required_nodes)  # Slurm refuses a node in both lists
    return tuple(sorted({*request.excluded_nodes, *ours}))


def allocated(
    facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked, now: float
) -> tuple[Action, ...]:
    """Slurm has started the job: bind the pods to the Nodes behind its nodes, or say why not."""
    too_early = _too_early(facts, pods, job, now)
    if too_early:
        return too_early
    record = job.record
    if (
        record is None
        or record.state.base is not BaseState.RUNNING
        or now - job.record_at > FRESH_SECONDS
        or (record.state.configuring and not _configuring(job))
    ):
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    if warned(record) and not facts.any_runs:
        return (*_give_back(job.job_id, "Slurm is preempting it"), Again(0.0))
    grown = "" if facts.any_runs else _outgrown(facts, record)
    if grown:
        why = (
            f"the pod was resized: it asks for {grown}; a new job follows, at the end of the queue"
        )
        return (*_give_back(job.job_id, why), Again(0.0))
    if facts.gang is not None and facts.gang.unread:
        return (ReadGang(),)
    late = outdated(facts, record, now)
    if ReadGang() in late:
        return late
    other = outlived(facts, record)
    if other:
        why = f"{other}: a new job follows, at the end of the queue"
        return (*_give_back(job.job_id, why), Again(0.0))
    if facts.gang is not None and record.packed:
        uncounted = _uncounted(facts, pods, job, record, now)
        if uncounted:
            return uncounted
    seated = seating(facts, record, now)
    if isinstance(seated, str):
        return _not_dealt_out(facts, pods, record, seated)
    missing = lacking(facts) or ("" if facts.gang is None else missing_of(facts, facts.gang))
    if missing:
        return _without_the_others(missing, pods, job, now)
    stuck = without_slot(facts, pods, record, seated)
    if releases(stuck):
        return stuck
    waits = while_others_run(facts, pods, record, seated, now)
    pods = tuple(pod for pod in pods if pod.uid in seated.taken)
    return (*stuck, *late, *waits, *_start(facts, pods, job, seated, now))


def _start(
    facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked, seated: Seating, now: float
) -> tuple[Action, ...]:
    """Bind these pods, which have slots, or say what prevents it."""
    record = job.record
    assert record is not None  # noqa: S101 - `allocated` has just read it
    node_of_pod = seated.nodes_of(pods)
    wanted = {*node_of_pod.values()}
    if facts.gang is not None and pods:
        wanted.add(seated.slots[0])  # its Node is written on each pod
    wanted -= facts.nodes.keys()
    unlocated = tuple(node for node in record.nodes if node in wanted)
    if unlocated:
        return (Locate(unlocated), Again(0.0))
    if facts.uncompared_since is not None:
        return (Again(SOON_SECONDS),)
    places = {node: facts.nodes[node] for node in node_of_pod.values()}
    unfit = {node: place for node, place in places.items() if place.unfit is not None}
    occupied = all(it.unfit is not None and it.unfit.occupied for it in unfit.values())
    if facts.in_way is not None and occupied:
        return _another_in_the_way(facts, pods, record, facts.in_way, now)
    if unfit and facts.any_runs:
        return _some_unfit(facts, pods, job, now, seated=seated, unfit=unfit)
    if unfit:
        return _unfit(facts, pods, job, unfit, now)
    refused, kept = facts.refused_bind, facts.any_runs
    if refused is not None and not kept and refused.is_over(record.job_id, now):
        why = f"the API server refuses to bind the pod: {refused.why}"
        return (*_give_back(record.job_id, why), Again(0.0))
    pause = 0.0 if refused is None else refused.wait(record.job_id, now, kept=kept)
    if pause and refused is not None and kept:
        return not_to_be_bound(facts, pods, refused, pause, now)
    if pause:
        return (Again(pause),)
    reseat = reseated(facts, record, seated, pods)
    if reseat is not None:
        return (reseat, Again(0.0))
    return (*_binds(facts, pods, seated, record), Again(SLOW_LOOK_SECONDS))


def _some_unfit(
    facts: UnitFacts,
    pods: tuple[PodFacts, ...],
    job: Tracked,
    now: float,
    *,
    seated: Seating,
    unfit: dict[str, Place],
) -> tuple[Action, ...]:
    """Other pods of the gang run: of those that wait, the ones whose Nodes suit them are bound."""
    record, node_of_pod = job.record, seated.nodes_of(pods)
    assert record is not None  # noqa: S101 - `allocated` has just read it
    why = {node: complaint(node, place) for node, place in unfit.items()}
    others = tuple(pod for pod in pods if node_of_pod[pod.uid] not in unfit)
    stuck = tuple(pod for pod in pods if node_of_pod[pod.uid] in unfit)
    answer = on_unfit_node(facts, stuck, record, why, now)
    if releases(answer) or not others:
        return answer
    return (*answer, *_start(facts, others, job, seated, now))


def _uncounted(
    facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked, record: TaggedJob, now: float
) -> tuple[Action, ...]:
    """What to do while it is not known how many pods each node of a packed job has; () if it is.
    Slurm tells the CPUs of each node. Where it allocates whole sockets or nodes, they say more
    than there are.
    """
    if record.laid_out:
        if facts.any_runs or not (miscounted(record) or _is_crowded(facts, record)):
            return ()
        why = (
            f"it seems to have room for {len(record.slots)} pods on {len(record.nodes)} nodes: "
            "Slurm allocates whole sockets or nodes"
        )
        return _not_to_be_packed(record, why)
    why = "Slurm does not say how many CPUs it has on each of its nodes"
    waits = not job.running_since or now - job.running_since < UNFIT_SECONDS
    if not waits and not facts.any_runs:
        return _not_to_be_packed(record, why)
    message = f"Slurm job {record.job_id} is allocated, but {why}"
    again = Again(LINGER_LOOK_SECONDS if waits else UNFIT_SECONDS)
    return (*_pending(pods, message), again)


def _is_crowded(facts: UnitFacts, record: TaggedJob) -> bool:
    """Whether a node has more pods than the gang allows."""
    most = 1 if facts.gang is None else facts.gang.per_node
    return any(slots > most for rooms in record.rooms for slots in rooms.values())


def _not_to_be_packed(record: TaggedJob, why: str) -> tuple[Action, ...]:
    drop = DropJob(record.job_id, why, miscounted=True)
    return (drop, Cancel(record.job_id, why), Again(0.0))


def _not_dealt_out(
    facts: UnitFacts, pods: tuple[PodFacts, ...], record: Job, why: str
) -> tuple[Action, ...]:
    """The allocation has no slot for each pod: release it, unless another pod needs it."""
    if not facts.any_runs:
        return (*_give_back(record.job_id, why), Again(0.0))
    message = f"Slurm job {record.job_id} is kept because another of its pods runs, but {why}"
    return (*_pending(pods, message), Again(SLOW_LOOK_SECONDS))


def _without_the_others(
    missing: str, pods: tuple[PodFacts, ...], job: Tracked, now: float
) -> tuple[Action, ...]:
    """No pod is bound without the others. The allocation is kept for a minute in case they come."""
    if job.running_since and now - job.running_since >= UNFIT_SECONDS:
        return (*_give_back(job.job_id, f"pods are missing: {missing}"), Again(0.0))
    message = f"Slurm job {job.job_id} is allocated, but pods are missing: {missing}"
    return (*_pending(pods, message), Again(SOON_SECONDS))


def _pending(pods: tuple[PodFacts, ...], message: str) -> tuple[Action, ...]:
    return tuple(Tell(pod, Reason.SLURM_PENDING, message) for pod in pods)


def _outgrown(facts: UnitFacts, record: TaggedJob) -> str:
    request = facts.request
    if record.parts or not isinstance(request, JobRequest):
        return ""  # what pods of a heterogeneous job ask for: `reshaped`
    return outgrown(record, request)


def _another_in_the_way(
    facts: UnitFacts, pods: tuple[PodFacts, ...], record: Job, way: InWay, now: float
) -> tuple[Action, ...]:
    """Another pod still uses what the job holds: wait until it leaves, or release the
    allocation.
    """
    if way.is_young(now):
        return (Again(ASK_AGAIN_SECONDS),)
    held = f"Slurm job {record.job_id} has {','.join(record.nodes)}, {way}"
    if facts.any_runs:
        return (*_pending(pods, held), Again(SOON_SECONDS))
    if now < way.until:
        return (Again(SOON_SECONDS),)
    message = f"{held}: {_NEXT_ELSEWHERE}"
    tell = (Tell(pod, Reason.NODE_UNAVAILABLE, message) for pod in pods)
    exclude = (Exclude(node, str(way)) for node in _where(way, facts, record))
    return (*tell, *exclude, *_give_back(record.job_id, f"it holds a node {way}"), Again(0.0))


def _where(way: InWay, facts: UnitFacts, record: Job) -> tuple[str, ...]:
    """The nodes of the job where the other pods may run. All of them if that is not known: the
    Node behind a node may have changed.
    """
    places = ((node, facts.nodes.get(node)) for node in record.nodes)
    found = [node for node, it in places if it is not None and it.target in way.targets]
    return tuple(found) or record.nodes


def _too_early(
    facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked, now: float
) -> tuple[Action, ...]:
    """What to do while a look at a started job would show nothing that is of use; () otherwise.

    The pulse shows when a node is ready, and looks at a few such jobs each second. The watch shows
    when a pod is gone. So however many pods wait, Slurm is not asked about each of them (I10).
    """
    record = job.record
    if record is not None and warned(record) and not facts.any_runs:
        return ()
    runs = record is not None and record.state.base is BaseState.RUNNING
    if _configuring(job) and (runs or (job.allocated_at and not job.claimed)):
        return _made_ready(pods, job, now)
    way = _in_the_way(facts, job, now) if runs else ""
    if record is None or not way:
        return ()
    held = f"Slurm job {job.job_id} has {','.join(record.nodes)}, {way}"
    return (*_pending(pods, held), Again(SOON_SECONDS))


def _made_ready(pods: tuple[PodFacts, ...], job: Tracked, now: float) -> tuple[Action, ...]:
    """The nodes of the job boot, or PrologSlurmctld runs. The pod says so once a look has shown
    which nodes these are, or after a while without that.
    """
    tell_at = job.allocated_at + MADE_READY_SECONDS
    if not job.running_since and now < tell_at:
        return (Again(tell_at - now),)
    if job.record is None or not job.running_since:
        what = "its nodes, which are being made ready"
    else:
        what = f"{','.join(job.record.nodes)}, which is being made ready"
    text = f"Slurm job {job.job_id} has {what}"
    return (*_pending(pods, text), Again(SLOW_LOOK_SECONDS))


def _in_the_way(facts: UnitFacts, job: Tracked, now: float) -> str:
    """What a started job waits for although its node is ready; "" if a look must show it."""
    way = facts.in_way
    # A pod that is stopping holds its ports and its share of the Node until it has stopped, and it
    # may not be marked as leaving yet.
    found = (place.unfit for place in facts.nodes.values())
    unfit = any(it is not None and not it.occupied for it in found)
    if way is None or way.is_young(now) or now >= way.until or not job.running_since or unfit:
        return ""
    return f"{way}"


def _binds(
    facts: UnitFacts, pods: tuple[PodFacts, ...], seated: Seating, record: Job
) -> tuple[Action, ...]:
    gang, nodes = facts.gang, seated.nodes_of(pods)
    first_node = "" if gang is None or not pods else facts.nodes[seated.slots[0]].target
    return tuple(
        Bind(
            pod,
            node,
            record.job_id,
            facts.nodes[node].target,
            partition=record.part_on(node).partition,
            ends_at=ends_at(record),
            first_node=first_node,
            gang_size=0 if gang is None else gang.size or len(seated.slots),
        )
        for pod in pods
        for node in (nodes[pod.uid],)
    )


def _configuring(job: Tracked) -> bool:
    return job.state is not None and job.state.configuring


def _unfit(
    facts: UnitFacts,
    pods: tuple[PodFacts, ...],
    job: Tracked,
    unfit: dict[str, Place],
    now: float,
) -> tuple[Action, ...]:
    """An allocation that the pod cannot use: wait if that can help, otherwise release it."""
    why = {node: complaint(node, place) for node, place in unfit.items()}
    what = "; ".join(why.values())
    passes = all(place.unfit is not None and place.unfit.passes for place in unfit.values())
    if passes and is_waited_for(facts, now):
        return until_it_suits(pods, job.job_id, what)
    message = f"{what}: {_NEXT_ELSEWHERE}"
    exclude = (Exclude(node, text) for node, text in why.items())
    since = f"{what} for over {UNFIT_SECONDS:.0f} s" if passes else what
    return (
        *unavailable(pods, job.job_id, message),
        *exclude,
        *_give_back(job.job_id, since),
        Again(0.0),
    )
