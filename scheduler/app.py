"""The composition root: builds the parts, wires them, runs them, and stops them in order."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

import structlog

import scheduler
from scheduler import probes
from scheduler.canceller import Canceller
from scheduler.census import Census
from scheduler.controller import Controller, run_workers
from scheduler.core.facts import InDoubt, NoJob, Tracked, Vanished
from scheduler.core.naming import Owner
from scheduler.core.reasons import MEANINGS, Reason
from scheduler.execute import Executor
from scheduler.hooks.service import Hooks
from scheduler.killwait import KillWait, own_pod
from scheduler.kube.api import KubeApi
from scheduler.kube.errors import KubeError
from scheduler.kube.recorder import Recorder
from scheduler.kube.reflector import Reflector
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import IDENTIFIED, PODS, Identified, Node, Pod
from scheduler.look import Look
from scheduler.loopwatch import watch_loop
from scheduler.metrics import Metrics
from scheduler.nodeparts import NodeParts
from scheduler.policy import file as policy_file
from scheduler.policy.rulebook import Rulebook
from scheduler.policy.rules import NO_POLICY, Policy
from scheduler.policy.watch import PolicyWatch
from scheduler.retry import retry_policy
from scheduler.rules import rules_of
from scheduler.scope import cluster_id, may_read_nodes
from scheduler.settings import Settings, SettingsError
from scheduler.slurmwatch import SlurmWatch
from scheduler.teller import Teller
from scheduler.units import Unit, Units
from scheduler.workqueue import WorkQueue
from slurmapi import Call, FileToken, SlurmClient, SlurmError

log = structlog.get_logger(__name__)

# Without an answer of Slurm for this long the scheduler is not ready; it works on regardless.
_SLURM_SILENT_SECONDS: Final = 60.0
_UNIT_GAUGE_SECONDS: Final = 5.0


class App:
    """One scheduler process."""

    def __init__(
        self,
        settings: Settings,
        kube: KubeSession,
        *,
        owner: Owner,
        metrics: Metrics,
        policy: Policy = NO_POLICY,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._queue = WorkQueue[str](metrics=metrics, first_seconds=0.05)
        self._units = Units()
        api = KubeApi(kube, policy=retry_policy(KubeError))
        self._slurm = SlurmClient(
            settings.slurm_api_base,
            token=FileToken(settings.slurm_auth_token_file),
            connections=settings.slurm_connections,
            retry=retry_policy(SlurmError, total_seconds=5.0),
            observe=self._slurm_called,
        )
        self._canceller = Canceller(self._slurm)
        self._recorder = Recorder(
            api,
            component="slurm-pod-scheduler",
            instance=socket.gethostname(),
            qps=settings.events_per_second,
        )
        self._pods = self._pod_reflectors(kube)
        self._nodes = NodeParts(
            settings,
            kube,
            self._slurm,
            may_read=partial(may_read_nodes, settings, api),
            metrics=metrics,
            clock=monotonic,
            on_change=self._nodes_changed,
        )
        self._rules = rules_of(settings)
        self._policy = self._build_policy(kube, policy)
        self._watch = SlurmWatch(
            self._slurm,
            units=self._units,
            on_change=self._queue.add,
            clock=monotonic,
            fast_seconds=settings.poll_interval,
            idle_seconds=settings.idle_poll_interval,
            metrics=metrics,
            running_looks_per_second=settings.running_looks_per_second,
        )
        self._census = Census(
            self._slurm,
            units=self._units,
            owner=owner,
            known_uids=self._pod_store,
            in_scope=lambda namespace: (
                not settings.watch_namespace or namespace in settings.watch_namespace
            ),
            on_change=self._queue.add,
            clock=monotonic,
            metrics=metrics,
        )
        self._hooks = Hooks(
            settings,
            self._slurm,
            units=self._units,
            watch=self._watch,
            owner=owner,
            synced=self._mapped,
            kube_node=self._nodes.nodes.kube_node,
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
        self._faces = probes.Faces()

    def _pod_reflectors(self, kube: KubeSession) -> tuple[Reflector[Pod], ...]:
        """One for each namespace in scope, or one for all."""
        self._pod_store = Joined[Pod]()
        namespaces = self._settings.watch_namespace
        paths = [f"/api/v1/namespaces/{name}/pods" for name in namespaces] or ["/api/v1/pods"]
        return tuple(
            Reflector(
                kube,
                path,
                decode=PODS,
                store=self._pod_store.new(),
                on_change=self._pod_changed,
                name="pods",
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
            units=self._units,
            owner=owner,
            rules=self._rules,
            rulebook=self._rulebook,
            clock=monotonic,
            doubtful=lambda _pod: self._census.completed_at is None,
            looked_through=lambda: self._census.completed_at is not None,
            evict_suspended=settings.suspend_policy == "evict",
        )
        teller = Teller(
            api,
            self._recorder,
            condition_seconds=settings.condition_interval,
            unschedulable_reason=settings.unschedulable_reason,
            metrics=self._metrics,
            clock=monotonic,
        )
        executor = Executor(
            kube=api,
            slurm=self._slurm,
            canceller=self._canceller,
            units=self._units,
            nodes=self._nodes.nodes,
            teller=teller,
            owner=owner,
            placeholder_mode=settings.placeholder_mode,
            watch=self._watch,
            census=self._census,
            job_environment=self._job_environment,
            metrics=self._metrics,
            clock=monotonic,
            budget_seconds=(
                settings.eviction_budget_timeout if settings.eviction_policy == "budget" else 0.0
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
                await self._open_faces()
                async with asyncio.TaskGroup() as group:
                    tasks = self._start(group)
                    await stop.wait()
                    await self._shut_down(tasks)
            finally:
                await self._hooks.close()
                await self._faces.close()

    async def _open_faces(self) -> None:
        settings = self._settings
        served = {
            "health-probe": (settings.health_probe_bind_address, probes.probes(self.not_ready)),
            "metrics": (settings.metrics_bind_address, probes.metrics(self._metrics.registry)),
        }
        for name, (address, face) in served.items():
            try:
                port = await self._faces.open(address, face)
            except OSError as error:
                why = error.strerror or str(error)
                raise SettingsError(f"--{name}-bind-address: {address}: {why}") from None
            log.info("listening", face=name, port=port)
        log.info("listening", face="hooks-api", port=await self._hooks.open())

    def _start(self, group: asyncio.TaskGroup) -> dict[str, asyncio.Task[None]]:
        parts: dict[str, Coroutine[Any, Any, None]] = {
            "pods": self._guard("pods", self._reflect_pods()),
            "nodes": self._guard("nodes", self._nodes.run()),
            "policy": self._guard("policy", self._policy.run()),
            "pulse": self._guard("pulse", self._after_sync(self._watch.run())),
            "census": self._guard("census", self._after_sync(self._census.run())),
            "canceller": self._guard("canceller", self._canceller.run()),
            "recorder": self._recorder.run(),
            "hooks": self._guard("hooks", self._hooks.run()),
            "kill wait": self._guard("kill wait", self._kill_wait.run()),
            "loop": self._guard("loop", watch_loop(self._metrics)),
            "gauges": self._guard("gauges", self._gauges()),
            "workers": self._work(),
        }
        return {name: group.create_task(part, name=name) for name, part in parts.items()}

    async def _shut_down(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        """Intake first, then what is being done, then what was to be told."""
        log.info("shutting down")
        parts = (
            "pods",
            "nodes",
            "policy",
            "pulse",
            "census",
            "gauges",
            "loop",
            "hooks",
            "kill wait",
        )
        for name in parts:
            tasks[name].cancel()
        self._queue.shut_down()
        _done, late = await asyncio.wait([tasks["workers"]], timeout=self._settings.shutdown_grace)
        for task in late:
            log.warning("work was cut off at shutdown", grace_s=self._settings.shutdown_grace)
            task.cancel()
        tasks["canceller"].cancel()
        self._recorder.stop()

    async def _guard(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        """A part that must not end: its end is the end of the process."""
        try:
            await part
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a part has failed", part=name)
            raise
        raise RuntimeError(f"{name} has ended unexpectedly")

    async def _reflect_pods(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._pods:
                group.create_task(reflector.run(), name="reflector")

    async def _after_sync(self, part: Coroutine[Any, Any, None]) -> None:
        """What judges jobs by their pods must know the pods."""
        async with AsyncExitStack() as stack:
            stack.callback(part.close)
            await self._synced()
            stack.pop_all()
        await part

    async def _work(self) -> None:
        await self._synced()
        await self._kill_wait.first()
        log.info("caches synced", pods=len(self._pod_store))
        await run_workers(self._controller, self._settings.workers)

    async def _mapped(self) -> None:
        """The pods are known, and where a Slurm node's pods would be."""
        await self._synced()
        await self._nodes.settled()

    async def _synced(self) -> None:
        for reflector in self._reflectors():
            await reflector.synced.wait()

    def _reflectors(
        self,
    ) -> tuple[Reflector[Pod] | Reflector[Node] | Reflector[Identified], ...]:
        return (*self._pods, *self._nodes.reflectors, *self._policy.needed())

    async def _gauges(self) -> None:
        while True:
            counts = dict.fromkeys(_STATES, 0)
            for unit in self._units:
                counts[_state_of(unit)] += 1
            for state, count in counts.items():
                self._metrics.units.labels(state).set(count)
            self._metrics.ready.set(not self.not_ready())
            await asyncio.sleep(_UNIT_GAUGE_SECONDS)

    def not_ready(self) -> list[str]:
        """All reasons why this process cannot do its work now."""
        reasons = [
            f"{reflector.name} are not listed yet"
            for reflector in self._reflectors()
            if not reflector.synced.is_set()
        ]
        answered = self._watch.last_answer_at
        if answered is None:
            reasons.append("Slurm has not answered yet")
        elif monotonic() - answered > _SLURM_SILENT_SECONDS:
            reasons.append(f"Slurm has not answered for {monotonic() - answered:.0f} s")
        return reasons

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._hooks.presence.changed(old, new)
        pod = new or old
        if pod is not None:
            self._look.parting(pod)
            self._queue.add(pod.metadata.uid)

    def _nodes_changed(self) -> None:
        """Some pod that could go nowhere may go somewhere now."""
        for unit in self._units:
            if unit.job is None:
                self._queue.add(unit.key)

    def _namespace_changed(self, _old: Identified | None, new: Identified | None) -> None:
        """Its labels may be others, or known at last."""
        if new is not None:
            for pod in self._pod_store:
                if pod.metadata.namespace == new.metadata.name:
                    self._queue.add(pod.metadata.uid)

    def _policy_changed(self) -> None:
        """What was refused may be allowed now, and the other way round."""
        for pod in self._pod_store:
            self._queue.add(pod.metadata.uid)

    def _kill_wait_changed(self, seconds: int | None) -> None:
        self._look.use_kill_wait(seconds)
        for unit in self._units:
            self._queue.add(unit.key)

    def _job_environment(self, unit: str) -> Mapping[str, str]:
        return self._hooks.job_environment(unit, kill_wait_seconds=self._kill_wait.seconds)

    def _warn(self, reason: Reason, message: str) -> None:
        """An Event on our own pod, where we know it."""
        ref = own_pod(os.environ)
        if ref is not None:
            kind = MEANINGS[reason].kind
            self._recorder.record(ref, type=kind, reason=reason, message=message)

    def _slurm_called(self, call: Call) -> None:
        self._metrics.slurm_call(call.operation, call.outcome, call.seconds)


_STATES: Final = (
    *("none", "in_doubt", "vanished", "unknown"),
    *("pending", "running", "suspended", "ended"),
)


def _state_of(unit: Unit) -> str:
    match unit.job_facts():
        case NoJob():
            return "none"
        case InDoubt():
            return "in_doubt"
        case Vanished():
            return "vanished"
        case Tracked(state=state):
            if state is None:
                return "unknown"
            return "ended" if state.ended else state.base.value.lower()


async def run(settings: Settings) -> None:
    """Connect, find out who we are, and schedule until told to stop."""
    agent = f"slurm-pod-scheduler/{scheduler.__version__}"
    metrics = Metrics()
    policy = await _policy(settings.policy_file)
    opening = KubeSession.open(settings.kubeconfig, user_agent=agent, observe=metrics.kube_call)
    async with await opening as kube:
        owner = Owner(await cluster_id(settings, KubeApi(kube)), settings.scheduler_name)
        log.info("starting", version=scheduler.__version__, server=kube.server, owner=owner.cluster)
        await App(settings, kube, owner=owner, metrics=metrics, policy=policy).run()


async def _policy(path: Path | None) -> Policy:
    """The site's rules, which must be in order at the start. Raises SettingsError."""
    if path is None:
        return NO_POLICY
    try:
        return await asyncio.to_thread(policy_file.read, path)
    except policy_file.PolicyError as error:
        raise SettingsError(f"--policy-file: {error}") from None
