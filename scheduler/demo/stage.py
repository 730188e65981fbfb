"""What the demo can do to the two clusters, and what it sees of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler.demo.narrator import Narrator
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Store
from scheduler.kube.wire import PODS, Pod
from slurmapi import JobState, SlurmClient, SlurmNoSuchJob

_LOOK_SECONDS: Final = 0.1


class DemoError(Exception):
    """Something that the demo promises did not happen."""


class Stage:
    """The pods of one namespace and all Slurm jobs; the narrator tells every change of them."""

    namespace: Final = "default"

    def __init__(self, kube: KubeSession, slurm: SlurmClient, narrator: Narrator) -> None:
        self._kube = kube
        self._slurm = slurm
        self.narrator = narrator
        self.pods = Store[Pod]()
        self.jobs: Mapping[int, JobState] = {}
        self.disruptions: set[str] = set()
        """The reasons of all DisruptionTarget conditions seen so far."""
        self._names: dict[int, str] = {}
        self._changed = asyncio.Event()

    async def watch_pods(self) -> None:
        """Watch the pods until cancelled."""
        await Reflector(
            self._kube,
            Resource(name="pods", path=f"/api/v1/namespaces/{self.namespace}/pods", decode=PODS),
            store=self.pods,
            on_change=self._pod_changed,
        ).run()

    async def watch_jobs(self) -> None:
        """Poll the states of Slurm's jobs until cancelled; raises SlurmError."""
        while True:
            states = await self._slurm.job_states()
            for job_id in sorted(states.keys() - self._names.keys()):
                self._names[job_id] = await self._name(job_id)
            if states != self.jobs:
                self.jobs = states
                self.narrator.jobs(states, names=self._names)
                self._changed.set()
            await asyncio.sleep(_LOOK_SECONDS)

    async def create(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object in the demo's namespace; raises KubeError.

        `path` is that of its kind without a namespace, such as `/api/v1/pods`.
        """
        await self._kube.request("POST", self._path(path), body=body)

    async def delete(self, path: str, name: str) -> None:
        """Delete an object and, in the background, its dependents. Raises KubeError."""
        body = {"propagationPolicy": "Background"}
        await self._kube.request("DELETE", f"{self._path(path)}/{name}", body=body)

    async def until(self, promise: str, kept: Callable[[], bool], *, seconds: float) -> None:
        """Wait until `kept()` is true; after `seconds` raise DemoError, which quotes `promise`."""
        try:
            async with asyncio.timeout(seconds):
                while not kept():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise DemoError(f"did not happen within {seconds:g} s: {promise}") from None

    def phases(self, prefix: str) -> list[str]:
        """Return the sorted phases of the pods with that name prefix that are not being deleted."""
        return sorted(
            pod.status.phase
            for pod in self.pods
            if pod.metadata.name.startswith(prefix) and pod.metadata.deletion_timestamp is None
        )

    def placed(self, prefix: str) -> list[str]:
        """Return the names of the pods with that prefix that have a Node and have not ended."""
        return [
            pod.metadata.name
            for pod in self.pods
            if pod.metadata.name.startswith(prefix) and pod.spec.node_name and not pod.finished
        ]

    def messages(self) -> list[str]:
        """Return the messages of the PodScheduled conditions of all pods without a Node."""
        conditions = (pod.condition("PodScheduled") for pod in self.pods if not pod.spec.node_name)
        return [condition.message for condition in conditions if condition is not None]

    def live_jobs(self) -> list[int]:
        """Return the ids of the jobs that have not ended."""
        return [job_id for job_id, state in self.jobs.items() if not state.ended]

    def _path(self, path: str) -> str:
        group, _, plural = path.rpartition("/")
        return f"{group}/namespaces/{self.namespace}/{plural}"

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.narrator.pod(old, new)
        condition = new.condition("DisruptionTarget") if new is not None else None
        if condition is not None:
            self.disruptions.add(condition.reason)
        self._changed.set()

    async def _name(self, job_id: int) -> str:
        try:
            job = await self._slurm.job(job_id)
        except SlurmNoSuchJob:
            return ""
        return job.name
