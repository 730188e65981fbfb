"""What a story acts with: a namespace, clients of Kubernetes and Slurm, and the scheduler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import aiohttp

from tests.audit.audit import Audit
from tests.support import pods
from tests.support.cluster import Accounts, Cluster
from tests.support.history import History, Seen
from tests.support.kube import Kube, KubeAnswerError, Object
from tests.support.scheduler import SchedulerProcess
from tests.support.slurm import Record, SlurmHand

T = TypeVar("T")

# Real Slurm schedules once a second, and a node is unavailable for KillWait (30 s) if a batch job
# was cancelled in the second of its start (24.11.5). The rest allows for other work on the machine.
SECONDS: Final = 60.0
# On a busy machine, kubelet, containerd and runc took over 60 s to start real containers.
REAL_SECONDS: Final = 120.0
# For each of many pods that go at once. On two crowded cores the models cancelled seven jobs a
# second.
_EACH_SECONDS: Final = 0.25
_POLL_SECONDS: Final = 0.1
_UNCHANGED_SECONDS: Final = 1.0
_LONGEST_REST_SECONDS: Final = 2.0


@dataclass(slots=True)
class World:
    """The actions of a story. All waits are bounded and explain themselves when they fail."""

    cluster: Cluster
    kube: Kube
    slurm: SlurmHand
    scheduler: SchedulerProcess
    namespace: str
    history: History
    audit: Audit
    _native: dict[int, str] = field(default_factory=dict)
    _nodes_set: list[str] = field(default_factory=list)
    _features_set: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _partitions_set: list[str] = field(default_factory=list)
    _reservations: list[str] = field(default_factory=list)
    _cordoned: list[str] = field(default_factory=list)

    # --- acting ---

    @property
    def accounts(self) -> Accounts:
        """Slurm's accounts and QoS; AssertionError on a cluster that has none."""
        assert self.cluster.accounts is not None, f"{self.cluster.name} has no accounts"
        return self.cluster.accounts

    async def create(self, name: str = "train", **more: Any) -> Object:
        """Create a pod for the scheduler; `more` as in tests.support.pods.pod."""
        container = self.cluster.container | more.pop("container", {})
        body = pods.pod(name, container=container, **more)
        return await self.kube.create("pods", body, namespace=self.namespace)

    async def create_shell(self, image: str, script: str, *, grace: int) -> Object:
        """Create the pod `train`, whose one container runs a shell script on the real Node."""
        return await self.create(
            cpus="1",
            memory="100Mi",
            grace=grace,
            slurm={"partition": self.cluster.real_partition},
            container={
                "image": image,
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", script],
            },
            restartPolicy="Never",
        )

    async def edit(self, name: str = "train", /, **slurm: str | None) -> None:
        """Set annotations of ours on a pod, or remove those that are None."""
        annotations = {pods.PREFIX + key: value for key, value in slurm.items()}
        patch = {"metadata": {"annotations": annotations}}
        await self.kube.patch("pods", name, patch, namespace=self.namespace)

    async def delete(self, name: str = "train") -> None:
        """Delete a pod with the grace period that it asks for itself."""
        await self.kube.delete("pods", name, namespace=self.namespace)

    async def native_job(self, name: str = "native", **fields: Any) -> int:
        """Submit a job of Slurm's own users; it is cancelled after the test."""
        job_id = await self.slurm.submit(name, **fields)
        self._native[job_id] = name
        return job_id

    async def end_native(self, job_id: int) -> None:
        """Cancel a native job, unless its id belongs to another job since a crash of slurmctld."""
        record = await self.slurm.job(job_id)
        if record is not None and record.name == self._native[job_id]:
            await self.slurm.cancel(job_id)

    async def job_runs(self, job_id: int) -> None:
        """Wait until the job runs, and its script with it; `native_job` only submits it.

        Cancelled before, it would be COMPLETING for KillWait.
        """
        await self.until(f"job {job_id} runs", lambda: self._has_begun(job_id))

    async def preempt(self, node: str | None) -> int:
        """Submit a native job of higher priority that needs this whole node."""
        assert node is not None
        return await self.native_job(
            "preemptor",
            partition=self.cluster.high_partition,
            required_nodes=[node],
            cpus_per_task=self.cluster.cpus_per_node,
        )

    async def fill(self, *, leave_cpus: int = 0, but: int = 0, **more: Any) -> int:
        """Fill all nodes of an empty cluster with a native job, so that pods wait until it is
        cancelled.

        `leave_cpus` stay free on each node, for pods that run meanwhile. `but` is the number of
        nodes that take no jobs anyway. `more` holds further fields of the job.
        """
        count = len(self.cluster.nodes) - but
        job_id = await self.native_job(
            "filler",
            partition=self.cluster.partition,
            nodes=str(count),
            tasks=count,
            cpus_per_task=self.cluster.cpus_per_node - leave_cpus,
            **more,
        )
        await self.job_runs(job_id)
        return job_id

    async def set_partition(
        self, name: str, *, state: str = "UP", max_minutes: int | None = None
    ) -> None:
        """Change a Slurm partition; after the test it is UP again, without a MaxTime."""
        self._partitions_set.append(name)
        await self.cluster.set_partition(name, state=state, max_minutes=max_minutes)

    async def reserve(self, node: str, *, in_seconds: int) -> str:
        """Reserve a Slurm node until the test ends; returns the reservation's name."""
        name = f"{self.namespace}-{len(self._reservations)}"
        await self.cluster.reserve(name, node, in_seconds=in_seconds)
        self._reservations.append(name)
        return name

    async def cordon(self, *nodes: str) -> None:
        """Mark these Nodes unschedulable in Kubernetes, until `uncordon` or the test's end."""
        for node in nodes:
            await self.kube.patch("nodes", node, {"spec": {"unschedulable": True}})
            self._cordoned.append(node)

    async def uncordon(self) -> None:
        """Undo `cordon` for all Nodes."""
        while self._cordoned:
            node = self._cordoned.pop()
            await self.kube.patch("nodes", node, {"spec": {"unschedulable": None}})

    async def reboot(self, node: str) -> None:
        """Let a node reboot once it is free; it returns to service after the test."""
        self._nodes_set.append(node)
        await self.cluster.reboot(node)

    async def set_node(self, node: str, state: str) -> None:
        """Set the state of a Slurm node, such as DOWN; it returns to service after the test."""
        self.mend_later(node)
        await self.slurm.set_node(node, state)

    async def set_features(self, node: str, *features: str) -> None:
        """Change the features of a Slurm node; they are restored after the test."""
        if node not in self._features_set:
            self._features_set[node] = await self.slurm.features(node)
        await self.slurm.set_features(node, *features)

    async def restore_node(self, node: str) -> None:
        """Return a node to service, once: real Slurm refuses to do it a second time."""
        self._nodes_set.remove(node)
        await self.slurm.set_node(node, "RESUME")

    def mend_later(self, node: str) -> None:
        """Have a Slurm node returned to service after the test; call it before it is drained."""
        self._nodes_set.append(node)

    # --- waiting ---

    async def bound(self, name: str = "train") -> Object:
        """The pod once it has a Node."""
        return await self.pod_that("is bound", lambda it: pods.node_of(it) is not None, name=name)

    async def running(self, name: str = "train") -> Object:
        """The pod once its containers run."""
        return await self.pod_that("runs", lambda it: pods.phase(it) == "Running", name=name)

    async def small_ones(self, *names: str, **more: Any) -> list[Object]:
        """Create small pods of these names all at once, and return them once they run."""
        await asyncio.gather(
            *(self.create(name, cpus="1", memory="100Mi", **more) for name in names)
        )
        return [await self.running(name) for name in names]

    async def submitted(self, name: str = "train") -> Record:
        """The pod's job, as soon as the pod names it."""
        what = "names its Slurm job"
        found = await self.pod_that(
            what, lambda it: bool(pods.annotation(it, pods.JOB_ID)), name=name
        )
        return await self.placeholder(found)

    async def message_with(self, *words: str, name: str = "train") -> str:
        """The message of PodScheduled=False, once it contains all these words."""

        def said(pod: Object) -> bool:
            return all(word in pods.why(pod) for word in words)

        return pods.why(await self.pod_that(f"is told {words}", said, name=name))

    async def waiting(self, name: str = "train") -> Object:
        """The pod once it says which Slurm job it waits for."""
        return await self.pod_that("waits for Slurm", waits_for_slurm, name=name)

    async def pod_that(
        self, what: str, holds: Callable[[Object], bool], *, name: str = "train"
    ) -> Object:
        """The pod once `holds` is true of it."""

        async def look() -> Object | None:
            found = await self.kube.find("pods", name, namespace=self.namespace)
            return found if found is not None and holds(found) else None

        return await self.until(f"pod {name} {what}", look, of_pods=True)

    async def gone(self, name: str = "train") -> None:
        """Wait until there is no pod of that name."""

        async def look() -> bool:
            return await self.kube.find("pods", name, namespace=self.namespace) is None

        await self.until(f"pod {name} is gone", look, of_pods=True)

    async def removed(self, pod: Object, *, seconds: float | None = None) -> Seen:
        """The last state of a pod, once the watch has reported its removal."""

        async def look() -> Seen | None:
            return self.history.removed(pod["metadata"]["uid"])

        return await self.until(f"{pods.summary(pod)} was removed", look, seconds=seconds)

    async def placeholder(self, pod: Object) -> Record:
        """The job that a pod's annotation names."""
        job_id = pods.annotation(pod, pods.JOB_ID)
        assert job_id is not None, f"no {pods.JOB_ID} on {pods.summary(pod)}"
        record = await self.slurm.job(int(job_id))
        assert record is not None, f"Slurm does not know job {job_id}"
        return record

    async def job_ended(self, job_id: int, *, state: str | None = None) -> Record:
        """The job once it has ended, in that base state if one is given."""

        async def look() -> Record | None:
            record = await self.slurm.job(job_id)
            assert record is not None, f"Slurm does not know job {job_id}"
            return None if record.live or "COMPLETING" in record.states else record

        record = await self.until(f"job {job_id} has ended", look)
        assert state in {None, record.states[0]}, record
        return record

    async def nothing_left(self, *, seconds: float | None = None) -> None:
        """Wait until no placeholder of this namespace may still run."""

        async def look() -> bool:
            return not await self.slurm.live_placeholders(self.namespace)

        await self.until("no placeholder is left", look, seconds=seconds)

    async def one_placeholder_each(self, *, of: int = 1) -> dict[str, Record]:
        """Wait until every pod has exactly one live placeholder; returns them by pod uid.

        Of so many pods at least: a controller creates its pods one after the other.
        """

        async def look() -> dict[str, Record] | None:
            found = await self.kube.items("pods", namespace=self.namespace)
            live = await self.slurm.live_placeholders(self.namespace)
            owners = sorted(uid for record in live for uid in record.tag["uids"])
            wanted = sorted(pod["metadata"]["uid"] for pod in found)
            whole = len(wanted) >= of and owners == wanted
            return {it.tag["uids"][0]: it for it in live} if whole else None

        what = f"every pod has exactly one live placeholder, and there are {of} pods or more"
        return await self.until(what, look)

    async def each_is_where_its_job_is(self) -> bool:
        """Whether each pod's only placeholder runs on the pod's Node and is named on the pod."""
        placeholders = await self.one_placeholder_each()
        found = await self.kube.items("pods", namespace=self.namespace)
        return all(
            (job := placeholders.get(pod["metadata"]["uid"])) is not None
            and job.states == ("RUNNING",)
            and job.nodes == pods.node_of(pod)
            and pods.annotation(pod, pods.JOB_ID) == str(job.job_id)
            for pod in found
        )

    async def one_job_id_each(self) -> dict[str, int]:
        """As `one_placeholder_each`, but returns only the job ids by pod uid."""
        return {uid: it.job_id for uid, it in (await self.one_placeholder_each()).items()}

    def unharmed(self, *pods_before: Object) -> None:
        """AssertionError if one of those pods was ever being deleted, or marked as disrupted."""
        for before in pods_before:
            for seen in self.history.of(before["metadata"]["name"]):
                assert seen.pod["metadata"]["uid"] == before["metadata"]["uid"]
                assert not pods.leaving(seen.pod), pods.summary(seen.pod)
                assert not pods.condition(seen.pod, "DisruptionTarget"), pods.summary(seen.pod)

    async def event(self, reason: str, *, name: str = "train") -> Object:
        """The Event with that reason about the pod, once it exists."""

        async def look() -> Object | None:
            events = await self.kube.events_of(name, namespace=self.namespace)
            return next((it for it in events if it["reason"] == reason), None)

        return await self.until(f"Event {reason} about {name}", look)

    async def until(
        self,
        what: str,
        look: Callable[[], Awaitable[T | None]],
        *,
        seconds: float | None = None,
        of_pods: bool = False,
    ) -> T:
        """Call `look` until it returns something true: ten times a second, or, if it looks at pods
        of the namespace alone (`of_pods`), when one of these has changed.

        AssertionError with `picture` after `seconds`, by default the longest time that anything
        may take on this cluster.
        """
        if seconds is None:
            seconds = self._longest_seconds
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    began, known = time.monotonic(), self.history.changes
                    if found := await _answer(look):
                        return found
                    # A look at hundreds of objects keeps a busy server from the work that is
                    # waited for: at most half of its time goes to looks.
                    took = min(time.monotonic() - began, _LONGEST_REST_SECONDS)
                    await asyncio.sleep(took if of_pods else max(_POLL_SECONDS, took))
                    if of_pods:
                        # The watch may be interrupted.
                        await self.history.changed(since=known, seconds=_UNCHANGED_SECONDS)
        raise AssertionError(f"not within {seconds} s: {what}\n{await self.picture()}")

    @property
    def _longest_seconds(self) -> float:
        return REAL_SECONDS if self.cluster.real_node else SECONDS

    # --- explaining and cleaning ---

    async def picture(self) -> str:
        """Pods, Events, placeholders and the end of the scheduler's log, for a failure message."""
        found = await self.kube.items("pods", namespace=self.namespace)
        events = await self.kube.items("events", namespace=self.namespace)
        jobs = await self.slurm.placeholders(self.namespace)
        return "\n".join(
            (
                f"-- {self.cluster.name}, pods of {self.namespace}",
                *(pods.summary(it) for it in found[:20]),
                "-- Events",
                *(
                    f"{it['involvedObject'].get('name')} {it['reason']}: {it.get('message')}"
                    for it in events[-20:]
                ),
                "-- placeholders",
                *(f"{it.job_id} {it.name} {it.states} {it.reason} {it.nodes}" for it in jobs[-20:]),
                "-- scheduler",
                self.scheduler.log_tail(),
            )
        )

    async def clean(self) -> None:
        """Remove what the test made; AssertionError if a placeholder outlives its pod.

        A step that fails does not stop the others, because the next test uses the same servers.
        """
        async with AsyncExitStack() as last_comes_first:
            after = last_comes_first.push_async_callback
            for name in self._reservations:
                after(self.cluster.unreserve, name)
            after(self._remove_pods)
            for job_id in self._native:
                after(self.end_native, job_id)
            for name in self._partitions_set:
                after(self.cluster.set_partition, name)
            for node, features in self._features_set.items():
                after(self.slurm.set_features, node, *features)
            for node in self._nodes_set:
                after(self.slurm.resume_node, node)
            after(self.uncordon)

    async def _remove_pods(self) -> None:
        for kind in ("deployments", "jobs"):
            await self._delete_all(kind)
        await self.until("nobody makes pods again", self._no_replica_set)
        count = await self._delete_all("pods")
        seconds = self._longest_seconds + _EACH_SECONDS * count
        try:
            await self.until("all pods are gone", self._is_empty, seconds=seconds, of_pods=True)
            await self.nothing_left(seconds=seconds)
        finally:
            for record in await self.slurm.live_placeholders(self.namespace):
                await self.slurm.cancel(record.job_id)
            await self.kube.delete("namespaces", self.namespace)

    async def _delete_all(self, kind: str) -> int:
        found = await self.kube.items(kind, namespace=self.namespace)
        for it in found:
            await self.kube.delete(kind, it["metadata"]["name"], namespace=self.namespace)
        return len(found)

    async def _no_replica_set(self) -> bool:
        return not await self.kube.items("replicasets", namespace=self.namespace)

    async def _is_empty(self) -> bool:
        return not await self.kube.items("pods", namespace=self.namespace)

    async def _has_begun(self, job_id: int) -> bool:
        record = await self.slurm.job(job_id)
        if record is None or record.states != ("RUNNING",):
            return False
        return "EXTERNAL_JOB" in record.raw["flags"] or await self.cluster.script_runs(job_id)


def waits_for_slurm(pod: Object) -> bool:
    """Whether the pod's condition names the job and Slurm's reason."""
    return "is pending: " in pods.why(pod)


async def _answer(look: Callable[[], Awaitable[T | None]]) -> T | None:
    """The result of `look`; None while a server does not answer."""
    try:
        return await look()
    # `until` itself is ended by a cancel, not by a TimeoutError
    except (aiohttp.ClientError, ConnectionError, TimeoutError):
        return None
    except KubeAnswerError as refusal:
        if refusal.status < 429:
            raise
        return None
