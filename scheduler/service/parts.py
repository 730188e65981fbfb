"""Builds the parts of a process, each from those before it. `App` and the tests share it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from groundwork.pauses import in_slices
from scheduler.core.brake import BrakeLimits
from scheduler.execute.absent_pods import AbsentPods
from scheduler.execute.bind import Binder
from scheduler.execute.cancel import Release
from scheduler.execute.cancel_batches import Canceller
from scheduler.execute.dispatch import Executor
from scheduler.execute.edit_pace import EditPace
from scheduler.execute.ending_brake import EndingBrake
from scheduler.execute.evict import Evictor
from scheduler.execute.gang import GangHand
from scheduler.execute.learn import Learner
from scheduler.execute.partition_move import PartitionMove
from scheduler.execute.placeholder_mode import Modes
from scheduler.execute.send import Sender
from scheduler.execute.sent_bindings import SentBindings
from scheduler.execute.submit import Submitter
from scheduler.execute.submit_pace import SubmitPace
from scheduler.execute.tell import Teller
from scheduler.execute.tools import Tools
from scheduler.execute.trial import Trial
from scheduler.execute.update import Updater
from scheduler.facts.caches import Caches
from scheduler.facts.gang_facts import GangReader
from scheduler.facts.gather import Gatherer
from scheduler.facts.grace_rule import GraceRule
from scheduler.facts.newcomers import Newcomers
from scheduler.facts.placing import Places
from scheduler.facts.reader import RequestReader
from scheduler.facts.requirements import Requirements
from scheduler.facts.template_sizes import TemplateSizes
from scheduler.facts.tenures import Tenures
from scheduler.facts.unit_jobs import UnitJobs
from scheduler.facts.whereabouts import Whereabouts
from scheduler.hooks.api import JobNews
from scheduler.hooks.guard import Guard
from scheduler.hooks.job_states import FreshStates
from scheduler.hooks.setup import Hooks
from scheduler.kube.errors import KubeError
from scheduler.nodes.coverage import Coverage
from scheduler.nodes.gpu_sharing import GpuSharing
from scheduler.nodes.layout import Layouts
from scheduler.nodes.node_allocations import NodeAllocations
from scheduler.observe.wake import WakeCause
from scheduler.reconcile.controller import Controller
from scheduler.reconcile.standby import Standby
from scheduler.service.memory import Memory
from scheduler.service.outside import Outside
from scheduler.slurm.census import Census
from scheduler.slurm.grace_times import GraceTimes
from scheduler.slurm.kill_wait import KillWait
from scheduler.slurm.pulse import Pulse
from scheduler.slurm.running_looks import RunningLooks
from scheduler.slurm.slurmctld import Slurmctld
from scheduler.slurm.starts import Starts
from scheduler.slurm.submit_times import SubmitTimes
from slurmapi import JobState


class Parts:
    """All parts of a process. Nothing runs yet: the caller starts those that have a `run`."""

    def __init__(self, outside: Outside, memory: Memory, caches: Caches) -> None:
        self._outside = outside
        self._memory = memory
        self._caches = caches
        self.canceller = Canceller(outside.slurm)
        self.allocations = NodeAllocations(outside.slurm, clock=outside.clock)
        self.whereabouts = Whereabouts(pods=memory.pods, units=memory.units, nodes=caches.nodes)
        self.census = self._census()
        self.grace_times = GraceTimes(outside.slurm)
        self.pulse = self._pulse()
        self.starts = self._starts()
        self.slurmctld = Slurmctld(
            outside.slurm,
            failed_at=lambda: self.pulse.failed_at,
            warn=outside.warn,
            clock=outside.clock,
        )
        self.coverage = self._coverage()
        self.hooks = self._hooks()
        self.reader = self._reader()
        self.places = Places(caches, coverage=self.coverage, clock=outside.clock)
        self.gatherer = self._gatherer()
        self.newcomers = Newcomers(
            caches,
            units=memory.units,
            gangs=memory.gangs,
            census=self.census,
            successors=memory.successors,
            clock=outside.clock,
        )
        self.standby = Standby(self.newcomers, units=memory.units, pods=memory.pods)
        memory.news.stand_by(self.standby)
        memory.presence.judge_nodes(caches.nodes.is_dead)
        memory.memberships.judge_by(caches.rulebook)
        self.kill_wait = KillWait(
            outside.slurm,
            setting_seconds=int(outside.settings.slurm_kill_wait),
            on_change=self._kill_wait_changed,
            warn=outside.warn,
            metrics=outside.metrics,
        )
        self.modes = Modes(
            outside.settings.placeholder_mode,
            outside.slurm,
            kinds=caches.kinds,
            heartbeat=self.hooks.heartbeat,
            slurmctld=self.slurmctld,
        )
        self.teller = Teller(
            outside.kube,
            outside.recorder,
            condition_seconds=outside.settings.condition_interval,
            unschedulable_reason=outside.settings.unschedulable_reason,
            metrics=outside.metrics,
            clock=outside.clock,
        )
        self.submits = SubmitPace(self.teller, metrics=outside.metrics, clock=outside.clock)
        self.brake = self._brake()
        self.executor = self._executor()
        self.controller = Controller(
            queue=memory.queue,
            newcomers=self.newcomers,
            gatherer=self.gatherer,
            executor=self.executor,
            teller=self.teller,
            metrics=outside.metrics,
            clock=outside.clock,
        )

    async def take_over(self) -> None:
        """Start with nothing but the caches: forget what was seen of units while another process
        led, and give each unit a pass.
        """
        memory = self._memory
        memory.units.clear()
        self.coverage.begin()
        # Each key is added once, because its level depends on all pods of a gang.
        keys = dict[str, None]()
        async for pod in memory.pods.with_pauses():
            keys[memory.news.key_of(pod)] = None
            memory.owner_hints.see(pod)
        async for key in in_slices(keys):
            memory.news.wake(key, WakeCause.START)
        self.pulse.come_sooner()

    def _census(self) -> Census:
        outside, memory = self._outside, self._memory
        namespaces = outside.settings.watch_namespace
        return Census(
            outside.slurm,
            units=memory.units,
            owner=outside.owner,
            pods=self.whereabouts,
            submit_times=SubmitTimes(self._kube_time, clock=outside.clock),
            in_scope=lambda namespace: not namespaces or namespace in namespaces,
            on_change=memory.news.counted,
            clock=outside.clock,
            metrics=outside.metrics,
        )

    async def _kube_time(self) -> float | None:
        try:
            return await self._outside.kube.server_time()
        except KubeError:
            return None

    def _pulse(self) -> Pulse:
        outside, settings = self._outside, self._outside.settings
        return Pulse(
            outside.slurm,
            units=self._memory.units,
            on_change=self._memory.news.wake,
            clock=outside.clock,
            fast_seconds=settings.poll_interval,
            idle_seconds=settings.idle_poll_interval,
            metrics=outside.metrics,
            running_looks=RunningLooks(
                self.grace_times,
                per_second=settings.running_looks_per_second,
                metrics=outside.metrics,
            ),
            leads=outside.leads,
            on_pulse=outside.on_pulse,
        )

    def _coverage(self) -> Coverage:
        return Coverage(
            units=self._memory.units,
            presence=self._memory.presence,
            owner=self._outside.owner,
            kube_node=self._caches.nodes.kube_node,
            keeps_suspended=self._outside.settings.suspend_policy == "keep",
            clock=self._outside.clock,
            epoch=time.time,
        )

    def _reader(self) -> RequestReader:
        outside, caches = self._outside, self._caches
        return RequestReader(
            caches,
            requirements=Requirements(
                caches.fit,
                caches.volumes,
                rulebook=caches.rulebook,
                ignored=outside.settings.ignored_requirements,
                devices=outside.settings.device_resources,
            ),
            rules=self._memory.rules,
            grace=GraceRule(
                outside.settings.grace_policy,
                guard_known=lambda: bool(self.hooks.heartbeat.installed),
            ),
            owner=outside.owner,
            slurmctld=self.slurmctld,
        )

    def _gatherer(self) -> Gatherer:
        outside, memory, caches = self._outside, self._memory, self._caches
        return Gatherer(
            caches,
            gangs=GangReader(
                memory.gangs,
                owner=outside.owner,
                per_node=outside.settings.pods_per_node,
                linger_seconds=outside.settings.gang_linger,
                on_lost_slot=outside.settings.gang_lost_slot,
                clock=outside.clock,
            ),
            reader=self.reader,
            places=self.places,
            tenures=Tenures(
                caches.nodes,
                slurmctld=self.slurmctld,
                owner=outside.owner,
                clock=outside.clock,
            ),
            jobs=UnitJobs(
                memory.units,
                census=self.census,
                reader=self.reader,
                whereabouts=self.whereabouts,
                owner=outside.owner,
                clock=outside.clock,
            ),
            owner=outside.owner,
            partings=memory.partings,
            whereabouts=self.whereabouts,
            evict_suspended=outside.settings.suspend_policy == "evict",
        )

    def _kill_wait_changed(self, seconds: int | None) -> None:
        self.reader.use_kill_wait(seconds)
        self._memory.news.kill_wait_changed()

    def _hooks(self) -> Hooks:
        outside, memory = self._outside, self._memory
        fresh = FreshStates(self._evidence)
        guard = Guard(
            outside.slurm,
            units=memory.units,
            presence=memory.presence,
            gang_pods=memory.gangs.pods,
            fresh=fresh,
            ask_sooner=self.pulse.come_sooner,
            on_change=lambda key: memory.news.wake(key, WakeCause.HOOK),
            owner=outside.owner,
            synced=self._caches.mapped,
            kube_node=self._caches.nodes.kube_node,
            clock=outside.clock,
            keeps_suspended=outside.settings.suspend_policy == "keep",
        )
        return Hooks(
            outside.settings,
            guard,
            fresh=fresh,
            news=JobNews(
                begins=self.starts.begins,
                answered=self.starts.answered,
                changed=self.pulse.hint,
            ),
            leads=outside.leads,
            prolog=lambda: self.slurmctld.prolog,
            metrics=outside.metrics,
            clock=outside.clock,
        )

    async def _evidence(self, job_ids: list[int]) -> Mapping[int, JobState]:
        """The present states of these jobs, which the guard asks for."""
        asked = self.starts.with_starting(job_ids)
        return await self.pulse.look_now(asked, cause=WakeCause.HOOK)

    def _starts(self) -> Starts:
        return Starts(
            self._memory.units,
            look_now=partial(self.pulse.look_now, cause=WakeCause.HOOK),
            pace=self.pulse.pace,
            allocated=self.pulse.allocated,
            leads=self._outside.leads,
            clock=self._outside.clock,
        )

    def _job_environment(self, unit: str) -> Mapping[str, str]:
        return self.hooks.job_environment(unit, kill_wait_seconds=self.kill_wait.seconds)

    def _brake(self) -> EndingBrake:
        outside, settings = self._outside, self._outside.settings
        return EndingBrake(
            self.slurmctld,
            allocations=self.allocations,
            limits=BrakeLimits(
                share=settings.brake_share,
                minimum=settings.brake_minimum,
                window_seconds=settings.brake_window,
                pause_seconds=settings.brake_pause,
            ),
            units=self._memory.units,
            pods=self._memory.pods,
            key_of=self._memory.gangs.key_of,
            tell=self.teller.warn,
            warn=outside.warn,
            metrics=outside.metrics,
            clock=outside.clock,
        )

    def _executor(self) -> Executor:
        outside, caches = self._outside, self._caches
        tools = Tools(
            kube=outside.kube,
            slurm=outside.slurm,
            units=self._memory.units,
            teller=self.teller,
            owner=outside.owner,
            metrics=outside.metrics,
            clock=outside.clock,
        )
        edits = EditPace(
            self.teller,
            version=lambda: caches.rulebook.version,
            metrics=outside.metrics,
            clock=outside.clock,
        )
        sent = SentBindings(tools, is_shown=self._memory.presence.knows)
        absent = AbsentPods(tools.kube, doubt_pods=caches.doubt_pods)
        release = Release(tools, self.canceller, sent=sent, absent=absent, census=self.census)
        gpu_sharing = GpuSharing(outside.settings.gpu_node_sharing, kinds=caches.kinds)
        submitter = self._submitter(tools, gpu_sharing, edits=edits, release=release)
        return Executor(
            tools,
            submitter=submitter,
            updater=Updater(
                tools,
                trial=Trial(outside.slurm, owner=outside.owner, modes=self.modes),
                partition_move=PartitionMove(
                    self.modes,
                    gpu_sharing,
                    kinds=caches.kinds,
                    per_node=outside.settings.pods_per_node,
                ),
                edits=edits,
                release=release,
            ),
            binder=Binder(tools, sent, claim=self.places.claim),
            release=release,
            learner=Learner(
                tools,
                nodes=caches.nodes,
                census=self.census,
                allocations=self.allocations,
                pods=self.whereabouts,
            ),
            evictor=self._evictor(),
            gang_hand=GangHand(
                tools,
                self._memory.gangs,
                sizes=TemplateSizes(self.reader, prefixes=self._memory.rules.prefixes),
                wake=lambda uid: self._memory.news.wake(uid, WakeCause.WATCH),
                absent=absent,
                leave_lines=submitter.forget,
            ),
        )

    def _submitter(
        self, tools: Tools, gpu_sharing: GpuSharing, *, edits: EditPace, release: Release
    ) -> Submitter:
        sender = Sender(
            tools.slurm,
            owner=tools.owner,
            modes=self.modes,
            gpu_sharing=gpu_sharing,
            layouts=Layouts(self._caches.kinds, allocatable=self._caches.nodes.allocatable),
            environment=self._job_environment,
        )
        return Submitter(
            tools,
            sender,
            submits=self.submits,
            edits=edits,
            release=release,
            pulse=self.pulse,
            census=self.census,
        )

    def _evictor(self) -> Evictor:
        outside, settings = self._outside, self._outside.settings
        asks_budgets = settings.eviction_policy == "budget"
        return Evictor(
            outside.kube,
            brake=self.brake,
            budget_seconds=settings.eviction_budget_timeout if asks_budgets else 0.0,
            tell=self.teller.event_on,
            metrics=outside.metrics,
            clock=outside.clock,
        )
