"""What the process remembers of each unit. All of it can be rebuilt from the two servers.

Each part belongs to one room. docs/architecture.md says which, and who else writes it by which
method; `tests/unit/test_who_writes_units.py` checks that. Only `Units.set_job` and
`Units.drop_false_claim` give a unit another job, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.doubt import is_gone, wants_another
from scheduler.core.facts import InDoubt, JobFacts, NoJob, Tracked, Vanished
from scheduler.core.gang_sources import Membership
from scheduler.core.intervals import FRESH_SECONDS
from scheduler.core.owner_tag import Owner, OwnerTag
from scheduler.core.tagged import TaggedJob
from scheduler.state.asked import Asked
from scheduler.state.bindings import Bindings
from scheduler.state.eviction import Eviction
from scheduler.state.gang import Gang
from scheduler.state.member import Member
from scheduler.state.refusals import Refusals
from scheduler.state.said import Said, SaidOnPod
from scheduler.state.seen import Seen, SeenOfPod
from slurmapi.model import BaseState, Job, JobState

# Slurm truncates times to whole seconds, so a difference of two is wrong by less than one.
_SECOND: Final = 1.0
_STARTED: Final = frozenset({BaseState.RUNNING, BaseState.SUSPENDED})


@dataclass(slots=True)
class Placeholder:
    """The job of a unit. The pulse updates `state`, and full looks update `record`. Written by
    `slurm`; `facts` and `execute` use its methods. The table "Who writes what is remembered of a
    unit" in docs/architecture.md names them.
    """

    job_id: int
    state: JobState | None = None
    record: TaggedJob | None = None
    record_at: float = 0.0
    proven: bool = False
    """Whether the record was read after Slurm's last failure to answer. A slurmctld that comes back
    from a crash may have given the id to another job (measured).
    """
    looked_at: float = 0.0
    """When a full look was last tried, with or without an answer."""
    seen_live: bool = False
    """Whether this process has seen the job before it ended."""
    claimed: bool = False
    """Whether only the pod's annotation names the job, which the pod's author can write. False once
    a look has shown our tag for this very unit.
    """
    refuted: bool = False
    """Whether the claim counts as false: Slurm knows no such job or does not show it, or Slurm is
    not asked because the namespace names too many.
    """
    lived_at: float | None = None
    """When Slurm last said that the job had not ended."""
    missed_at: float | None = None
    """When an answer of Slurm first lacked the job."""
    missing: int = 0
    """How many answers in a row lacked the job. `core/doubt.py` says how many are evidence."""
    cancelled_at: float | None = None
    submitted_at: float = 0.0
    made_as: str = ""
    """Its name, if this process got its id in the answer to its own submit; that answer came at
    `submitted_at`.
    """
    known_as: tuple[str, int] | None = None
    """The name of the unit's job and its submit time, in Unix seconds by Slurm's clock. They tell
    which job this is if somebody changes its AdminComment. Set when a look has shown our tag or the
    very job that this process submitted. Of a job that is still `claimed`, they say only that it
    seems to be the unit's (`core/untagged.py`).
    """
    allocated_at: float = 0.0
    running_since: float = 0.0
    """When a full look first saw it run, or when its nodes were ready after that; 0 if it does not
    run, or no look has shown that it does.
    """
    doubted_at: float = float("-inf")
    """When its record was last put in doubt. Answers to earlier requests prove nothing."""
    asked_at: float = float("-inf")
    """When the last request was sent whose answer showed the kind of state that it is in now:
    running, ended and so on. So it was in that state at this time or later.
    """
    shown_in: int = 0
    """The number of the last answer that showed this kind of state and the states of other jobs; 0
    if there was none.
    """
    stopped_at: float = float("-inf")
    """When an answer last showed that it has ended, or that it does not run any more."""
    has_held: bool = False
    """Whether this process has seen the present run of the job on the Node of one of the unit's
    pods, or knows that one of them came to its Node in this run. If that Node is said to be another
    Slurm node later, the job has not moved.
    """
    restarts: int = 0
    """The highest number of restarts that was ever seen in its tag or written into it. slurmctld
    forgets the last changes of the tag in a crash.
    """
    lacking: int = 0
    """How many looks in a row have shown less of it than there must be (`_lacks`)."""
    edition: int = 0
    """Changes whenever the state, the record or `known_as` does."""
    runs_from: float | None = None
    """When the answer came that first showed it running."""
    runs_in: int = 0
    """The number of that answer if it also showed the states of other jobs; otherwise 0."""

    @property
    def is_unread(self) -> bool:
        """Whether it is a job that this process has submitted, that runs now, and that was not
        looked at since it was allocated.
        """
        if not self.made_as or self.missing or self.state is None:
            return False
        runs = self.state.base is BaseState.RUNNING and not self.state.configuring
        return runs and self.looked_at < self.allocated_at

    @property
    def started(self) -> bool:
        """Whether Slurm has said that it runs, or is suspended."""
        return self.state is not None and self.state.base in _STARTED

    def may_be_older(self, state: JobState, *, asked: float) -> bool:
        """Whether an answer with another kind of state, to a request that was sent at `asked`, may
        be older than the one which showed that the job runs, or that it does not run any more.
        """
        if self.state is None or self.state.base is state.base or state.ended:
            return False
        if self.runs_from is not None and state.base is BaseState.PENDING:
            return asked < self.runs_from
        return asked < self.stopped_at

    def enter(
        self, state: JobState, *, at: float, asked: float, answered: float, answer: int = 0
    ) -> None:
        """Note the state that a pulse or a look has shown, which counts as being as old as `at`.
        The request was sent at `asked`, and the answer came at `answered`; `answer` is the number
        of one about several jobs. If the job runs again later, only a look shows on which nodes.
        """
        if self.state is None or self.state.base is not state.base:
            self.asked_at, self.shown_in = asked, answer
        else:
            self.confirm(asked=asked, answer=answer)
        runs = state.base is BaseState.RUNNING
        ran = self.state is not None and self.state.base is BaseState.RUNNING
        if (ran and not runs) or state.ended:
            self.stopped_at = at
        if not runs:
            self.running_since = self.allocated_at = 0.0
            self.runs_from, self.runs_in, self.has_held = None, 0, False
        elif self.running_since and self.state is not None:
            made_ready = self.state.configuring and not state.configuring
            self.running_since = at if made_ready else self.running_since
        if runs and self.runs_from is None:
            self.runs_from, self.runs_in = answered, answer
        self.state = state
        self.edition += 1

    def confirm(self, *, asked: float, answer: int = 0) -> None:
        """Note that an answer shows the kind of state that is known already. The parameters are as
        for `enter`.
        """
        self.asked_at = max(self.asked_at, asked)
        self.shown_in = answer or self.shown_in

    def ran_beside(self, other: Placeholder) -> bool:
        """Whether Slurm has said that this job runs, or is suspended, since `other` runs. Then
        `other` cannot have got what this one held. Of two answers the one that was asked for after
        the other had come is the later one; otherwise their order is not known.
        """
        if other.runs_from is None or not self.started:
            return False
        together = bool(self.shown_in) and self.shown_in == other.runs_in
        return together or self.asked_at >= other.runs_from

    def saw(self, record: TaggedJob, *, asked: float, at: float, answered_at: float) -> None:
        """Store the result of a full look: it was requested at `asked`, the answer came at
        `answered_at`, and its content counts as being as old as `at`. It is dropped if it
        `may_be_older`. One that lacks a part is stored if looks go on to show the same, as often as
        it takes to believe that a job is gone.
        """
        if self.may_be_older(record.state, asked=asked):
            return
        self.lacking = self.lacking + 1 if _lacks(record) else 0
        if wants_another(self.lacking):
            self.read_again()
            return
        if self._started_anew(record):
            self.runs_from, self.runs_in, self.has_held = None, 0, False
        self.record, self.record_at, self.missing = record, at, 0
        self._note_restarts(record)
        self.proven = asked >= self.doubted_at
        if self.known_as is None and self._is_the_one_made(record, asked=asked):
            self.recognise(record)
        self.enter(record.state, at=at, asked=asked, answered=answered_at)
        if record.state.base is BaseState.RUNNING:
            self.running_since = self.running_since or at
        self.seen_live = self.seen_live or not record.state.ended
        if not record.state.ended:
            self.lived_at = at

    def doubt(self, now: float) -> None:
        """Doubt the record: it may describe another job by now, because ids can be reused."""
        self.proven, self.doubted_at = False, now

    def read_again(self) -> None:
        """Have the next pass look at the job."""
        self.proven = False

    def believe(self) -> None:
        """Believe the claim: a look has shown our tag for this very unit."""
        self.claimed = False

    def recognise(self, record: Job) -> None:
        """Remember which job this is, so that it is known without its tag, too."""
        if record.submit_time is not None:
            self.known_as = (record.name, record.submit_time)
            self.edition += 1

    def holds(self) -> None:
        """Note that the run that its record shows is on the Node of one of the unit's pods."""
        self.has_held = True

    def is_for(self, uid: str, *, owner: Owner) -> bool:
        """Whether its record shows that this is the job of that pod: by its tag, or, if that was
        overwritten or is of another owner, because it is the job that is known to be the unit's.
        """
        record = self.record
        if record is None or record.seats(uid, owner=owner):
            return record is not None
        tag = record.tag
        if tag is not None and (tag.owner == owner or uid not in tag.uids):
            return False
        return self.known_as == (record.name, record.submit_time)

    def refute(self) -> None:
        """Count the claim as false."""
        self.refuted = True

    def wrote(self, record: TaggedJob) -> None:
        """Store the record with what we have written to the job since the look."""
        self.record = record
        self._note_restarts(record)
        self.edition += 1

    def was_cancelled(self, now: float) -> None:
        """Note that Slurm has accepted our cancel."""
        self.cancelled_at = now

    def _is_the_one_made(self, record: TaggedJob, *, asked: float) -> bool:
        """Whether the record is of the job that this process submitted, even if its tag is missing.
        A job that reused the id is younger than the answer to our submit. Each age is the
        difference between two times of the same clock: the job's age by Slurm's clock, in whole
        seconds, and the answer's age by our own clock.
        """
        slurm_now, slurm_submitted = record.answered_at, record.submit_time
        if not self.made_as or record.name != self.made_as:
            return False
        if slurm_now is None or slurm_submitted is None:
            return False
        return slurm_now - slurm_submitted >= asked - self.submitted_at - _SECOND

    def _note_restarts(self, record: TaggedJob) -> None:
        if record.tag is not None:
            self.restarts = max(self.restarts, record.tag.restarts)

    def _started_anew(self, record: TaggedJob) -> bool:
        """Whether it was requeued between two looks that both showed it running."""
        former = self.record
        if former is None or former.state.base is not BaseState.RUNNING:
            return False
        return (former.start_time, former.nodes) != (record.start_time, record.nodes)

    def lost_within(self, seconds: float) -> bool:
        """Whether Slurm no longer knew it within this many seconds after it was last alive."""
        if self.missed_at is None or self.lived_at is None:
            return False
        return self.missed_at - self.lived_at < seconds

    def believed(self, since: float | None) -> bool:
        """Whether the record may be acted upon; for `since` see Units.believed_since."""
        return self.proven and (since is None or self.record_at >= since)


def _lacks(record: TaggedJob) -> bool:
    """Whether the record is of a job that runs on no nodes, or that lacks a component. One such
    answer may be wrong, and would end every pod of the job.
    """
    tag = record.tag
    runs_nowhere = record.state.base is BaseState.RUNNING and not record.nodes
    return runs_nowhere or (tag is not None and len(record.parts) < len(tag.parts))


@dataclass(slots=True)
class Unit:
    """One unit, identified by its key. For a single pod the key is the pod's uid, and the name is
    the pod's; for a gang they are the gang's. Each part is written by one room, as its docstring
    says.
    """

    key: str
    namespace: str
    name: str
    seen_at: float
    job: Placeholder | None = None
    """Only `Units.set_job` and `Units.drop_false_claim` change it, because they keep the index."""
    doubt_since: float | None = None
    """Since when Slurm may have a job for the unit that was never recorded. A census that began
    later settles it.
    """
    others_job: int | None = None
    """The job that its pod named last, if Slurm showed that it belongs to somebody else."""
    given_back: frozenset[int] = frozenset()
    """Jobs that it has released and that still run, because Slurm did not accept the cancel."""
    had_job: bool = False
    """Whether this process knows, or knew, a job that is the unit's own."""
    waiting: bool = True
    """Whether news of the job matters soon: a pod waits for it, or is gone."""
    seen: Seen = field(default_factory=Seen)
    said: Said = field(default_factory=Said)
    asked: Asked = field(default_factory=Asked)
    refusals: Refusals = field(default_factory=Refusals)
    bindings: Bindings = field(default_factory=Bindings)
    eviction: Eviction = field(default_factory=Eviction)
    gang: Gang | None = None
    """Set if its pods are a gang; None for a single pod."""
    members: dict[str, Member] = field(default_factory=dict)
    """Its pods by uid. Only `Units.join` and `Units.part` change it, because they keep the index. A
    unit that is made without any is a single pod.
    """

    pods: tuple[Member, ...] = field(init=False)
    """Its pods, in the order in which they came, without those that are spare."""
    uids: Set[str] = field(init=False)
    """The uids of all its members."""
    spare: frozenset[str] = frozenset()
    """The uids of members that have no part in the gang: it has enough others (`set_apart`)."""
    beside_gang: bool = False
    """Whether its pod belongs to a group whose gang has enough others."""

    def __post_init__(self) -> None:
        self.members = self.members or {self.key: Member(self.key, self.name)}
        self.uids = self.members.keys()
        self.set_apart(self.spare)

    def set_apart(self, spare: frozenset[str]) -> None:
        """Note which of its members have no part in the gang."""
        self.spare = spare
        self.pods = tuple([it for it in self.members.values() if it.uid not in spare])

    def pod(self, uid: str) -> Member:
        """The unit's pod with this uid. Raises KeyError if it has none."""
        return self.members[uid]

    def owns(self, record: TaggedJob, *, owner: Owner) -> bool:
        """Whether the job is the owner's, for this very unit (I8)."""
        return record.is_of(self.key, owner=owner)

    def names(self, job_id: int) -> bool:
        """Whether any of its pods names this job, as last written or first seen."""
        return any(pod.said.recorded == job_id for pod in self.pods)

    @property
    def reason(self) -> str:
        """Our own reason why a pod of the unit waits. If this process has written none on the pod,
        the reason in that pod's condition is used. The first pod that has a reason decides; empty
        if no pod has one.
        """
        reasons = (pod.said.reason or pod.said.condition[0] for pod in self.pods)
        return next(filter(None, reasons), "")

    @property
    def is_shown_at_once(self) -> bool:
        """Whether a new job is shown on its pods at once. It is if a pod shows a condition from
        before the job, which is no longer true, if an earlier submit was refused, or if an earlier
        job was lost.
        """
        return bool(self.reason) or self.refusals.submit.count > 0

    @property
    def came_running(self) -> bool:
        """Whether any of its pods was on a Node already when it was first seen."""
        return any(pod.seen.runs for pod in self.pods)

    @property
    def bound_by_us(self) -> bool:
        """Whether looks at its job have proven that Slurm gave each of its pods a node."""
        return all(pod.seen.bound_by_us for pod in self.pods)

    @property
    def outcome(self) -> str:
        """The outcome of the first of its pods that has one; empty if none has."""
        return next((pod.seen.outcome for pod in self.pods if pod.seen.outcome), "")

    def suspect_unrecorded_job(self, since: float) -> None:
        """Note that Slurm may have a job for it that was never recorded."""
        self.doubt_since = since

    def settle(self) -> None:
        """Note that Slurm has no unrecorded job for it."""
        self.doubt_since = None

    def leave(self, job_id: int) -> None:
        """Note that the unit has released this job, which must still be cancelled."""
        self.given_back |= {job_id}

    def is_rid_of(self, job_ids: Iterable[int]) -> None:
        """Note that these jobs have ended."""
        self.given_back = self.given_back.difference(job_ids)

    def job_facts(self, *, looked_through: bool = True, since: float | None = None) -> JobFacts:
        """The placeholder as `decide` sees it. `looked_through` says that a census is complete.
        Records from before `since` are left out.
        """
        job = self.job
        if job is None:
            return NoJob(self.others_job) if self.doubt_since is None else InDoubt()
        if job.missing:
            return Vanished(job.job_id, confirmed=is_gone(job.missing), claimed=job.claimed)
        return Tracked(
            job_id=job.job_id,
            claimed=job.claimed,
            state=job.state,
            record=job.record if job.believed(since) else None,
            record_at=job.record_at,
            cancelled_at=job.cancelled_at,
            made_as=job.made_as,
            known_as=job.known_as,
            allocated_at=job.allocated_at,
            running_since=job.running_since,
            has_held=job.has_held,
            restarts=job.restarts,
            settled=job.seen_live or looked_through,
        )


class Units:
    """Units by key, with indexes of their namespaces, of their pods and of their job ids."""

    def __init__(self) -> None:
        self._units: dict[str, Unit] = {}
        self._by_namespace: dict[str, dict[str, Unit]] = {}
        self.by_pod: dict[str, Unit] = {}
        """By the uid of each pod. Only the methods here write it."""
        # Mostly one unit. But a copy of a pod's manifest has the same job id in its annotation.
        self._by_job: dict[int, tuple[Unit, ...]] = {}
        self.binding: dict[str, str] = {}
        """Pod uid to Node of bindings that were sent but that the watch does not show yet."""
        self.silent = False
        """Whether Slurm did not answer the last pulse, so that a restart may go unnoticed."""

    def __len__(self) -> int:
        return len(self._units)

    def __iter__(self) -> Iterator[Unit]:
        return iter(tuple(self._units.values()))

    def get(self, key: str) -> Unit | None:
        """The unit with this key."""
        return self._units.get(key)

    @property
    def namespaces(self) -> Set[str]:
        """The namespaces that have units."""
        return self._by_namespace.keys()

    def in_namespace(self, namespace: str) -> Sequence[Unit]:
        """The units of this namespace as they are now."""
        return tuple(self._by_namespace.get(namespace, {}).values())

    def of_pod(self, uid: str) -> Unit | None:
        """The unit that the pod of that uid belongs to."""
        return self.by_pod.get(uid)

    def of_tag(self, tag: OwnerTag) -> Unit | None:
        """The unit that the tag names by its key; None if there is none. A pod of the tag may have
        come to another unit since.
        """
        return self._units.get(tag.key)

    def believed_since(self, now: float) -> float | None:
        """Records older than this are not believed; None if all proven ones are."""
        return now - FRESH_SECONDS if self.silent else None

    def add(self, unit: Unit) -> Unit:
        """Add a unit."""
        self._units[unit.key] = unit
        self._by_namespace.setdefault(unit.namespace, {})[unit.key] = unit
        self.by_pod |= dict.fromkeys(unit.members, unit)
        if unit.job is not None:
            self._hold(unit.job.job_id, unit)
        return unit

    def join(self, unit: Unit, pod: Member, member: Membership) -> None:
        """Add a pod to a gang. A unit that was made for a job without pods becomes a gang now."""
        unit.gang = unit.gang or Gang(member)
        unit.members[pod.uid] = pod
        unit.pods = (*unit.pods, pod)
        self.by_pod[pod.uid] = unit

    def recall(self, unit: Unit, record: TaggedJob, *, shows: Callable[[str], bool]) -> None:
        """If this is the first job of a gang that this process knows, add the pods that its tag
        names and that are not known: they vanished while no scheduler ran, or a list lacks them.
        They count as pods that were on a Node, and on which this job is written. `shows` says
        whether the watch shows a pod.
        """
        tag = record.tag
        if tag is None or unit.gang is None or unit.had_job:
            return
        unit.had_job = True
        for uid, name in zip(tag.uids, tag.names, strict=False):
            if uid and uid not in self.by_pod and not shows(uid):
                seen, said = (
                    SeenOfPod(placed=True, orphaned=True),
                    SaidOnPod(recorded=record.job_id),
                )
                unit.members[uid] = Member(uid, name, seen, said)
                self.by_pod[uid] = unit
        unit.set_apart(unit.spare)

    def part(self, unit: Unit, uids: Collection[str]) -> None:
        """Forget pods of a gang that goes on without them."""
        for uid in uids:
            del unit.members[uid]
            self.by_pod.pop(uid, None)
            self.binding.pop(uid, None)
            unit.bindings.forget(uid)
            unit.eviction.forget(uid)
        unit.set_apart(unit.spare.difference(uids))

    def remove(self, key: str) -> None:
        """Forget a unit and its job."""
        unit = self._units.pop(key, None)
        if unit is None:
            self.binding.pop(key, None)  # it may have been sent after the unit was removed
            return
        others = self._by_namespace[unit.namespace]
        del others[key]
        if not others:
            del self._by_namespace[unit.namespace]
        for uid in unit.members:
            self.binding.pop(uid, None)
            self.by_pod.pop(uid, None)
        if unit.job is not None:
            self._let_go(unit.job.job_id, key)

    def clear(self) -> None:
        """Forget everything about pods and jobs."""
        self._units.clear()
        self._by_namespace.clear()
        self.by_pod.clear()
        self._by_job.clear()
        self.binding.clear()

    def set_job(self, unit: Unit, job: Placeholder | None) -> None:
        """Give the unit another placeholder, or none."""
        if unit.job is not None:
            self._let_go(unit.job.job_id, unit.key)
        unit.job = job
        unit.doubt_since = None
        if job is not None:
            unit.had_job = True
            unit.others_job = None
            unit.is_rid_of({job.job_id})
            self._hold(job.job_id, unit)

    def drop_false_claim(
        self, unit: Unit, *, others: int | None, doubt_since: float | None
    ) -> None:
        """Note that the job that its pod names does not belong to the unit. `others` is its id if
        somebody else owns it.
        """
        self.set_job(unit, None)
        unit.others_job, unit.doubt_since = others, doubt_since

    def by_job(self, job_id: int) -> tuple[Unit, ...]:
        """The units that hold or claim this job. If there are several, at most one is right."""
        return self._by_job.get(job_id, ())

    def own_jobs(self, job_id: int) -> list[Placeholder]:
        """The placeholder with this id, if we have submitted it or found it to be ours. Anybody may
        claim others.
        """
        jobs = (unit.job for unit in self.by_job(job_id))
        return [it for it in jobs if it is not None and not it.claimed]

    def job_ids(self) -> list[int]:
        """The ids of all placeholders."""
        return list(self._by_job)

    def _hold(self, job_id: int, unit: Unit) -> None:
        others = [it for it in self.by_job(job_id) if it.key != unit.key]
        self._by_job[job_id] = (*others, unit)

    def _let_go(self, job_id: int, key: str) -> None:
        left = tuple([it for it in self._by_job.pop(job_id, ()) if it.key != key])
        if left:
            self._by_job[job_id] = left
