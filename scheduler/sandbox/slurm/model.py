"""The slurmctld model: the requests of users and operators, and the controller's periodic work.

The modules beside this one hold state and rules and never wait for anything; ``SlurmModel`` is the
one interface to them. ``clock`` gives the time. ``tick`` does the work that is due; after
``attach`` the event loop calls it. The saved state outlives a stop and a crash of the controller,
as with a real one. A stop loses nothing. A crash loses the last seconds, and the controller then
assigns the job ids of these seconds again.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from . import lifecycle, prologs
from .cluster import Cluster
from .config import AccountConfig, QosConfig, Release, ReservationConfig, SlurmConfig
from .errors import SlurmError
from .journal import Journal
from .plugins import JobSubmit, no_plugin
from .records import STARTED, Job, Node, State, Submission
from .scheduling import Pass
from .submitting import misfit, submission
from .updating import update_job, update_node

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_KILLING: Final = frozenset({0, lifecycle.SIGKILL})


class _Place(NamedTuple):
    """The place of a component in a heterogeneous job; ``het_id`` is 0 for any other job."""

    het_id: int
    number: int


_ALONE: Final = _Place(0, 0)


class SlurmModel:
    """A Slurm controller for one cluster."""

    def __init__(
        self,
        config: SlurmConfig,
        *,
        key: bytes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config = config
        self.key = key or secrets.token_bytes(32)
        self.clock = clock
        self.job_submit: JobSubmit = no_plugin
        self.cluster = Cluster(config, now=clock())
        self.running = asyncio.Event()
        self.running.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._prologs: set[asyncio.Task[None]] = set()
        self._limits_due = 0.0
        self._save_due = 0.0
        self._pass_due = 0.0
        self.cluster.save()

    # --- the controller as a daemon

    @property
    def up(self) -> bool:
        """Whether the controller runs; wait for the event ``running`` until it does."""
        return self.running.is_set()

    def attach(self) -> None:
        """Let the running event loop drive the controller; a repeated call does no harm."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.detach()
            self._loop = loop
        if self.up and self._timer is None:
            self._arm(loop)

    def detach(self) -> None:
        """Take the controller out of the event loop; its state stays as it is."""
        if self._timer is not None:
            self._timer.cancel()
        self._end_prologs()
        self._timer = self._loop = None

    async def close(self) -> None:
        """Take the controller out of the event loop and wait until its hooks have ended."""
        self.detach()
        await asyncio.gather(*self._prologs, return_exceptions=True)

    def start_controller(self) -> None:
        """Start a stopped or crashed controller from its saved state."""
        if self.up:
            return
        self.cluster = self.cluster.restored(now=self.clock())
        self.running.set()
        if self._loop is not None:
            self._arm(self._loop)

    def stop_controller(self) -> None:
        """Stop as after SIGTERM: the state is saved, nothing is lost, and jobs stay as they are."""
        self.cluster.save()
        self.crash()

    def crash(self) -> None:
        """Stop as after SIGKILL: all changes since the last save are lost."""
        self.running.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end_prologs()

    def lose_state(self) -> None:
        """Crash, and start again with an empty state save location."""
        self.crash()
        self.cluster.forget_saved()
        self.start_controller()

    def tick(self) -> None:
        """Do the work that is due now: ended scripts, limits, one scheduling pass, purge, save."""
        now, timing = self.clock(), self.config.timing
        self._end_scripts(now)
        self._reboot_free_nodes(now)
        if now >= self._limits_due:
            self._limits_due = now + timing.limits_seconds
            self._enforce_limits(now)
            self._purge(now)
        if self.cluster.stirred or now >= self._pass_due:
            self._pass_due = now + 1.0
            self.cluster.stirred = False
            Pass(self.cluster, now=now).run()
        if now >= self._save_due:
            self._save_due = now + timing.save_seconds
            self.cluster.save()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self.config.timing.schedule_seconds, self._ticked, loop)

    def _ticked(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self.tick()
        finally:
            self._arm(loop)  # not before: a long pass must leave time for requests
        started, self.cluster.prologs = self.cluster.prologs, []
        for job_id in started:
            task = loop.create_task(self._prolog(self.cluster.jobs[job_id]), name="prolog")
            self._prologs.add(task)
            task.add_done_callback(self._prologs.discard)

    async def _prolog(self, job: Job) -> None:
        cluster = self.cluster
        status = await prologs.run(self.config, job)
        lifecycle.prolog_ended(cluster, job, failed=status != 0, now=self.clock())

    def _end_prologs(self) -> None:
        for task in self._prologs:
            if not task.cancelling():  # a second cancel would cut off the wait for the killed hook
                task.cancel()

    # --- what users ask for

    def submit(
        self, fields: Mapping[str, Any], script: str | None, *, user: str
    ) -> tuple[Job, str]:
        """Create a job from a parsed description; return it with Slurm's remark about it, if any.

        Raises SlurmError. As measured, a job that can never run (2014) leaves a FAILED record, and
        on 24.11 a batch job without environment (2019) uses up a job id.
        """
        return self._submit(fields, script, user=user)

    def _submit(
        self, fields: Mapping[str, Any], script: str | None, *, user: str, place: _Place = _ALONE
    ) -> tuple[Job, str]:
        if len(self.cluster.jobs) >= self.config.max_job_count:
            raise SlurmError(2007)
        try:
            asked = submission(self.cluster, fields, script, user=user, now=self.clock())
        except SlurmError as fault:
            self.cluster.next_id += fault.number == 2019
            raise
        if self.cluster.partitions[asked.request.partition].state == "INACTIVE":
            raise SlurmError(2070)
        job = self._record(asked, place)
        if job.misfit and not self._waits_for_another_partition(job) and not job.held:
            lifecycle.refuse(self.cluster, job, now=self.clock())
            raise SlurmError(2014)
        return job, self._remark(job)

    def submit_together(
        self, described: Sequence[Mapping[str, Any]], script: str | None, *, user: str
    ) -> tuple[Job, str]:
        """Create the components of a heterogeneous job; return the first and the last remark.

        Raises SlurmError. As measured, those before a refused one leave a CANCELLED record, and the
        nodes that one requires are excluded for the others.
        """
        parts: list[Job] = []
        remarks = [""]
        try:
            for number, alone in enumerate(described):
                fields = _beside(alone, [*described[:number], *described[number + 1 :]])
                place = _Place(self.cluster.next_id - number, number)
                its = None if number else script
                part, remark = self._submit(fields, its, user=user, place=place)
                parts.append(part)
                remarks += [remark] if remark else []
        except SlurmError:
            for part in parts:
                lifecycle.end(self.cluster, part, State.CANCELLED, now=self.clock())
            raise
        return parts[0], remarks[-1]

    def job(self, job_id: int) -> Job:
        """Return a job; raises SlurmError 2017 if there is none."""
        job = self.cluster.jobs.get(job_id)
        if job is None:
            raise SlurmError(2017)
        return job

    def cancel(self, job_id: int, *, user: str, signal: int = lifecycle.SIGKILL) -> None:
        """Cancel a job, or send it a signal; raises SlurmError 2017, 2021, 2020 or 1.

        The id of the first component of a heterogeneous job stands for all.

        An ordinary user may not do this to another user's job (1). A real slurmctld (26.05.5 and
        24.11.5) locks up for good after such a request; the model only refuses it.
        """
        job = self.job(job_id)
        if not self.may(user, job):
            raise SlurmError(1)
        named = self.cluster.components(job) if job_id == job.het_id else [job]
        if not any(part.alive for part in named):
            raise SlurmError(2021)
        if signal in _KILLING:
            since = self.clock()
            for part in named:
                if part.alive:
                    lifecycle.end(self.cluster, part, State.CANCELLED, now=since)
            self._asked("kill", job_id, user=user, since=since)
        elif job.state not in STARTED:
            raise SlurmError(2020)

    def update(self, job_id: int, fields: Mapping[str, Any], *, user: str) -> None:
        """Change a job; raises SlurmError 2017, 2010, or those of ``updating.update_job``."""
        job = self.job(job_id)
        if not self.may(user, job):
            raise SlurmError(2010)
        operator, since = user in self.config.operators, self.clock()
        update_job(self.cluster, job, fields, operator=operator, now=since)
        self._asked("update", job_id, user=user, since=since)

    def may(self, user: str, job: Job) -> bool:
        """Whether the user owns the job or is an operator."""
        return user in self.config.operators or user == job.asked.user_name

    def looked_at(self, job_id: int, *, user: str) -> None:
        """Tell the journals that the user has been sent the job's record."""
        self._asked("look", job_id, user=user, since=self.clock())

    def _asked(self, verb: str, job_id: int, *, user: str, since: float) -> None:
        for journal in self.cluster.journals:
            journal.asked(verb, job_id, user=user, since=since)

    # --- what operators ask for

    def update_node(self, name: str, fields: Mapping[str, Any], *, user: str) -> None:
        """Change a node as ``scontrol update`` does; raises SlurmError 2018, 2010, 2180 or 2028."""
        node = self.cluster.nodes.get(name)
        if node is None:
            raise SlurmError(2018)
        if user not in self.config.operators:
            raise SlurmError(2010)
        update_node(self.cluster, node, fields, user=user, now=self.clock())

    def set_instance_id(self, name: str, instance: str) -> None:
        """Set a node's instance id, as ``scontrol update``; slurmrestd ignores it (measured)."""
        self.cluster.nodes[name].instance_id = instance
        self.cluster.nodes_changed = self.clock()

    def set_partition(
        self, name: str, *, state: str = "UP", max_minutes: int | None = None
    ) -> None:
        """Change a partition, as ``scontrol update partition=NAME state= maxtime=``."""
        partition = self.cluster.partitions[name]
        changed = replace(partition, state=state, max_time_minutes=max_minutes)
        self.cluster.partitions[name] = changed
        self.cluster.stirred = True

    def reserve(self, reservation: ReservationConfig) -> None:
        """Create a reservation, as ``scontrol create reservation``."""
        self.cluster.reservations[reservation.name] = reservation
        self.cluster.stirred = True

    def unreserve(self, name: str) -> None:
        """Delete a reservation, as ``scontrol delete reservation=NAME``."""
        del self.cluster.reservations[name]
        self.cluster.stirred = True

    def hold(self, job_id: int, *, by_user: bool) -> None:
        """Hold a pending job, as ``scontrol uhold`` or, by an operator, ``scontrol hold``."""
        update_job(
            self.cluster, self.job(job_id), {"hold": True}, operator=not by_user, now=self.clock()
        )

    def set_account(self, account: AccountConfig) -> None:
        """Create or change an account, as ``sacctmgr``; from then on the cluster has slurmdbd."""
        self.cluster.accounts = (self.cluster.accounts or {}) | {account.name: account}
        self.cluster.stirred = True

    def set_qos(self, qos: QosConfig) -> None:
        """Create a QoS or change its limits, as ``sacctmgr``."""
        self.cluster.qos[qos.name] = qos
        self.cluster.stirred = True

    def suspend(self, job_id: int) -> None:
        """Suspend a running job, as ``scontrol suspend``."""
        job = self.job(job_id)
        if job.state is State.RUNNING:
            lifecycle.suspend(self.cluster, job, now=self.clock())

    def resume(self, job_id: int) -> None:
        """Resume a suspended job, as ``scontrol resume``."""
        job = self.job(job_id)
        if job.state is State.SUSPENDED:
            lifecycle.resume(self.cluster, job, now=self.clock())

    def requeue(self, job_id: int) -> None:
        """Put a running batch job back into the queue, as ``scontrol requeue`` after Requeue=1.

        Raises SlurmError 2039 for an external job: only batch jobs are accepted (measured).
        """
        job = self.job(job_id)
        if job.external:
            raise SlurmError(2039)
        if job.state in STARTED:
            lifecycle.requeue(self.cluster, job, now=self.clock())

    def reboot(self, name: str) -> None:
        """Reboot a node once it is free, as ``scontrol reboot ASAP``; until then it drains."""
        node = self.cluster.nodes[name]
        node.drain, node.reboot = True, True
        self.cluster.nodes_changed = self.clock()

    def power_cycle(self, name: str) -> None:
        """Let a node lose its power and come back."""
        lifecycle.power_cycle(self.cluster, self.cluster.nodes[name], now=self.clock())

    def run_out_of_memory(self, job_id: int) -> None:
        """Let the kernel kill a batch job's script for its memory use."""
        job = self.job(job_id)
        lifecycle.script_killed(self.cluster, job, out_of_memory=True, now=self.clock())

    def kill_script(self, job_id: int) -> None:
        """Kill a batch job's script."""
        job = self.job(job_id)
        lifecycle.script_killed(self.cluster, job, out_of_memory=False, now=self.clock())

    def jobs(self) -> Iterable[Job]:
        """Return all job records, oldest id first."""
        return self.cluster.jobs.values()

    def nodes(self) -> Iterable[Node]:
        """Return all nodes, sorted by weight and name."""
        return self.cluster.nodes.values()

    def keep(self, journal: Journal) -> Callable[[], None]:
        """Tell the journal all that happens to jobs, until the returned function is called."""
        self.cluster.journals.append(journal)
        return lambda: self.cluster.journals.remove(journal)

    # --- the passing of time

    def _waits_for_another_partition(self, job: Job) -> bool:
        """Whether the job, which its partition can never run, is kept nevertheless."""
        waits = {"PartitionConfig", "PartitionNodeLimit"}
        return self.config.release is Release.V26_05 and job.misfit in waits

    def _remark(self, job: Job) -> str:
        """Return the warning about an accepted job that will not start soon."""
        if self._waits_for_another_partition(job):
            return "Requested partition configuration not available now"
        if job.reason == "JobHeldUser":
            return "Job is in held state, pending scheduler release"
        if job.reason == "Reservation":
            return "Requested reservation not usable now"
        if not any(node.available for node in self.cluster.candidates(job.asked.request)):
            return "Required node not available (down, drained or reserved)"
        return ""

    def _record(self, asked: Submission, place: _Place) -> Job:
        cluster, now = self.cluster, self.clock()
        job = Job(
            id=cluster.next_id,
            asked=asked,
            name=asked.name,
            sluid=_sluid(),
            submit_time=now,
            comment=asked.comment,
            admin_comment=asked.admin_comment,
            extra=asked.extra,
            priority=_first_priority(asked),
            priority_set=asked.priority is not None,
            nice=asked.nice,
            begin_time=asked.begin_time,
            give_up_at=asked.described.get("deadline") or 0.0,
            time_limit_minutes=asked.time_limit_minutes,
            dependency=asked.dependency,
            misfit=misfit(cluster, asked.request),
            het_id=place.het_id,
            het_offset=place.number,
        )
        _first_reason(job, cluster.reservation(asked.request.reservation), now=now)
        cluster.next_id += 1
        cluster.counters.submitted += 1
        cluster.jobs_changed = now
        cluster.add(job)
        return job

    def _end_scripts(self, now: float) -> None:
        for job in [self.cluster.jobs[job_id] for job_id in self.cluster.active]:
            running = job.completing or job.state is State.RUNNING
            if running and job.script_ends_at is not None and job.script_ends_at <= now:
                lifecycle.script_ended(self.cluster, job, now=now)

    def _reboot_free_nodes(self, now: float) -> None:
        for node in self.cluster.nodes.values():
            if node.reboot and not node.jobs:
                node.drain = node.reboot = False
                self.cluster.nodes_changed, self.cluster.stirred = now, True

    def _enforce_limits(self, now: float) -> None:
        for job in [self.cluster.jobs[job_id] for job_id in self.cluster.pending]:
            if job.too_late(now):
                lifecycle.end(self.cluster, job, State.DEADLINE, now=now, reason="DeadLine")
        for job in [self.cluster.jobs[job_id] for job_id in self.cluster.active]:
            if job.signalling_until and job.signalling_until <= now:
                lifecycle.signal_lost(self.cluster, job, now=now)
            if job.state is not State.RUNNING:
                continue
            if job.preempt_time and job.end_time <= now:
                lifecycle.preempt_now(self.cluster, job, now=now)
            elif job.deadline is not None and job.deadline <= now:
                state = State.TIMEOUT
                lifecycle.end(self.cluster, job, state, now=now, reason="TimeLimit")

    def _purge(self, now: float) -> None:
        if not self.config.min_job_age:
            return  # as in slurm.conf(5): no job is ever forgotten
        old = now - self.config.min_job_age
        for job in [j for j in self.cluster.jobs.values() if _purgeable(j, old=old)]:
            self.cluster.forget(job)


def _beside(fields: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    theirs = [name for other in others for name in other.get("required_nodes", ())]
    excluded = (*fields.get("excluded_nodes", ()), *theirs)
    return {**fields, "excluded_nodes": excluded} if excluded else fields


def _purgeable(job: Job, *, old: float) -> bool:
    return not job.alive and not job.completing and job.end_time < old


def _first_priority(asked: Submission) -> int:
    """Return a new job's priority: 0 if it is held, else the priority that it asks for.

    The default is that of priority/multifactor without weights: 1, or more with a negative nice.
    """
    if asked.held:
        return 0
    return max(1, -asked.nice) if asked.priority is None else asked.priority


def _first_reason(job: Job, reservation: ReservationConfig | None, *, now: float) -> None:
    """Set the reason why the job waits before the first scheduling pass."""
    if job.held:
        job.reason = "JobHeldUser"
    elif job.asked.script is not None and not job.asked.user_name:
        job.priority, job.reason = 0, "JobHeldAdmin"
    elif job.dependency:
        job.reason = "Dependency"
    elif job.begin_time > now:
        job.reason = "BeginTime"
    elif reservation is not None and not reservation.active(now):
        job.reason = "Reservation"
    elif job.misfit:
        job.reason = job.misfit


def _sluid() -> str:
    """Return a new SLUID, the job id of 26.05 that is never reused."""
    return "s" + "".join(secrets.choice(_ALPHABET) for _ in range(13))
