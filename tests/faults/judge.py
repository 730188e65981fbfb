"""Watches both servers from within while faults are played, and does not ask the scheduler."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache

from scheduler.sandbox.cluster import Sandbox
from scheduler.sandbox.kube.resources import PODS
from scheduler.sandbox.slurm import SlurmModel
from scheduler.sandbox.slurm.records import STARTED, Job
from tests.support.pod_judge import PodJudge, runs


class Judge(PodJudge):
    """Keeps in `wrong` what never may happen, to jobs too."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self._foreign = self._native()

    def _native(self) -> int:
        """A job of somebody else, which nobody has a reason to touch."""
        asked = {
            "name": "native",
            "environment": ["A=b"],
            "current_working_directory": "/",
            "memory_per_node": 100,
            "tasks": 1,
        }
        job, _ = self.slurm.submit(asked, "sleep infinity", user="alice")
        return job.id

    def look(self) -> None:
        """All that must hold at every moment."""
        held = Counter(
            uid for job in self.slurm.jobs() if job.state in STARTED for uid in uids(job)
        )
        if not self.slurm.job(self._foreign).alive:
            self.wrong.append("a job of somebody else was ended")
        self.wrong += [f"two jobs run for pod {uid}" for uid, count in held.items() if count > 1]
        for pod in self.kube.bodies(PODS):
            uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
            if runs(pod) and uid not in self.may_go and not self._holds(uid, node):
                self.wrong.append(f"pod {uid} runs on {node}, which is not held for it")

    def _holds(self, uid: str, node: str) -> bool:
        return any(
            (job.state in STARTED or job.completing) and any(it.node == node for it in job.shares)
            for job in placeholders_of(self.slurm, uid)
        )

    def bound(self, uid: str, node: str) -> None:
        """Only to a node that its own job holds, or has held until an instant ago."""
        if not self._holds(uid, node) and uid not in self.may_go:
            self.wrong.append(f"pod {uid} was bound to a node that its job does not hold")


def uids(job: Job) -> tuple[str, ...]:
    """The pods a job stands for; none for a foreign one."""
    return _tagged(job.admin_comment)


@lru_cache
def _tagged(admin_comment: str) -> tuple[str, ...]:
    try:
        tag = json.loads(admin_comment)
    except ValueError:
        return ()
    return tuple(tag.get("uids", ())) if isinstance(tag, dict) else ()


def placeholders_of(slurm: SlurmModel, uid: str) -> list[Job]:
    """All jobs for a pod, ended ones included."""
    return [job for job in slurm.jobs() if uid in uids(job)]
