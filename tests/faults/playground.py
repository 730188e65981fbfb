"""The embedded cluster, both proxies and the whole scheduler in one event loop of virtual time."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from scheduler.config.settings import Settings
from scheduler.election.elector import LeaseLostError
from scheduler.kube.errors import went_back
from scheduler.kube.identity import ClusterIdError
from scheduler.kube.session import KubeConfigError
from scheduler.sandbox.cluster import Sandbox, SandboxShape
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.kubelet import RUN_SECONDS
from scheduler.sandbox.kube.resources import (
    JOBS,
    LEASES,
    NAMESPACES,
    PLUGINS_POD_GROUPS,
    PODS,
)
from scheduler.sandbox.slurm.records import Job
from scheduler.service import startup
from tests.audit.audit import Audit, unaudited
from tests.audit.sandbox import SandboxRecorder
from tests.crash.virtual_loop import alone
from tests.faults.cluster import open_front
from tests.faults.play import Play
from tests.faults.proxy import FaultProxy
from tests.support import pods
from tests.support.model_jobs import placeholders_of, submit_native, uids
from tests.support.scheduler import SCHEDULER_NAME

Body = dict[str, Any]

NAMESPACE: Final = "default"
_MERGE: Final = "application/merge-patch+json"
# A rule that reads labels of namespaces, because only then are namespaces watched.
_POLICY: Final = """
rules:
- name: labelled
  namespaceSelector: {matchLabels: {team: nobody}}
  forced: {comment: labelled}
"""
_RESTART_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.25
# The longest pause of a unit is 300 s; the periodic census is as rare.
_CONVERGED_SECONDS: Final = 900.0


class Playground:
    """What a story of faults acts with; made by `playground`."""

    def __init__(
        self,
        sandbox: Sandbox,
        play: Play,
        settings: Settings,
        proxies: Sequence[FaultProxy],
    ) -> None:
        self.sandbox, self.play = sandbox, play
        self.kube, self.slurm = sandbox.kube.model, sandbox.slurm
        self._settings = settings
        self._proxies = proxies
        self.audit = unaudited()
        self._names = itertools.count(1)
        self._process: asyncio.Task[None] | None = None

    # --- users

    def create(self, *, runs: float | None = None, **more: Any) -> str:
        """Create a pod of ours, whose containers end by themselves after `runs` seconds."""
        name = f"pod-{next(self._names)}"
        seconds = {} if runs is None else {RUN_SECONDS: str(runs)}
        annotations = {**seconds, **more.pop("annotations", {})}
        body = pods.pod(name, annotations=annotations, restartPolicy="Never", **more)
        self.kube.create(PODS, NAMESPACE, {"apiVersion": "v1", "kind": "Pod", **body})
        return name

    def delete(self, name: str) -> None:
        """Delete a pod, unless it has gone already."""
        if self.pod(name) is not None:
            self.kube.delete(PODS, NAMESPACE, name, DeleteOptions())

    def create_gang(self) -> str:
        """Create a batch Job whose two pods are a gang."""
        name = f"job-{next(self._names)}"
        body = pods.batch_job(2, name=name)
        self.kube.create(JOBS, NAMESPACE, {"apiVersion": "batch/v1", "kind": "Job", **body})
        return name

    def delete_gang(self, name: str) -> None:
        """Delete a batch Job and its pods."""
        self.kube.delete(JOBS, NAMESPACE, name, DeleteOptions(propagation="Background"))

    def create_pod_group(self) -> tuple[str, ...]:
        """Create a PodGroup and its two pods; their names, that of the group first."""
        group = f"group-{next(self._names)}"
        body = {"metadata": {"name": group}, "spec": {"minMember": 2}}
        self.kube.create(PLUGINS_POD_GROUPS, NAMESPACE, body)
        labels = {"scheduling.x-k8s.io/pod-group": group}
        return (group, self.create(labels=labels), self.create(labels=labels))

    def delete_pod_group(self, names: Sequence[str]) -> None:
        """Delete what `create_pod_group` has created."""
        group, *members = names
        for name in members:
            self.delete(name)
        self.kube.delete(PLUGINS_POD_GROUPS, NAMESPACE, group, DeleteOptions())

    def annotate(self, name: str, **values: str | None) -> None:
        """Edit annotations of a pod that say what it asks Slurm for."""
        if self.pod(name) is not None:
            edits = {pods.PREFIX + key: value for key, value in values.items()}
            patch = {"metadata": {"annotations": edits}}
            self.kube.patch(PODS, NAMESPACE, name, patch, content_type=_MERGE)

    def scancel(self, name: str) -> None:
        """Cancel a pod's job, as an operator would."""
        pod = self.pod(name)
        for job in () if pod is None else self.jobs(pod):
            if job.alive:
                self.slurm.cancel(job.id, user="slurm")

    def drop_lease(self) -> None:
        """Delete the Lease, as an administrator might; the scheduler then creates it anew."""
        for lease in list(self.kube.bodies(LEASES, NAMESPACE)):
            self.kube.delete(LEASES, NAMESPACE, lease["metadata"]["name"], DeleteOptions())

    # --- the scheduler

    def start(self, **changed: object) -> None:
        """Run the scheduler; if it ends by itself it is started again, as by a kubelet.

        `changed` are fields of the settings.
        """
        self._settings = self._settings.model_copy(update=changed)
        work = self._keep(self._settings)
        self._process = asyncio.get_running_loop().create_task(work, name="scheduler")

    async def restart(self) -> None:
        """Replace the process by a new one with the same settings."""
        await self.kill()
        self.start()

    async def kill(self) -> None:
        """Kill the process at once."""
        if self._process is not None:
            self._process.cancel()
            with suppress(asyncio.CancelledError):
                await self._process

    async def _keep(self, settings: Settings) -> None:
        while True:
            try:
                await startup.run(settings)
            except (KubeConfigError, OSError, ClusterIdError, LeaseLostError):
                pass
            except ExceptionGroup as failed:
                if went_back(failed) is None:
                    raise
            await asyncio.sleep(_RESTART_SECONDS)

    def cut(self) -> None:
        """Cut all connections of the scheduler, watches above all."""
        for proxy in self._proxies:
            proxy.cut()

    # --- looking

    def pod(self, name: str) -> Body | None:
        """The pod of that name."""
        return self.kube.find(PODS, NAMESPACE, name)

    def pods(self) -> list[Body]:
        """All pods."""
        return list(self.kube.bodies(PODS))

    def jobs(self, pod: Body) -> list[Job]:
        """All jobs for a pod, ended ones included."""
        return placeholders_of(self.slurm, pod["metadata"]["uid"])

    def running(self, name: str) -> bool:
        """Whether its containers run."""
        pod = self.pod(name)
        return pod is not None and pods.phase(pod) == "Running"

    async def until(self, what: str, holds: Callable[[], object], *, seconds: float) -> None:
        """Wait until a condition holds; AssertionError with the whole picture otherwise."""
        assert await self.comes(holds, seconds=seconds), (
            f"not within {seconds} s: {what}\n{self.picture()}"
        )

    async def comes(self, holds: Callable[[], object], *, seconds: float) -> bool:
        """Whether a condition comes true in time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while not holds():
            if loop.time() > end:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    async def converge(self) -> None:
        """After the faults, wait until every pod has what it should, and nothing is left over."""
        self.play.heal()
        await self.until("all is as it should be", self._settled, seconds=_CONVERGED_SECONDS)

    def _settled(self) -> bool:
        mine = {pod["metadata"]["uid"]: pod for pod in self.pods()}
        alive = [job for job in self.slurm.jobs() if job.alive and uids(job)]
        owners = [uid for job in alive for uid in uids(job)]
        wanted = [uid for uid, pod in mine.items() if pods.phase(pod) in {"Pending", "Running"}]
        return sorted(owners) == sorted(wanted) and all(
            pods.phase(mine[uid]) == "Running" and not pods.leaving(mine[uid]) for uid in wanted
        )

    def picture(self) -> str:
        """Pods, jobs and the last requests, for people."""
        return "\n".join(
            [
                *(pods.summary(pod) for pod in self.pods()),
                *(
                    f"job {job.id} {job.state} {job.reason} {[it.node for it in job.shares]} "
                    f"{job.name}"
                    for job in self.slurm.jobs()
                    if job.alive
                ),
                *(f"{it.name} {it.target[:90]} {it.fault or ''}" for it in self.play.journal[-40:]),
            ]
        )


@asynccontextmanager
async def playground(folder: Path, *, release: str = "26.05") -> AsyncIterator[Playground]:
    """Two nodes whose clocks are the loop's, and a scheduler that is not started yet."""
    loop = asyncio.get_running_loop()
    offset = time.time() - loop.time()

    def now() -> float:
        return offset + loop.time()

    play = Play()
    async with AsyncExitStack() as stack:
        stack.enter_context(alone(loop, now))
        sandbox = Sandbox(SandboxShape(nodes=2, release=release), folder=folder)
        sandbox.slurm.clock = now
        await stack.enter_async_context(sandbox)
        front = await open_front(stack, sandbox, play=play, folder=folder)
        policy = folder / "policy.yaml"
        policy.write_text(_POLICY)
        settings = Settings.model_validate(
            {
                "kubeconfig": front.kubeconfig,
                "slurm-api-base": front.slurm_url,
                "slurm-auth-token-file": front.slurm_token_file,
                "health-probe-bind-address": "0",
                "metrics-bind-address": "0",
                "hooks-api-bind-address": "0",
                "placeholder-mode": sandbox.placeholder_mode,
                "policy-file": policy,
                "condition-interval": 1.0,
                "poll-interval": 1.0,
                "leader-elect": True,
                "leader-elect-resource-namespace": NAMESPACE,
                "node-access": "read",
                "node-mapping": "comment,name",
            }
        )
        # A job of somebody else. The auditor checks that the scheduler does not touch it.
        submit_native(sandbox.slurm, "native", user="alice", script="sleep infinity")
        ground = Playground(sandbox, play, settings, (front.slurm, front.kube))
        ground.audit = await _audited(sandbox)
        try:
            yield ground
        finally:
            await ground.kill()
            await ground.audit.close()


async def _audited(sandbox: Sandbox) -> Audit:
    """Within the block the auditor records; at its end it judges."""
    system = sandbox.kube.model.get(NAMESPACES, "", "kube-system")
    audit = Audit(
        SandboxRecorder(sandbox.kube.server, sandbox.slurm),
        clusters={system.body["metadata"]["uid"]},
        schedulers={SCHEDULER_NAME},
        accepted={"I14": "proxies deliver what was sent late, or a second time"},
    )
    await audit.open()
    return audit
