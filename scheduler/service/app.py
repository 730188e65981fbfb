"""The life of a process: it starts its parts, takes over when it leads, and stops them in order."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog

from groundwork.retry import retry_policy
from scheduler.config.settings import Settings
from scheduler.core.event_reasons import IMPORTANT
from scheduler.core.owner_tag import Owner
from scheduler.election.elector import Election
from scheduler.kube.api import KubeApi
from scheduler.kube.errors import KubeError, went_back
from scheduler.kube.identity import token_name
from scheduler.kube.link import KubeLink
from scheduler.kube.recorder import Recorder
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.nodes.partitions import SlurmPartitions
from scheduler.observe.clock import monotonic
from scheduler.observe.loop import watch_loop
from scheduler.observe.metrics import Metrics
from scheduler.policy.rules import NO_POLICY, Policy
from scheduler.reconcile.controller import run_workers
from scheduler.service.announce import announce
from scheduler.service.gauges import Gauges
from scheduler.service.memory import Memory
from scheduler.service.node_counts import NodeCounts
from scheduler.service.outside import Outside
from scheduler.service.own_events import OwnEvents
from scheduler.service.parts import Parts
from scheduler.service.reflections import Reflections
from scheduler.service.shown import Shown
from scheduler.service.slurm_link import SlurmLink
from scheduler.service.unit_counts import UnitCounts
from scheduler.slurm.token_rights import TokenRights
from slurmapi import SlurmError

log = structlog.get_logger(__name__)

# If Slurm or Kubernetes has not answered for this long, the process reports that it is not ready.
# It goes on working all the same.
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
        # As `monotonic`, without a function in between: a pod of a burst reads it 45 times.
        clock = asyncio.get_running_loop().time
        api = KubeApi(kube, policy=retry_policy(KubeError))
        self._slurm = SlurmLink(
            settings, permit=election.seconds_left, metrics=metrics, clock=clock
        )
        self._recorder = Recorder(
            api,
            component="slurm-pod-scheduler",
            instance=socket.gethostname(),
            qps=settings.events_per_second,
            important=IMPORTANT,
            on_drop=lambda why: metrics.events_dropped.labels(why).inc(),
        )
        outside = Outside(
            settings=settings,
            kube=api,
            slurm=self._slurm.client,
            recorder=self._recorder,
            owner=owner,
            metrics=metrics,
            clock=clock,
            leads=election.elected.is_set,
            warn=OwnEvents(self._recorder).warn,
            on_pulse=self._slurm.pulsed,
        )
        self._memory = Memory(outside, Joined[Pod]())
        self._reflections = Reflections(outside, self._memory, kube, policy=policy)
        self._parts = Parts(outside, self._memory, self._reflections.caches)
        self._rights = self._token_rights()
        self._gauges = self._build_gauges(clock)
        self._counts = UnitCounts(
            metrics,
            units=self._memory.units,
            pods=self._memory.pods,
            gpus=settings.gpu_resources,
            leads=self._leads,
            clock=clock,
        )
        self._node_counts = NodeCounts(metrics, self._reflections.known.records)
        self._begun = asyncio.Event()

    def _token_rights(self) -> TokenRights:
        return TokenRights(
            self._slurm.client,
            owner=self._owner,
            namespace=next(iter(self._settings.watch_namespace), ""),
            name=token_name(self._settings),
            metrics=self._metrics,
        )

    def _build_gauges(self, clock: Callable[[], float]) -> Gauges:
        return Gauges(
            self._metrics,
            reflectors=lambda: self._reflections.all,
            queue=self._memory.queue.statistics,
            answered_at=lambda: self._parts.pulse.last_answer_at,
            lifetime=self._slurm.lifetime,
            unguarded=self._parts.modes.unguarded,
            ready=lambda: not self.not_ready(),
            leads=self._leads,
            clock=clock,
        )

    def _leads(self) -> bool:
        return self._election.seconds_left() > 0

    def objects(self) -> int:
        """How many objects of Kubernetes this process keeps."""
        return sum(it.objects for it in self._reflections.all)

    @property
    def shown(self) -> Shown:
        """What the live page shows."""
        return Shown(
            pods=self._memory.pods,
            gangs=self._memory.gangs,
            records=self._reflections.known.records,
            nodes=self._reflections.known.nodes,
            fit=self._reflections.known.fit,
            partitions=SlurmPartitions(self._slurm.client, clock=monotonic),
            rulebook=self._reflections.known.rulebook,
            leads=self._leads,
            not_ready=self.not_ready,
            count_streams=self._metrics.page_streams.set_function,
        )

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. If a part ends unexpectedly, the process ends."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        async with self._slurm.client:
            try:
                await self._open_hooks()
                async with asyncio.TaskGroup() as group:
                    tasks = self._start(group)
                    await stop.wait()
                    await self._shut_down(tasks)
            finally:
                await self._parts.hooks.close()

    async def _announce(self) -> None:
        with suppress(SlurmError):  # the pulse reports it, if Slurm is away again
            await announce(
                self._settings,
                owner=self._owner,
                slurm=self._slurm.client,
                nodes=self._reflections.known.nodes,
                modes=self._parts.modes,
                not_ready=self.not_ready,
                role=self._election.role,
            )

    async def _open_hooks(self) -> None:
        if (port := await self._parts.hooks.open()) is not None:
            log.info("listening", face="hooks-api", port=port)

    async def _record_events(self) -> None:
        await self._recorder.run(others_wait=self._memory.queue.has_work)

    def _start(self, group: asyncio.TaskGroup) -> dict[str, asyncio.Task[None]]:
        elected = self._election.elected.wait
        parts: dict[str, Coroutine[Any, Any, None]] = {
            "election": self._election.run(),
            "pods": self._guard("pods", self._reflections.run_pods()),
            "nodes": self._guard("nodes", self._reflections.nodes.run()),
            "neighbours": self._guard("neighbours", self._reflections.neighbours.run()),
            "volumes": self._guard("volumes", self._reflections.volumes.run()),
            "policy": self._guard("policy", self._reflections.policy.run()),
            "rounds": self._guard("rounds", self._memory.news.rounds.run()),
            "pulse": self._guard("pulse", _after(self._parts.pulse.run, self._reflections.synced)),
            # Taking over clears the units. What the census had found before would be lost, and it
            # would not search again for a while.
            "census": self._guard("census", _after(self._parts.census.run, self._begun.wait)),
            "canceller": self._guard("canceller", self._parts.canceller.run()),
            "brake": self._guard("brake", self._parts.brake.run()),
            "slurmctld": self._guard("slurmctld", _after(self._parts.slurmctld.run, elected)),
            "grace times": self._guard("grace times", _after(self._parts.grace_times.run, elected)),
            "recorder": _after(self._record_events, elected),
            "hooks": self._guard("hooks", self._parts.hooks.run()),
            "starts": self._guard("starts", self._parts.starts.run()),
            "kill wait": self._guard("kill wait", self._parts.kill_wait.run()),
            "handover guard": self._guard(
                "handover guard", self._parts.hooks.heartbeat.follow(self._memory.news.guard_known)
            ),
            "loop": self._guard("loop", watch_loop(self._metrics)),
            "gauges": self._guard("gauges", self._gauges.run()),
            "unit counts": self._guard("unit counts", self._counts.run()),
            "node counts": self._guard("node counts", self._node_counts.run()),
            "rights": self._guard("rights", _after(self._rights.run, self._begun.wait)),
            "owner hints": self._guard(
                "owner hints", _after(self._memory.owner_hints.run, elected)
            ),
            "ready": self._announce(),
            "workers": self._work(),
        }
        return {name: group.create_task(part, name=name) for name, part in parts.items()}

    async def _shut_down(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        """Finish the work that has begun, then the Events and cancels that remain, and release the
        lease last. Work that still waits in the queue is left to the next process.
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
        self._memory.queue.abandon()
        _done, late = await asyncio.wait([tasks["workers"]], timeout=self._settings.shutdown_grace)
        for task in late:
            log.warning(
                "unfinished work was cancelled at shutdown", grace_s=self._settings.shutdown_grace
            )
            task.cancel()
        tasks["canceller"].cancel()
        self._recorder.stop()
        await asyncio.wait([tasks[name] for name in last if name != "election"])
        tasks["election"].cancel()
        await asyncio.wait([tasks["election"]])
        await self._election.release()

    async def _guard(self, name: str, part: Coroutine[Any, Any, None]) -> None:
        """Run a part that must not end. If it does end, the process ends."""
        try:
            await part
        except asyncio.CancelledError:
            raise
        except Exception as error:
            back = went_back(error)
            if back is None:
                log.exception("a part has failed", part=name)
            else:
                log.critical(
                    "the process ends, and the next one starts without its memory", error=str(back)
                )
            raise
        raise RuntimeError(f"{name} has ended unexpectedly")

    async def _work(self) -> None:
        await self._reflections.synced()
        await self._election.elected.wait()
        await self._take_over()
        await asyncio.gather(
            self._parts.kill_wait.first(),
            self._parts.slurmctld.at_start(),
            self._reflections.nodes.first(),
        )
        log.info("caches synced", pods=len(self._memory.pods))
        await run_workers(self._parts.controller, self._settings.workers)

    async def _take_over(self) -> None:
        await self._parts.take_over()
        self._begun.set()
        if event := self._election.leader_event():
            about, text = event
            self._recorder.record(about, type="Normal", reason="LeaderElection", message=text)

    def not_ready(self) -> list[str]:
        """All reasons why this process cannot do its work now."""
        unlisted = [
            f"{reflector.name} are not listed yet"
            for reflector in self._reflections.all
            if not reflector.synced.is_set()
        ]
        after = 0.0 if unlisted else _SILENT_SECONDS
        reasons = [*self._election.not_ready(), *self._link.not_ready(after_seconds=after)]
        reasons += unlisted
        answered = self._parts.pulse.last_answer_at
        why = f": {self._slurm.trouble}" if self._slurm.trouble else ""
        if answered is None:
            reasons.append(f"Slurm has not answered yet{why}")
        elif monotonic() - answered > _SILENT_SECONDS:
            reasons.append(f"Slurm has not answered for {monotonic() - answered:.0f} s{why}")
        elif self._parts.pulse.stranger:
            reasons.append(self._slurm.trouble)
        elif unknown := self._reflections.known.nodes.unlisted:
            # Nothing is submitted until then, because no job could be mapped to a Node.
            reasons.append(f"Slurm has not listed its nodes yet: {unknown}")
        if self._rights.missing:
            reasons.append(self._rights.missing)
        if self._parts.brake.trouble:
            reasons.append(self._parts.brake.trouble)
        return reasons


async def _after(
    part: Callable[[], Awaitable[None]], *ready: Callable[[], Awaitable[object]]
) -> None:
    """Run a part once these conditions hold. Parts that judge jobs by their pods need all pods to
    be listed, and parts that write need to lead.
    """
    for what in ready:
        await what()
    await part()
