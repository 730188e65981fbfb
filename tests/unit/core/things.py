"""Facts to decide about: plain ones with short names, and Hypothesis' idea of all others."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from annotations import JobRequest, Problem
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
from scheduler.core.node_suitability import Place, Unfit
from scheduler.core.owner_tag import SEVERAL, SINGLE, Owner, OwnerTag
from scheduler.core.refused_bind import RefusedBind
from scheduler.core.slot_choice import Seat
from scheduler.core.tagged import TaggedJob
from scheduler.core.tenure import MOST_TRIES, Tenure
from slurmapi.model import BaseState, JobState, SlurmNode

NOW: Final = 1000.0
JOB: Final = 4711
KEY: Final = "uid-0"
GANG: Final = "gang"
"""The key of a unit of several pods."""
OURS: Final = Owner("cluster-1", "slurm-scheduler")
REQUEST: Final = JobRequest(cpus=4, memory_mib=1024)
SEATS: Final = (Seat(0, KEY),)
PROBLEMS: Final = (Problem("cpu", "", "a request"),)
ENDED: Final = tuple(state for state in BaseState if JobState(state).ended)
LIVE: Final = tuple(state for state in BaseState if not JobState(state).ended)


def tag(
    *,
    owner: Owner = OURS,
    uids: tuple[str, ...] = (KEY,),
    node: str = "",
    version: int = SINGLE,
    restarts: int = 0,
    given_back: bool = False,
    asked: JobRequest | None = None,
    key: str = "",
) -> str:
    """An admin_comment; ours, of a version without digests, unless told otherwise. With a `key` it
    is of several pods, in the order of their ranks.
    """
    digested = {} if asked is None else dict(digests(asked))
    return OwnerTag(
        v=SEVERAL if key else version,
        cluster=owner.cluster,
        scheduler=owner.scheduler,
        namespace="ns",
        unit="train",
        uids=uids,
        node=node,
        restarts=restarts,
        given_back=given_back,
        asked=digested,
        unit_key=key,
        group="group" if key else "",
        ranks=tuple(range(len(uids))) if key else (),
        names=("train",) * len(uids) if key else (),
    ).encode()


def state(base: BaseState, *flags: str) -> JobState:
    return JobState(base, frozenset(flags))


def record(
    base: BaseState = BaseState.RUNNING, *flags: str, nodes: tuple[str, ...] = ("n1",), **more: Any
) -> TaggedJob:
    """A full look at a job of ours."""
    fields: dict[str, Any] = {
        "job_id": JOB,
        "name": "ns.train.uid-0",
        "admin_comment": tag(),
        "nodes": nodes,
    }
    return TaggedJob(state=state(base, *flags), **(fields | more))


def tracked(looked: TaggedJob | None = None, *, at: float = NOW, **more: Any) -> Tracked:
    """A job whose pulse and last look agree, unless told otherwise."""
    fields: dict[str, Any] = {
        "state": None if looked is None else looked.state,
        "record": looked,
        "record_at": at,
    }
    return Tracked(job_id=JOB, **(fields | more))


def warned() -> TaggedJob:
    """A running job that Slurm has given 20 s to leave, from second 5000 of the epoch on."""
    return record(preempt_time=5000, end_time=5020)


def pod(stage: PodStage, *, node: str | None = None, uid: str = KEY, **more: Any) -> PodFacts:
    """One of a unit's pods. Its rank is the digit at the end of its uid, unless told otherwise."""
    runs = stage in {PodStage.BOUND, PodStage.DEPARTING}
    where = ("n1" if runs else "") if node is None else node
    rank = int(uid[-1]) if uid[-1].isdigit() else 0
    fields: dict[str, Any] = {"name": "train", "rank": rank}
    return PodFacts(uid=uid, namespace="ns", stage=stage, node=where, **(fields | more))


def places(*nodes: str, unfit: Unfit | None = None) -> dict[str, Place]:
    """Slurm nodes, each with a Kubernetes Node of another name behind it."""
    return {node: Place(f"kube-{node}", unfit) for node in nodes}


def facts(*pods: PodFacts, job: JobFacts | None = None, **more: Any) -> UnitFacts:
    fields: dict[str, Any] = {
        "key": KEY,
        "missing": () if pods else (MissingPod(uid=KEY, name="train"),),
        "request": REQUEST,
        "nodes": places("n1", "n2"),
    }
    return UnitFacts(owner=OURS, pods=pods, job=job or NoJob(), **(fields | more))


# --- all facts there may be -----------------------------------------------------------------------

TAGS: Final = (
    tag(),
    tag(node="n1"),
    tag(asked=REQUEST),
    tag(asked=replace(REQUEST, comment="before")),
    tag(asked=replace(REQUEST, cpus=1)),
    tag(owner=Owner("cluster-2", "slurm-scheduler")),
    tag(owner=Owner("cluster-1", "another-scheduler")),
    tag(uids=("uid-of-another-pod",)),
    tag(version=SEVERAL + 1),
    tag(uids=(KEY, "uid-1"), key=GANG),
    tag(uids=(KEY, "uid-1", "uid-2"), key=GANG),
    tag(uids=("uid-1", "uid-2"), key=GANG),
    "",
    "{not json",
)
_states = st.builds(
    JobState,
    st.sampled_from(BaseState),
    st.frozensets(st.sampled_from(["CONFIGURING", "COMPLETING", "REQUEUED"]), max_size=2),
)
_node_lists = st.sampled_from([(), ("n1",), ("n2",), ("n1", "n2"), ("n1", "n2", "n3")])
_records = st.builds(
    TaggedJob,
    job_id=st.just(JOB),
    name=st.just("ns.train.uid-0"),
    state=_states,
    state_reason=st.sampled_from(["", "None", "Resources", "Dependency"]),
    nodes=_node_lists,
    admin_comment=st.sampled_from([tag(), tag(), tag(), tag(restarts=1), *TAGS]),
    restart_count=st.integers(0, 2),
    priority=st.none() | st.just(100),
    partition=st.sampled_from(["", "main"]),
    preempt_time=st.sampled_from([None, None, 5000]),
    end_time=st.sampled_from([None, 5020]),
)
_tracked = st.builds(
    Tracked,
    job_id=st.just(JOB),
    state=st.none() | _states,
    record=st.none() | _records,
    record_at=st.sampled_from([NOW, NOW - 1, NOW - 2, NOW - 2.1, NOW - 1000]),
    cancelled_at=st.sampled_from([None, NOW - 1, NOW - 100]),
)
# The pulse and the last look mostly agree.
_agreeing = st.builds(
    lambda looked, at: tracked(looked, at=at),
    _records,
    st.sampled_from([NOW, NOW - 1, NOW - 10]),
)
# The case most decisions turn on: ours, allocated, just looked at.
_holding = st.builds(
    lambda comment, nodes, at: tracked(record(nodes=nodes, admin_comment=comment), at=at),
    st.sampled_from([tag(), tag(uids=(KEY, "uid-1", "uid-2"), key=GANG)]),
    _node_lists,
    st.sampled_from([NOW, NOW - 1, NOW - 10]),
)
_jobs = st.one_of(
    st.just(NoJob()),
    st.just(InDoubt()),
    st.builds(Vanished, st.just(JOB), confirmed=st.booleans()),
    _tracked,
    _agreeing,
    _holding,
)
IN_WAY: Final = InWay("pod old", since=NOW - 10, since_epoch=0.0, until=NOW + 50)
INS_WAY: Final = (
    IN_WAY,
    replace(IN_WAY, until=NOW),
    replace(IN_WAY, sure=False),
    replace(IN_WAY, sure=False, since=NOW - 1),
)
REFUSED_BINDS: Final = tuple(
    RefusedBind(JOB, "why", since=since, again_at=again_at)
    for since in (NOW - 100, NOW - 1)
    for again_at in (NOW, NOW + 5)
)
NOT_READY: Final = Unfit("is not ready", passes=True)
TAINTED: Final = Unfit("has the taint a:NoSchedule, which the pod does not tolerate")
_places = st.dictionaries(
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(
        [
            Place("kube-n"),
            Place("kube-n", NOT_READY),
            Place("kube-n", TAINTED),
            Place("", Unfit("maps to no Kubernetes Node")),
        ]
    ),
)


_full = SlurmNode(name="n1", states=frozenset(), cpus=4, allocated_cpus=4)
TENURES: Final = st.builds(
    Tenure,
    until=st.sampled_from([None, 4000.0, 7000.0]),
    suspended_seconds=st.sampled_from([0.0, 0.0, 2000.0]),
    tries=st.sampled_from([0, 0, 2, 3, MOST_TRIES]),
    pinned_since=st.sampled_from([None, NOW - 1, NOW - 60, NOW - 600]),
    short_since=st.sampled_from([None, NOW - 60, NOW - 600]),
    lost_young=st.booleans(),
    node=st.sampled_from([None, replace(_full, allocated_cpus=0), _full]),
    node_at=st.sampled_from([NOW - 100, NOW - 5, NOW - 0.5]),
    weighed_since=st.sampled_from([None, NOW - 5, NOW - 100]),
)


@st.composite
def unit_facts(draw: st.DrawFn) -> UnitFacts:
    """Any facts, as likely true as not; a pod that runs has a Node."""
    stages = draw(st.lists(st.sampled_from(PodStage), max_size=3))
    pods = tuple(
        pod(
            stage,
            uid=f"uid-{index}",
            node=draw(st.sampled_from(["n1", "n2", "n3", ""])) if stage in _RUNS else "",
            placed_by_us=draw(st.sampled_from([True, True, False])),
            grace_seconds=draw(st.sampled_from([0, 5, 30])),
            deletion_grace_seconds=draw(st.sampled_from([None, 0, 1, 5, 30, 3600])),
        )
        for index, stage in enumerate(stages)
    )
    gone = draw(st.lists(st.sampled_from([0.0, NOW - 1, NOW, NOW + 5]), max_size=2))
    missing = tuple(
        MissingPod(
            uid=f"gone-{index}", name="gone", lingers_until=until, placed=draw(st.booleans())
        )
        for index, until in enumerate(gone if pods else [0.0, *gone])
    )
    job = draw(_jobs)
    return facts(
        *pods,
        missing=missing,
        key=draw(st.sampled_from([KEY, GANG, *_keys(job)])),
        job=job,
        request=draw(st.sampled_from([REQUEST, REQUEST, PROBLEMS])),
        refused=draw(st.sampled_from([(), (), PROBLEMS])),
        uses={it.uid: REQUEST for it in pods} if draw(st.booleans()) else {},
        accepted=draw(st.sampled_from([{}, dict(digests(REQUEST))])),
        nodes=draw(st.just(places("n1", "n2", "n3")) | _places),
        update_at=draw(st.sampled_from([0.0, NOW, NOW + 5])),
        submit_at=draw(st.sampled_from([0.0, NOW, NOW + 5])),
        refused_bind=draw(st.sampled_from([None, None, *REFUSED_BINDS])),
        in_way=draw(st.sampled_from([None, None, *INS_WAY])),
        unfit_since=draw(st.sampled_from([None, NOW - 1, NOW - 100])),
        bound_by_us=draw(st.booleans()),
        unrecorded=draw(st.sampled_from([False, False, True])),
        tell_at=draw(st.sampled_from([None, None, NOW - 1, NOW + 1])),
        unlisted=draw(st.sampled_from(["", "", "no answer yet"])),
        unjudged=draw(st.sampled_from([False, False, True])),
        excluded=draw(st.sampled_from([{}, {}, {"n3": "why"}])),
        nowhere=draw(st.sampled_from(["", "", "why"])),
        held_until=draw(st.sampled_from([0.0, 0.0, NOW, NOW + 5])),
        held_why="why",
        epoch=draw(st.sampled_from([0.0, 5005.0, 9000.0])),
        evict_suspended=draw(st.booleans()),
        longest_grace=draw(st.sampled_from([None, -1, 24])),
        tenure=draw(TENURES),
    )


def _keys(job: JobFacts) -> list[str]:
    """The key of the unit that the job is for, twice: mostly it is the unit's own."""
    looked = job.record if isinstance(job, Tracked) else None
    return [] if looked is None or looked.tag is None else 2 * [looked.tag.key]


_RUNS: Final = frozenset({PodStage.BOUND, PodStage.DEPARTING})


@st.composite
def allocated_units(draw: st.DrawFn) -> UnitFacts:
    """Units whose own job runs and was just looked at, so that most pods that wait can be bound."""
    nodes = tuple(draw(st.permutations(["n1", "n2", "n3"])))[: draw(st.integers(1, 3))]
    uids = tuple(f"uid-{rank}" for rank in range(len(nodes)))
    stages = [draw(st.sampled_from([None, PodStage.WAITING, *PodStage])) for _ in nodes]
    pods = [
        pod(stage, uid=uid, node=node if stage in _RUNS else "")
        for stage, uid, node in zip(stages, uids, nodes, strict=True)
        if stage is not None
    ]
    gone = [uid for stage, uid in zip(stages, uids, strict=True) if stage is None]
    key = KEY if len(nodes) == 1 else GANG
    comment = tag(uids=uids, key="" if key == KEY else key)
    job = tracked(
        record(nodes=nodes, admin_comment=comment), running_since=draw(st.sampled_from([0.0, NOW]))
    )
    return facts(
        *draw(st.permutations(pods)),
        key=key,
        missing=tuple(MissingPod(uid=uid, name="gone", placed=draw(st.booleans())) for uid in gone),
        job=job,
        nodes=draw(st.just(places("n1", "n2", "n3")) | _places),
        in_way=draw(st.sampled_from([None, None, None, *INS_WAY])),
        refused_bind=draw(st.sampled_from([None, None, None, *REFUSED_BINDS])),
        unfit_since=draw(st.sampled_from([None, NOW - 100])),
    )
