"""The composition root: builds the parts, wires them, runs them, and stops them in order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Final

import structlog

from groundwork.retry import retry_policy
from scheduler.config.rules import rules_of
from scheduler.config.settings import Settings
from scheduler.core.brake import Limits
from scheduler.core.naming import Owner
from scheduler.core.reasons import IMPORTANT, MEANINGS, Reason
from scheduler.election.elector import Election
from scheduler.execute.bind import Binder
from scheduler.execute.brake import EndingBrake
from scheduler.execute.cancel import Release
from scheduler.execute.canceller import Canceller
from scheduler.execute.dispatch import Executor
from scheduler.execute.editing import EditPace
from scheduler.execute.evict import Evictor
from scheduler.execute.forms import Forms
from scheduler.execute.learn import Learner
from scheduler.execute.modes import Modes
from scheduler.execute.owner_hints import OwnerHints
from scheduler.execute.send import Sender
from scheduler.execute.submit import Submitter
from scheduler.execute.submitting import SubmitPace
from scheduler.execute.tell import Teller
from scheduler.execute.tools import Tools
from scheduler.execute.trial import Trial
from scheduler.execute.update import Updater
from scheduler.facts.gather import Look
from scheduler.facts.requirements import Requirements
from scheduler.facts.successors import Successors
from scheduler.hooks.service import Hooks
from scheduler.kube.api import KubeApi
from scheduler.kube.demands import claims_of
from scheduler.kube.errors import KubeError, went_back
from scheduler.kube.identity import (
    may_read_nodes,
    may_read_pods,
    may_read_volumes,
    token_name,
    token_of,
)
from scheduler.kube.link import KubeLink
from scheduler.kube.neighbours import Neighbour
from scheduler.kube.recorder import Recorder
from scheduler.kube.reflector import Reflector
from scheduler.kube.session import KubeSession
from scheduler.kube.slim import edited, slimmed
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import (
    IDENTIFIED,
    PODS,
    Claim,
    Identified,
    Node,
    PersistentVolume,
    Pod,
)
from scheduler.nodes.coverage import Coverage
from scheduler.nodes.gpu_sharing import GpuSharing
from scheduler.nodes.loads import NodeLoads
from scheduler.nodes.neighbour_parts import NeighbourParts
from scheduler.nodes.parts import NodeParts
from scheduler.nodes.presence import Presence
from scheduler.observe.clock import monotonic
from scheduler.observe.loop import watch_loop
from scheduler.observe.metrics import Metrics
from scheduler.observe.trouble import Trouble
from scheduler.observe.wake import WakeCause
from scheduler.policy.rulebook import Rulebook
from scheduler.policy.rules import NO_POLICY, Policy
from scheduler.policy.watch import PolicyWatch
from scheduler.reconcile.controller import Controller, run_workers
from scheduler.reconcile.standby import Standby
from scheduler.reconcile.urgency import Level, Urgency
from scheduler.reconcile.workqueue import WorkQueue
from scheduler.service.announce import announce
from scheduler.service.gauges import Gauges, saw_start
from scheduler.slurm.causes import SlurmCauses
from scheduler.slurm.census import Census
from scheduler.slurm.kill_wait import KillWait, own_pod
from scheduler.slurm.pulse import SlurmWatch
from scheduler.slurm.slurmctld import Slurmctld
from scheduler.slurm.token_rights import TokenRights
from scheduler.state.units import Units
from slurmapi import Call, SlurmClient, SlurmError

log = structlog.get_logger(__name__)

# Without an answer of Slurm or Kubernetes for this long the scheduler is not ready; it works on
# regardless.
_SILENT_SECONDS: Final = 60.0


class App:
    """One scheduler process."""

    def __init__(
        self,
        settings: Settings,
        kube: KubeSession,
        *,
        owner: Owner,
        election: Election,
        metrics: Metrics,
        link: KubeLink,
        policy: Policy = NO_POLICY,
    ) -> None:
        self._settings = settings
        self._election = election
        self._link = link
        self._owner = owner
        self._metrics = metrics
        self._units = Units()
        self._pod_store = Joined[Pod]()
        urgency = Urgency(self._units, self._pod_store)
        self._queue = WorkQueue[str](
            metrics=metrics,
            first_seconds=0.05,
            levels=len(Level),
            level=urgency,
            tenant=urgency.tenant,
        )
        api = KubeApi(kube, policy=retry_policy(KubeError))
        token = token_of(settings)
        self._slurm = SlurmClient(
            settings.slurm_api_base,
            token=token,
            connections=settings.slurm_connections,
            retry=retry_policy(SlurmError, total_seconds=5.0),
            cluster=settings.slurm_cluster,
            observe=self._slurm_called,
            permit=election.seconds_left,
        )
        self._rights = TokenRights(
            self._slurm,
            owner=owner,
            namespace=next(iter(settings.watch_namespace), ""),
            name=token_name(settings),
            metrics=metrics,
        )
        self._canceller = Canceller(self._slurm)
        self._recorder = Recorder(
            api,
            component="slurm-pod-scheduler",
            instance=socket.gethostname(),
            qps=settings.events_per_second,
            important=IMPORTANT,
            on_drop=lambda why: metrics.events_dropped.labels(why).inc(),
        )
        self._rules = rules_of(settings)
        self._owner_hints = OwnerHints(
            api, self._recorder, prefixes=self._rules.prefixes, clock=monotonic
        )
        self._pods = self._pod_reflectors(kube)
        self._gpu_types: frozenset[str] | None = None
        self._nodes = NodeParts(
            settings,
            kube,
            self._slurm,
            may_read=partial(may_read_nodes, settings, api),
            metrics=metrics,
            clock=monotonic,
            on_change=self._nodes_changed,
        )
        self._neighbours = NeighbourParts(
            settings,
            kube,
            may_read=partial(may_read_pods, settings, api),
            may_read_volumes=partial(may_read_volumes, settings, api),
            nodes=self._nodes,
            own=self._pod_store,
            binding=self._units.binding,
            on_change=self._room_changed,
            on_volumes=self._volumes_changed,
            on_ready=self._compared,
            metrics=metrics,
            clock=monotonic,
        )
        self._policy = self._build_policy(kube, policy)
        self._slurm_trouble = Trouble("slurm", clock=monotonic, metrics=metrics)
        self._slurm_causes = SlurmCauses(
            settings.slurm_api_base,
            token=token_name(settings),
            lifetime=lambda: token.lifetime,
            answered=lambda: self._watch.last_answer_at is not None,
        )
        self._watch = SlurmWatch(
            self._slurm,
            units=self._units,
            on_change=self._wake,
            clock=monotonic,
            fast_seconds=settings.poll_interval,
            idle_seconds=settings.idle_poll_interval,
            metrics=metrics,
            running_looks_per_second=settings.running_looks_per_second,
            leads=election.elected.is_set,
            on_pulse=self._pulsed,
        )
        self._census = Census(
            self._slurm,
            units=self._units,
            owner=owner,
            known_uids=self._pod_store,
            created=self._created,
            in_scope=lambda namespace: (
                not settings.watch_namespace or namespace in settings.watch_namespace
            ),
            slurm_node=lambda unit: self._look.slurm_node(unit),  # noqa: PLW0108 - made later
            unexplained=lambda: self._look.unexplained(),  # noqa: PLW0108 - made later
            on_change=self._counted,
            clock=monotonic,
            metrics=metrics,
        )
        self._presence = Presence(binding=self._units.binding)
        self._coverage = Coverage(
            units=self._units,
            presence=self._presence,
            owner=owner,
            kube_node=self._nodes.nodes.kube_node,
            keeps_suspended=settings.suspend_policy == "keep",
            clock=monotonic,
            epoch=time.time,
        )
        self._hooks = Hooks(
            settings,
            self._slurm,
            units=self._units,
            presence=self._presence,
            watch=self._watch,
            owner=owner,
            synced=self._mapped,
            kube_node=self._nodes.nodes.kube_node,
            leads=election.elected.is_set,
            prolog=lambda: self._slurmctld.prolog,
            metrics=metrics,
            clock=monotonic,
        )
        self._controller = self._build_controller(api, owner)
        self._kill_wait = KillWait(
            self._slurm,
            setting_seconds=int(settings.slurm_kill_wait),
            on_change=self._kill_wait_changed,
            warn=self._warn,
            metrics=metrics,
        )
        self._gauges = Gauges(
            metrics,
            units=self._units,
            pods=self._pod_store,
            reflectors=self._reflectors,
            queue=self._queue.statistics,
            answered_at=lambda: self._watch.last_answer_at,
            lifetime=lambda: token.lifetime,
            unguarded=self._modes.unguarded,
            ready=lambda: not self.not_ready(),
            leads=lambda: election.seconds_left() > 0,
            clock=monotonic,
        )
        self._begun = asyncio.Event()

    def _pod_reflectors(self, kube: KubeSession) -> tuple[Reflector[Pod], ...]:
        """One for each namespace in scope, or one for all."""
        namespaces = self._settings.watch_namespace
        paths = [f"/api/v1/namespaces/{name}/pods" for name in namespaces] or ["/api/v1/pods"]
        return tuple(
            Reflector(
                kube,
                path,
                decode=slimmed(PODS, prefixes=self._rules.prefixes),
                store=self._pod_store.new(),
                on_change=self._pod_changed,
                name="pods",
                metrics=self._metrics,
                query={"fieldSelector": f"spec.schedulerName={self._settings.scheduler_name}"},
            )
            for path in paths
        )

    def _build_policy(self, kube: KubeSession, policy: Policy) -> PolicyWatch:
        namespaces = Reflector(
            kube,
            "/api/v1/namespaces",
            decode=IDENTIFIED,
            store=Store[Identified](),
            on_change=self._namespace_changed,
            name="namespaces",
            metrics=self._metrics,
        )
        self._rulebook = Rulebook(
            prefixes=self._rules.prefixes, policy=policy, namespaces=namespaces.store
        )
        return PolicyWatch(
            self._settings.policy_file,
            rulebook=self._rulebook,
            namespaces=namespaces,
            on_change=self._policy_changed,
            metrics=self._metrics,
        )

    def _build_controller(self, api: KubeApi, owner: Owner) -> Controller:
        settings = self._settings
        self._look = Look(
            pods=self._pod_store,
            nodes=self._nodes.nodes,
            surroundings=self._neighbours.surroundings,
            requirements=Requirements(
                self._neighbours.surroundings,
                self._neighbours.volumes,
                rulebook=self._rulebook,
                ignored=settings.ignored_requirements,
                devices=settings.device_resources,
            ),
            units=self._units,
            owner=owner,
            rules=self._rules,
            rulebook=self._rulebook,
            clock=monotonic,
            looked_through=lambda: self._census.completed_at is not None,
            covered=self._census.covers,
            coverage=self._coverage,
            successors=Successors(metrics=self._metrics, clock=monotonic),
            min_job_age=lambda: self._slurmctld.min_job_age,
            accounting_storage=lambda: self._slurmctld.accounting_storage,
            evict_suspended=settings.suspend_policy == "evict",
        )
        self._standby = Standby(self._look, self._units)
        teller = Teller(
            api,
            self._recorder,
            condition_seconds=settings.condition_interval,
            unschedulable_reason=settings.unschedulable_reason,
            metrics=self._metrics,
            clock=monotonic,
        )
        self._slurmctld = Slurmctld(
            self._slurm,
            failed_at=lambda: self._watch.failed_at,
            warn=self._warn,
            clock=monotonic,
        )
        loads = NodeLoads(self._slurm, clock=monotonic)
        self._brake = EndingBrake(
            self._slurmctld,
            loads=loads,
            limits=Limits(
                share=settings.brake_share,
                minimum=settings.brake_minimum,
                window_seconds=settings.brake_window,
                pause_seconds=settings.brake_pause,
            ),
            units=self._units,
            pods=self._pod_store,
            tell=teller.warn,
            warn=self._warn,
            metrics=self._metrics,
            clock=monotonic,
        )
        self._modes = Modes(
            settings.placeholder_mode,
            self._slurm,
            kinds=self._nodes.kinds,
            heartbeat=self._hooks.heartbeat,
            slurmctld=self._slurmctld,
        )
        gpu_sharing = GpuSharing(settings.gpu_node_sharing, kinds=self._nodes.kinds)
        tools = Tools(
            kube=api,
            slurm=self._slurm,
            units=self._units,
            teller=teller,
            owner=owner,
            metrics=self._metrics,
            clock=monotonic,
        )
        edits = EditPace(
            teller,
            version=lambda: self._rulebook.version,
            metrics=self._metrics,
            clock=monotonic,
        )
        release = Release(tools, self._canceller, census=self._census, doubt_pods=self._doubt_pods)
        executor = Executor(
            tools,
            submitter=Submitter(
                tools,
                Sender(
                    self._slurm,
                    owner=owner,
                    modes=self._modes,
                    gpu_sharing=gpu_sharing,
                    environment=self._job_environment,
                ),
                submits=SubmitPace(teller, metrics=self._metrics, clock=monotonic),
                edits=edits,
                release=release,
                watch=self._watch,
                census=self._census,
            ),
            updater=Updater(
                tools,
                trial=Trial(self._slurm, owner=owner, modes=self._modes),
                forms=Forms(self._modes, gpu_sharing, kinds=self._nodes.kinds),
                edits=edits,
                release=release,
            ),
            binder=Binder(tools, claim=self._look.claim),
            release=release,
            learner=Learner(tools, nodes=self._nodes.nodes, census=self._census, loads=loads),
            evictor=Evictor(
                api,
                brake=self._brake,
                budget_seconds=(
                    settings.eviction_budget_timeout
                    if settings.eviction_policy == "budget"
                    else 0.0
                ),
                tell=teller.event,
                metrics=self._metrics,
                clock=monotonic,
            ),
        )
        return Controller(
            queue=self._queue,
            look=self._look,
            executor=executor,
            teller=teller,
            metrics=self._metrics,
            clock=monotonic,
        )

    async def run(self) -> None:
        """Until SIGTERM or SIGINT. A part that ends unexpectedly ends the process."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with self._slurm:
            try:
                await self._open_hooks()
                async with asyncio.TaskGroup() as group:
                    tasks = self._start(group)
                    await stop.wait()
                    await self._shut_down(tasks)
            finally:
                await self._hooks.close()

    async def _announce(self) -> None:
        with suppress(SlurmError):  # one that is away again is told of anyway
            await announce(
                self._settings,
                owner=self._owner,
                slurm=self._slurm,
                nodes=self._nodes.nodes,
                modes=self._modes,
                not_ready=self.not_ready,
                role=self._election.role,
            )

    async def _open_hooks(self) -> None:
        if (port := await self._hooks.open()) is not None:
            log.info("listening", face="hooks-api", port=port)

    def _start(self, group: asyncio.TaskGroup) -> dict[str, asyncio.Task[None]]:
        elected = self._election.elected.wait
        parts: dict[str, Coroutine[Any, Any, None]] = {
            "election": self._election.run(),
            "pods": self._guard("pods", self._reflect_pods()),
            "nodes": self._guard("nodes", self._nodes.run()),
            "neighbours": self._guard("neighbours", self._neighbours.run()),
            "policy": self._guard("policy", self._policy.run()),
            "pulse": self._guard("pulse", _after(self._watch.run, self._synced)),
            # What it found before we take over would be forgotten, and not looked for in a while.
            "census": self._guard("census", _after(self._census.run, self._begun.wait)),
            "canceller": self._guard("canceller", self._canceller.run()),
            "brake": self._guard("brake", self._brake.run()),
            "slurmctld": self._guard("slurmctld", _after(self._slurmctld.run, elected)),
            "recorder": _after(self._recorder.run, elected),
            "hooks": self._guard("hooks", self._hooks.run()),
            "kill wait": self._guard("kill wait", self._kill_wait.run()),
            "loop": self._guard("loop", watch_loop(self._metrics)),
            "gauges": self._guard("gauges", self._gauges.run()),
            "rights": self._guard("rights", _after(self._rights.run, self._begun.wait)),
            "owner hints": self._guard("owner hints", _after(self._owner_hints.run, elected)),
            "ready": self._announce(),
            "workers": self._work(),
        }
        return {name: group.create_task(part, name=name) for name, part in parts.items()}

    async def _shut_down(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        """What is being done is finished, then what was to be told, and last the lease; what waits
        is for the next process.
        """
        log.info("shutting down")
        last = ("workers", "canceller", "recorder", "election") if self._begun.is_set() else ()
        for name, task in tasks.items():
            if name not in last:
                task.cancel()
        if not last:
            await asyncio.wait(tasks.values())
            await self._election.release()
            return
        self._queue.abandon()
        _done, late = await asyncio.wait([tasks["workers"]], timeout=self._settings.shutdown_grace)
        for task in late:
            log.warning("work was cut off at shutdown", grace_s=self._settings.shutdown_grace)
            task.cancel()
        tasks["canceller"].cancel()
        self._recorder.stop()
        await asyncio.wait([tasks[name] for name in last if name != "election"])
        tasks["election"].cancel()
        await asyncio.wait([tasks["election"]])
        await self._election.release()

    async def _guard(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        """A part that must not end: its end is the end of the process."""
        try:
            await part
        except asyncio.CancelledError:
            raise
        except Exception as error:
            back = went_back(error)
            if back is None:
                log.exception("a part has failed", part=name)
            else:
                log.critical("the process ends: the next one begins afresh", error=str(back))
            raise
        raise RuntimeError(f"{name} has ended unexpectedly")

    async def _reflect_pods(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._pods:
                group.create_task(reflector.run(), name="reflector")

    async def _work(self) -> None:
        await self._synced()
        await self._election.elected.wait()
        self._take_over()
        await asyncio.gather(self._kill_wait.first(), self._nodes.first())
        log.info("caches synced", pods=len(self._pod_store))
        await run_workers(self._controller, self._settings.workers)

    def _take_over(self) -> None:
        """Begin with nothing but the caches, whatever was seen while another led."""
        self._units.clear()
        self._coverage.begin()
        self._begun.set()
        for pod in self._pod_store:
            self._queue.add(pod.metadata.uid, WakeCause.START)
            self._owner_hints.see(pod)
        self._watch.hurry()
        if told := self._election.told():
            about, text = told
            self._recorder.record(about, type="Normal", reason="LeaderElection", message=text)

    def _wake(self, key: str, cause: WakeCause) -> None:
        """There is news of a unit, or may be."""
        if self._election.elected.is_set():
            self._queue.add(key, cause)
        else:
            self._standby.follow(key)

    def _compared(self, key: str) -> None:
        """A pod that waited to be compared with the Nodes was."""
        self._queue.add(key, WakeCause.NODES)

    def _counted(self, key: str) -> None:
        """The census knows more of a unit's job."""
        self._queue.add(key, WakeCause.CENSUS)

    async def _mapped(self) -> None:
        """The pods are known, and where a Slurm node's pods would be."""
        await self._synced()
        await self._nodes.settled()

    async def _synced(self) -> None:
        for reflector in self._reflectors():
            await reflector.synced.wait()

    def _reflectors(
        self,
    ) -> tuple[
        Reflector[Pod]
        | Reflector[Node]
        | Reflector[Identified]
        | Reflector[Neighbour]
        | Reflector[Claim]
        | Reflector[PersistentVolume],
        ...,
    ]:
        return (
            *self._pods,
            *self._nodes.reflectors,
            *self._neighbours.reflectors,
            *self._policy.needed(),
        )

    def not_ready(self) -> list[str]:
        """All reasons why this process cannot do its work now."""
        unlisted = [
            f"{reflector.name} are not listed yet"
            for reflector in self._reflectors()
            if not reflector.synced.is_set()
        ]
        after = 0.0 if unlisted else _SILENT_SECONDS
        reasons = [*self._election.not_ready(), *self._link.not_ready(after_seconds=after)]
        reasons += unlisted
        answered = self._watch.last_answer_at
        why = f": {self._slurm_trouble.text}" if self._slurm_trouble.text else ""
        if answered is None:
            reasons.append(f"Slurm has not answered yet{why}")
        elif monotonic() - answered > _SILENT_SECONDS:
            reasons.append(f"Slurm has not answered for {monotonic() - answered:.0f} s{why}")
        elif self._watch.stranger:
            reasons.append(self._slurm_trouble.text)
        if self._rights.missing:
            reasons.append(self._rights.missing)
        if self._brake.trouble:
            reasons.append(self._brake.trouble)
        return reasons

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._presence.changed(old, new)
        pod = new or old
        saw_start(self._metrics, self._units, old=old, new=new, now=monotonic())
        if pod is not None:
            self._look.parting(pod)
            if old is None and self._election.elected.is_set():
                self._owner_hints.see(pod)
            edit = old is not None and new is not None and edited(old, new)
            self._wake(pod.metadata.uid, WakeCause.EDIT if edit else WakeCause.WATCH)

    def _doubt_pods(self) -> None:
        """Have them listed anew: one is there that the last list lacked."""
        for reflector in self._pods:
            reflector.doubt()

    def _nodes_changed(self) -> None:
        """Some pod that could go nowhere may go somewhere now; where Slurm has told of types of
        GPUs, any pod may be read as another.
        """
        types = self._nodes.nodes.gpu_types
        read_anew, self._gpu_types = types != self._gpu_types, types
        for unit in self._units:
            if read_anew or unit.job is None:
                self._wake(unit.key, WakeCause.NODES)

    def _room_changed(self) -> None:
        """Other pods have come or gone: some pod that no Node could take may go somewhere."""
        for unit in self._units:
            if unit.job is None and unit.said.reason == Reason.NO_NODE_FITS:
                self._wake(unit.key, WakeCause.NODES)

    def _volumes_changed(self) -> None:
        """Pods that wait for a claim to be bound may be served now."""
        for pod in self._pod_store:
            if not pod.spec.node_name and claims_of(pod):
                self._wake(pod.metadata.uid, WakeCause.NODES)

    def _namespace_changed(self, _old: Identified | None, new: Identified | None) -> None:
        """Its labels may be others, or known at last."""
        if new is not None:
            for pod in self._pod_store:
                if pod.metadata.namespace == new.metadata.name and not pod.finished:
                    self._wake(pod.metadata.uid, WakeCause.POLICY)

    def _created(self, uid: str) -> datetime | None:
        pod = self._pod_store.get(uid)
        return None if pod is None else pod.metadata.creation_timestamp

    def _policy_changed(self) -> None:
        """What was refused may be allowed now, and the other way round."""
        for pod in self._pod_store:
            if not pod.finished:
                self._wake(pod.metadata.uid, WakeCause.POLICY)

    def _kill_wait_changed(self, seconds: int | None) -> None:
        self._look.use_kill_wait(seconds)
        for unit in self._units:
            self._wake(unit.key, WakeCause.KILL_WAIT)

    def _job_environment(self, unit: str) -> Mapping[str, str]:
        return self._hooks.job_environment(unit, kill_wait_seconds=self._kill_wait.seconds)

    def _warn(self, reason: Reason, message: str) -> None:
        """An Event on our own pod, where we know it."""
        ref = own_pod(os.environ)
        if ref is not None:
            kind = MEANINGS[reason].kind
            self._recorder.record(ref, type=kind, reason=reason, message=message)

    def _pulsed(self, error: SlurmError | None) -> None:
        if error is None:
            self._slurm_trouble.over()
        else:
            self._slurm_trouble.saw(self._slurm_causes.of(error))

    def _slurm_called(self, call: Call) -> None:
        self._metrics.slurm_call(call.operation, call.outcome, call.seconds)


async def _after(
    part: Callable[[], Awaitable[None]], *ready: Callable[[], Awaitable[object]]
) -> None:
    """What judges jobs by their pods must know the pods; what writes must lead."""
    for what in ready:
        await what()
    await part()
