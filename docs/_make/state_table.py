"""The state table of docs/architecture.md: what `decide` answers, asked of `decide` itself.

One unit of one pod, in every situation of the pod and of its placeholder that is told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from msgspec.structs import replace

from annotations import JobRequest, Problem
from scheduler.core.actions import (
    Action,
    Again,
    Bind,
    Cancel,
    DropJob,
    Evict,
    Exclude,
    Forget,
    GiveBack,
    Hurry,
    Inspect,
    Locate,
    LookForTwins,
    NoteEnd,
    PartWith,
    ReadGang,
    Readmit,
    Record,
    Reject,
    Reseat,
    ServeBeside,
    Submit,
    TakeBack,
    Tell,
    TellGroup,
    Update,
    Warn,
    Weigh,
)
from scheduler.core.decide import decide
from scheduler.core.edits import digests
from scheduler.core.facts import (
    InDoubt,
    JobFacts,
    MissingPod,
    NoJob,
    PodFacts,
    PodStage,
    Tracked,
    UnitFacts,
    Vanished,
)
from scheduler.core.in_the_way import InWay
from scheduler.core.intervals import CANCEL_AGAIN_SECONDS, FRESH_SECONDS, UNFIT_SECONDS
from scheduler.core.lost_job import PINNED_SECONDS
from scheduler.core.node_suitability import Place, Unfit
from scheduler.core.owner_tag import SEVERAL, SINGLE, Owner, OwnerTag
from scheduler.core.refused_bind import ALLOCATION_KEPT_SECONDS, RefusedBind
from scheduler.core.tagged import TaggedJob
from scheduler.core.tenure import MOST_TRIES, Tenure
from slurmapi.model import BaseState, JobState, SlurmNode

WAIT: Final = "wait"
"""The cell of an answer that only says when to look again."""

_NOW: Final = 1000.0
_JOB: Final = 1
_UID: Final = "uid"
_NODE: Final = "node"
_PLACES: Final = (_NODE, "second", "elsewhere")
_OWNER: Final = Owner("cluster", "scheduler")
_REQUEST: Final = JobRequest(cpus=1, memory_mib=1)
_PROBLEM: Final = Problem("field", "value", "something else")


@dataclass(frozen=True, slots=True)
class Situation:
    """How it stands with the pod (a column)."""

    name: str
    pods: tuple[PodFacts, ...]
    request: JobRequest | tuple[Problem, ...] = _REQUEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How it stands with the placeholder (a row)."""

    name: str
    job: JobFacts
    unfit: Unfit | None = None
    unfit_since: float | None = None
    refused_bind: RefusedBind | None = None
    in_way: InWay | None = None
    submit_at: float = 0.0
    held_until: float = 0.0
    uncompared_since: float | None = None
    update_at: float = 0.0
    unrecorded: bool = False
    tell_at: float | None = None
    excluded: tuple[str, ...] = ()
    nowhere: str = ""
    known: bool = True
    tenure: Tenure = field(default_factory=Tenure)


def _pod(stage: PodStage, *, placed_by_us: bool = True) -> tuple[PodFacts, ...]:
    node = _NODE if stage in {PodStage.BOUND, PodStage.DEPARTING} else ""
    pod = PodFacts(uid=_UID, namespace="ns", name="pod", stage=stage, node=node)
    return (replace(pod, placed_by_us=placed_by_us),)


def _leaving() -> tuple[PodFacts, ...]:
    return tuple(replace(it, deletion_grace_seconds=3600) for it in _pod(PodStage.DEPARTING))


def situations() -> tuple[Situation, ...]:
    """Every stage of a pod, no pod, and the variants of a stage that get other answers."""
    return (
        Situation("no pod", ()),
        *(Situation(stage.value, _pod(stage)) for stage in PodStage),
        Situation("departing, with a grace that is too long", _leaving()),
        Situation("waiting, invalid", _pod(PodStage.WAITING), (_PROBLEM,)),
        Situation("bound, invalid now", _pod(PodStage.BOUND), (_PROBLEM,)),
        Situation("bound by others", _pod(PodStage.BOUND, placed_by_us=False)),
    )


def _record(
    state: JobState,
    *,
    owner: Owner = _OWNER,
    asked_for: str = "",
    asked: JobRequest = _REQUEST,
    given_back: bool = False,
) -> TaggedJob:
    tag = OwnerTag(
        v=SINGLE,
        cluster=owner.cluster,
        scheduler=owner.scheduler,
        namespace="ns",
        unit="pod",
        uids=(_UID,),
        node=asked_for,
        asked=dict(digests(asked)),
        given_back=given_back,
    )
    nodes = (_NODE,) if state.base is BaseState.RUNNING else ()
    return TaggedJob(job_id=_JOB, name="", state=state, nodes=nodes, admin_comment=tag.encode())


def _seen(record: TaggedJob) -> Tracked:
    return Tracked(job_id=_JOB, state=record.state, record=record, record_at=_NOW)


def standings() -> tuple[Standing, ...]:
    """No job, doubtful and lost ones, then every state of a job that is known."""
    return (
        Standing(name="none", job=NoJob()),
        Standing(
            name=f"none, {MOST_TRIES} others were asked for in its place",
            job=NoJob(),
            tenure=Tenure(tries=MOST_TRIES),
        ),
        Standing(name="none, its time is over", job=NoJob(), tenure=Tenure(until=-1.0)),
        Standing(name="none, backing off", job=NoJob(), submit_at=_NOW + 10),
        Standing(
            name=f"none, backing off, and for {PINNED_SECONDS:g} s others hold the pod's node",
            job=NoJob(),
            submit_at=_NOW + 10,
            tenure=Tenure(node=_full_node(), node_at=_NOW - 1, weighed_since=_NOW - PINNED_SECONDS),
        ),
        Standing(name="none, after pods that ended too soon", job=NoJob(), held_until=_NOW + 10),
        Standing(name="none, and no Node fits", job=NoJob(), nowhere="why"),
        Standing(
            name="none, and Nodes are not compared yet", job=NoJob(), uncompared_since=_NOW - 10
        ),
        Standing(name="in doubt", job=InDoubt()),
        Standing(name="unknown to Slurm, unconfirmed", job=Vanished(_JOB, confirmed=False)),
        Standing(name="unknown to Slurm, confirmed", job=Vanished(_JOB, confirmed=True)),
        Standing(
            name="named by the pod only, unknown to Slurm",
            job=Vanished(_JOB, confirmed=False, claimed=True),
        ),
        Standing(
            name="named by the pod only, not asked for yet",
            job=Tracked(job_id=_JOB, claimed=True),
        ),
        Standing(name="id known, never seen", job=Tracked(job_id=_JOB)),
        Standing(name="the id is another's", job=_seen(_foreign())),
        Standing(name="of a group of pods that is not known here", job=_seen(_of_group())),
        Standing(
            name="known to be the unit's, its tag taken away",
            job=replace(_seen(_untagged()), known_as=(_untagged().name, 0)),
        ),
        Standing(
            name="the same, RUNNING",
            job=replace(_seen(_overwritten()), known_as=(_overwritten().name, 0)),
        ),
        Standing(
            name="named by the pod only, RUNNING, seems to be the unit's, without a tag",
            job=replace(_seen(_overwritten()), known_as=(_overwritten().name, 0), claimed=True),
        ),
        *_queued(),
        *_running(),
        Standing(
            name=f"RUNNING, cancelled by us less than {CANCEL_AGAIN_SECONDS:g} s ago",
            job=replace(_seen(_running_job()), cancelled_at=_NOW),
        ),
        *_others(),
        *_ended(),
    )


def _foreign() -> TaggedJob:
    return _record(JobState(BaseState.RUNNING), owner=Owner("another", "scheduler"))


def _of_group() -> TaggedJob:
    """Of another version of the scheduler, or of one with other settings."""
    tag = OwnerTag(
        v=SEVERAL,
        cluster=_OWNER.cluster,
        scheduler=_OWNER.scheduler,
        namespace="ns",
        unit="pod",
        uids=(_UID,),
        unit_key="key",
        group="group",
        ranks=(0,),
    )
    return replace(_running_job(), admin_comment=tag.encode())


def _untagged() -> TaggedJob:
    job = _record(JobState(BaseState.PENDING))
    return replace(job, name="ns.pod.uid", admin_comment="a plugin's", submit_time=0)


def _overwritten() -> TaggedJob:
    return replace(_running_job(), name="ns.pod.uid", admin_comment="an operator's", submit_time=0)


def _running_job() -> TaggedJob:
    return _record(JobState(BaseState.RUNNING))


def _full_node() -> SlurmNode:
    return SlurmNode(name=_NODE, states=frozenset(), cpus=1, allocated_cpus=1)


_pinned: Final = Tenure(pinned_since=_NOW - PINNED_SECONDS)


def _queued() -> tuple[Standing, ...]:
    job = _record(JobState(BaseState.PENDING))
    pinned = _record(JobState(BaseState.PENDING), asked_for=_NODE)
    twin = replace(job, state_reason="Dependency")
    commented = _record(job.state, asked=replace(_REQUEST, comment="as before"))
    smaller = _record(job.state, asked=replace(_REQUEST, cpus=_REQUEST.cpus + 1))
    return (
        Standing(name="PENDING", job=_seen(job)),
        Standing(
            name="PENDING, submitted just now", job=_seen(job), unrecorded=True, tell_at=_NOW + 1
        ),
        Standing(name="PENDING, behind a twin (Dependency)", job=_seen(twin)),
        Standing(name="PENDING, other nodes excluded now", job=_seen(job), excluded=("other",)),
        Standing(name="PENDING, asked for on the pod's node", job=_seen(pinned)),
        Standing(
            name=f"PENDING, asked for on the pod's node for {PINNED_SECONDS:g} s",
            job=_seen(pinned),
            tenure=_pinned,
        ),
        Standing(
            name="PENDING, asked for on the pod's node, which others hold",
            job=_seen(pinned),
            tenure=replace(_pinned, node=_full_node(), node_at=_NOW - 1),
        ),
        Standing(name="PENDING, the pod was edited", job=_seen(commented)),
        Standing(
            name="PENDING, and the edit was refused", job=_seen(commented), update_at=_NOW + 10
        ),
        Standing(name="PENDING, edited into what needs a new job", job=_seen(smaller)),
        Standing(name="PENDING, requeued", job=_seen(replace(job, restart_count=1))),
    )


def _running() -> tuple[Standing, ...]:
    job = _running_job()
    stale = replace(_seen(job), record_at=_NOW - FRESH_SECONDS - 1)
    configuring = _record(JobState(BaseState.RUNNING, frozenset({"CONFIGURING"})))
    elsewhere = replace(job, nodes=("elsewhere",))
    passing, lasting = Unfit("is not ready", passes=True), Unfit("has a taint")
    return (
        Standing(name=f"RUNNING, looked at over {FRESH_SECONDS:g} s ago", job=stale),
        Standing(name="RUNNING, not recorded on the pod", job=_seen(job), unrecorded=True),
        Standing(
            name="RUNNING, submitted just now", job=_seen(job), unrecorded=True, tell_at=_NOW + 1
        ),
        Standing(name="RUNNING, CONFIGURING", job=_seen(configuring)),
        Standing(name="RUNNING, its Node unknown", job=_seen(job), known=False),
        Standing(name="RUNNING, Node good", job=_seen(job)),
        Standing(name="RUNNING, Node unfit, which may pass", job=_seen(job), unfit=passing),
        Standing(name="RUNNING, its time limit was changed", job=_seen(replace(job, end_time=1))),
        Standing(
            name=f"RUNNING, Node unfit for {UNFIT_SECONDS:g} s",
            job=_seen(job),
            unfit=passing,
            unfit_since=_NOW - UNFIT_SECONDS,
        ),
        Standing(name="RUNNING, Node unfit for good", job=_seen(job), unfit=lasting),
        Standing(
            name="RUNNING, beside a pod that no job covers",
            job=replace(_seen(job), running_since=_NOW),
            in_way=_in_way(until=_NOW + 1),
        ),
        Standing(
            name="RUNNING, beside one that has not left in time",
            job=replace(_seen(job), running_since=_NOW),
            in_way=_in_way(until=_NOW),
        ),
        Standing(
            name="RUNNING, Node good, binding refused just now",
            job=_seen(job),
            refused_bind=_refused_bind(since=_NOW),
        ),
        Standing(
            name=f"RUNNING, Node good, binding refused for {ALLOCATION_KEPT_SECONDS:g} s",
            job=_seen(job),
            refused_bind=_refused_bind(since=_NOW - ALLOCATION_KEPT_SECONDS),
        ),
        Standing(name="RUNNING, on another node than the pod", job=_seen(elsewhere)),
        Standing(
            name="RUNNING, on several nodes", job=_seen(replace(job, nodes=(_NODE, "second")))
        ),
    )


def _in_way(*, until: float) -> InWay:
    return InWay("pod other", since=0.0, since_epoch=0.0, until=until)


def _refused_bind(*, since: float) -> RefusedBind:
    return RefusedBind(_JOB, "why", since=since, again_at=since + 1)


def _others() -> tuple[Standing, ...]:
    states = (BaseState.SUSPENDED, BaseState.UNKNOWN)
    return tuple(
        Standing(name=state.value, job=_seen(_record(JobState(state)))) for state in states
    )


def _ended() -> tuple[Standing, ...]:
    ended = [state for state in BaseState if JobState(state).ended]
    unseen = replace(_seen(_running_job()), state=JobState(ended[0]))
    given_back = _record(JobState(BaseState.CANCELLED), given_back=True)
    completing = _record(JobState(BaseState.FAILED, frozenset({"COMPLETING"})))
    return (
        Standing(name="ended, not looked at since", job=unseen),
        *(Standing(name=state.value, job=_seen(_record(JobState(state)))) for state in ended),
        Standing(name="FAILED, COMPLETING", job=_seen(completing)),
        Standing(name="CANCELLED, given back by a former process", job=_seen(given_back)),
    )


def answer(situation: Situation, standing: Standing) -> tuple[Action, ...]:
    """What `decide` says to the two together."""
    return decide(
        UnitFacts(
            key=_UID,
            owner=_OWNER,
            pods=situation.pods,
            missing=() if situation.pods else (MissingPod(uid=_UID, name="pod"),),
            request=situation.request,
            uses={_UID: _REQUEST},
            job=standing.job,
            nodes={n: Place(n, standing.unfit) for n in _PLACES} if standing.known else {},
            refused_bind=standing.refused_bind,
            in_way=standing.in_way,
            submit_at=standing.submit_at,
            held_until=standing.held_until,
            uncompared_since=standing.uncompared_since,
            update_at=standing.update_at,
            unfit_since=standing.unfit_since,
            unrecorded=standing.unrecorded,
            tell_at=standing.tell_at,
            excluded=dict.fromkeys(standing.excluded, "why"),
            nowhere=standing.nowhere,
            tenure=standing.tenure,
        ),
        _NOW,
    )


def cell(actions: Sequence[Action]) -> str:
    """The actions in order; when to look again is left out."""
    return ", ".join(shown for action in actions if (shown := _shown(action))) or WAIT


def _shown(action: Action) -> str:
    name = type(action).__name__
    match action:
        case Again():
            return ""
        case Submit(nodes=nodes, replaces=replaces):
            pinned = f"{name}(its node)" if nodes else name
            return f"{pinned} and cancel this one" if replaces is not None else pinned
        case (
            Evict(reason=reason) | Hurry(reason=reason) | Tell(reason=reason) | Warn(reason=reason)
        ):
            return f"{name}({reason})"
        case (
            Inspect()
            | Locate()
            | Weigh()
            | Record()
            | LookForTwins()
            | Bind()
            | NoteEnd()
            | Update()
            | Cancel()
            | TakeBack()
            | DropJob()
            | Exclude()
            | Readmit()
            | Reject()
            | Forget()
            | ReadGang()
            | Reseat()
            | GiveBack()
            | PartWith()
            | ServeBeside()
            | TellGroup()
        ):
            return name
        case _:
            assert_never(action)


def table() -> str:
    """The state table in Markdown. Columns with the same cells are one, and a column whose cells
    are all the same is a line below.
    """
    rows = standings()
    columns: dict[tuple[str, ...], list[str]] = {}
    for situation in situations():
        cells = tuple(cell(answer(situation, row)) for row in rows)
        columns.setdefault(cells, []).append(situation.name)
    varying = {cells: names for cells, names in columns.items() if len(set(cells)) > 1}
    lines = [
        _line(["Placeholder", *(f"pod: {' / '.join(names)}" for names in varying.values())]),
        _line(["---"] * (len(varying) + 1)),
        *(
            _line([row.name, *(cells[index] for cells in varying)])
            for index, row in enumerate(rows)
        ),
        "",
        *(
            f"* Whatever the placeholder, pod {' / '.join(names)}: {cells[0]}."
            for cells, names in columns.items()
            if cells not in varying
        ),
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
