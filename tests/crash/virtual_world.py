"""The embedded cluster and one scheduler process after the other, in virtual time."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest import mock

from scheduler.config.settings import Settings
from scheduler.core.owner_tag import Owner, OwnerTag
from scheduler.sandbox.cluster import Sandbox, SandboxShape
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.resources import PODS
from scheduler.sandbox.slurm.records import Job, State
from tests.audit.audit import Audit
from tests.audit.sandbox import SandboxRecorder
from tests.crash.hooks import hook_flags, hooked
from tests.crash.process import Death, Process, observed_decisions
from tests.crash.virtual_loop import alone
from tests.support import pods
from tests.support.model_jobs import submit_native, uids

T = TypeVar("T")
Body = dict[str, Any]

OWNER: Final = Owner("virtual", "slurm-scheduler")
NAMESPACE: Final = "default"
MERGE: Final = "application/merge-patch+json"
OPERATOR: Final = "slurm"  # root is the scheduler
METRICS: Final = "http://127.0.0.1:8080/metrics"
RESTART_SECONDS: Final = 2.0
# A census that nobody asked for comes every 300 s.
SECONDS: Final = 400.0
END_SECONDS: Final = 700.0
_LOOK_SECONDS: Final = 0.05
# What is decided when nothing is left, is decided in each life.
_AFTERWARDS_SECONDS: Final = 1.0


class VirtualWorld:
    """What a scenario acts with; entered by `virtual_world`."""

    def __init__(self, sandbox: Sandbox, settings: Settings) -> None:
        self.sandbox = sandbox
        self.kube, self.slurm = sandbox.kube.model, sandbox.slurm
        self.settings = settings
        self.processes: list[Process] = []
        self.bystanders: list[Job] = []
        self.accepted: dict[str, str] = {}  # what the auditor need not find, as in `Audit`

    # --- acting

    def create(self, name: str = "train", **more: Any) -> str:
        """Create a pod of ours; gives its uid."""
        stored = self.kube.create(
            PODS, NAMESPACE, {"apiVersion": "v1", "kind": "Pod", **pods.pod(name, **more)}
        )
        return str(stored.body["metadata"]["uid"])

    def delete(self, name: str = "train") -> None:
        """A user deletes a pod."""
        assert self.pod(name) is not None, f"there is no pod {name}"
        self.kube.delete(PODS, NAMESPACE, name, DeleteOptions())

    def annotate(self, name: str = "train", **values: str | None) -> None:
        """A user edits the pod's annotations of Slurm."""
        edits = {pods.PREFIX + key.replace("_", "-"): value for key, value in values.items()}
        patch = {"metadata": {"annotations": edits}}
        self.kube.patch(PODS, NAMESPACE, name, patch, content_type=MERGE)

    def native(self, name: str, *, user: str = "alice", **fields: Any) -> Job:
        """A job of Slurm's own users that runs until somebody ends it."""
        external = self.sandbox.placeholder_mode == "external"
        placed = {
            "partition": self.sandbox.partition,
            "flags": ["EXTERNAL_JOB"] if external else [],
        }
        script = None if external else "sleep infinity"
        return submit_native(self.slurm, name, user=user, script=script, **(placed | fields))

    def fill(self, **fields: Any) -> Job:
        """All CPUs of all nodes but those of the bystanders."""
        count = len(self.sandbox.nodes)
        cpus = self.sandbox.shape.cpus_per_node - 1
        return self.native(
            "filler", min_nodes=count, max_nodes=count, tasks=count, cpus_per_task=cpus, **fields
        )

    def cancel(self, job: Job) -> None:
        """An operator ends a job."""
        self.slurm.cancel(job.id, user=OPERATOR)

    # --- looking

    def pod(self, name: str = "train") -> Body | None:
        """The pod of that name."""
        return self.kube.find(PODS, NAMESPACE, name)

    def jobs(self, uid: str) -> list[Job]:
        """All jobs for that pod, ended ones included."""
        return [job for job in self.slurm.jobs() if uid in self.pods_of(job)]

    def live_job(self, uid: str) -> Job:
        """The job of that pod that waits or runs."""
        return next(job for job in self.jobs(uid) if job.alive)

    def live_jobs(self) -> list[Job]:
        """Placeholders of ours that may run or still do."""
        jobs = self.slurm.jobs()
        return [job for job in jobs if (job.alive or job.completing) and self.pods_of(job)]

    def pods_of(self, job: Job) -> tuple[str, ...]:
        """The uids that a job of ours stands for."""
        return uids(job, cluster=OWNER.cluster)

    def phase(self, name: str = "train") -> str:
        """The pod's phase, "gone" without one."""
        pod = self.pod(name)
        return "gone" if pod is None else pods.phase(pod)

    async def until(
        self, what: str, holds: Callable[[], T | None], *, seconds: float = SECONDS
    ) -> T:
        """Wait until that is true; AssertionError with the whole picture when it does not come."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while not (found := holds()):
            assert loop.time() < until, f"not within {seconds} s: {what}\n{self.picture()}"
            await asyncio.sleep(_LOOK_SECONDS)
        return found

    async def running(self, name: str = "train") -> None:
        """Wait until the pod's containers run."""
        await self.until(f"{name} runs", lambda: self.phase(name) == "Running")

    async def submitted(self, uid: str) -> Job:
        """Wait until the pod has a job that waits or runs."""
        return await self.until(
            f"{uid} has a job", lambda: next((it for it in self.jobs(uid) if it.alive), None)
        )

    async def gone(self, name: str = "train") -> None:
        """Wait until there is no such pod."""
        await self.until(f"{name} is gone", lambda: self.pod(name) is None)

    def picture(self) -> str:
        """Pods and jobs, for people."""
        return "\n".join(
            [
                *(pods.summary(it) for it in self.kube.bodies(PODS)),
                *(
                    f"job {it.id} {it.state} {it.reason} {[s.node for s in it.shares]} {it.name}"
                    for it in self.slurm.jobs()
                ),
            ]
        )

    # --- the end

    async def begin(self) -> None:
        """Jobs that are nobody's business: a user's, and a placeholder of another cluster."""
        other = OwnerTag(1, "elsewhere", OWNER.scheduler, NAMESPACE, "train", ("1234",)).encode()
        first, second = self.sandbox.nodes
        self.bystanders = [
            self.native("native", required_nodes=[first]),
            self.native("train", user="root", admin_comment=other, required_nodes=[second]),
        ]
        await self.until("bystanders run", self._bystanders_run)

    def _bystanders_run(self) -> bool:
        found = {job.id: job for job in self.slurm.jobs()}
        return all(found[it.id].state is State.RUNNING for it in self.bystanders)

    async def finish(self) -> None:
        """All pods go, by their users' will, and nothing of ours is left in Slurm."""
        for pod in list(self.kube.bodies(PODS)):
            if "deletionTimestamp" not in pod["metadata"]:
                self.delete(pod["metadata"]["name"])
        await self.until("all pods are gone", lambda: not list(self.kube.bodies(PODS)))
        await self.until(
            "no placeholder is left", lambda: not self.live_jobs(), seconds=END_SECONDS
        )
        await asyncio.sleep(_AFTERWARDS_SECONDS)
        assert self._bystanders_run(), f"a job of others was touched\n{self.picture()}"

    async def live(self, *deaths: Death) -> None:
        """One process after the other, as a Deployment keeps it; the first die their deaths."""
        left = deque(deaths)
        while True:
            process = Process(self.settings, left.popleft() if left else None)
            self.processes.append(process)
            await process.run()
            await asyncio.sleep(RESTART_SECONDS)


@asynccontextmanager
async def virtual_world(
    folder: Path,
    *,
    release: str = "26.05",
    flags: dict[str, str] | None = None,
    hooks: bool = False,
    **shape: Any,
) -> AsyncIterator[VirtualWorld]:
    """A cluster of two nodes whose clocks are the loop's; with `hooks` Slurm runs some."""
    loop = asyncio.get_running_loop()
    began, offset = loop.time(), time.time()

    def now() -> float:
        return offset + loop.time() - began

    prolog = "in this loop" if hooks else ""
    sandbox = Sandbox(
        SandboxShape(nodes=2, release=release, prolog_slurmctld=prolog, **shape), folder=folder
    )
    sandbox.slurm.clock = now
    # The kubeconfig, which each process reads, is JSON: YAML takes long to read it.
    with alone(loop, now), mock.patch("yaml.safe_load", json.load), observed_decisions():
        async with sandbox:
            recorder = SandboxRecorder(sandbox.kube.server, sandbox.slurm)
            audit = Audit(recorder, {OWNER.cluster}, {OWNER.scheduler})
            await audit.open()
            given = (flags or {}) | (hook_flags(folder) if hooks else {})
            with hooked(sandbox) if hooks else nullcontext():
                world = VirtualWorld(sandbox, _settings(sandbox, given))
                yield world
            if any(it.arrives_late for it in world.processes):
                audit.accepted["I14"] = "what a dead process has sent arrives long after its look"
            if any(it.arrives_late.endswith("/binding") for it in world.processes):
                audit.accepted["I3"] = "a dead process cannot know that the next one has bound"
            audit.accepted |= world.accepted
            await audit.close_and_judge()


def _settings(sandbox: Sandbox, flags: dict[str, str]) -> Settings:
    return Settings.model_validate(
        {
            "kubeconfig": str(sandbox.kubeconfig),
            "slurm-api-base": sandbox.slurm_url,
            "placeholder-mode": sandbox.placeholder_mode,
            "slurm-auth-token": sandbox.slurm_token("root"),
            "health-probe-bind-address": "127.0.0.1:8081",
            "metrics-bind-address": "127.0.0.1:8080",
            "cluster-id": OWNER.cluster,
        }
        | flags
    )
