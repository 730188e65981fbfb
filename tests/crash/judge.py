"""Watches both servers from within, at every instant, and does not ask the scheduler."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from scheduler.core.naming import Owner, read_tag
from scheduler.sandbox.cluster import Sandbox
from scheduler.sandbox.kube.resources import PODS
from scheduler.sandbox.slurm.records import STARTED, Job
from tests.support.pod_judge import PodJudge, may_run, runs

OWNER: Final = Owner("virtual", "slurm-scheduler")


class Judge(PodJudge):
    """Raises AssertionError as soon as something happens that never may.

    `taken` are the uids of pods whose nodes Slurm has taken, so that for a while their containers
    run without a job. Where Slurm asks the handover guard, nothing starts beside these: then it is
    `guarded`.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__(sandbox)
        self.taken: set[str] = set()
        self.guarded = False

    def look(self) -> None:
        """All that must hold at every instant."""
        if self.wrong:
            wrong, self.wrong = self.wrong, []
            raise AssertionError("; ".join(wrong))
        held = [uid for job in self.slurm.jobs() if job.state in STARTED for uid in uids(job)]
        assert len(held) == len(set(held)), f"two jobs run for one pod: {sorted(held)}"
        for pod in self.kube.bodies(PODS):
            uid = pod["metadata"]["uid"]
            if runs(pod) and uid not in self.taken:
                node = pod["spec"]["nodeName"]
                assert self._holds(uid, node), f"pod {uid} runs on {node}, which is not held for it"

    def let_through(self, job: Job) -> None:
        """The handover guard says that the processes of this job may start on its nodes."""
        for share in job.shares:
            if left := self._left_on(share.node, but=uids(job)):
                self.wrong.append(f"job {job.id} was let through to {share.node} beside {left}")

    def _left_on(self, node: str, *, but: tuple[str, ...]) -> list[str]:
        """The other pods whose containers may run there, though no job holds the node for them."""
        found = (it for it in self.kube.bodies(PODS) if it["spec"].get("nodeName") == node)
        running = [it["metadata"]["uid"] for it in found if may_run(it)]
        return [uid for uid in running if uid not in but and not self._holds(uid, node)]

    def live_jobs(self) -> list[Job]:
        """Placeholders that may run or still do."""
        return [job for job in self.slurm.jobs() if (job.alive or job.completing) and uids(job)]

    def _holds(self, uid: str, node: str) -> bool:
        return any(
            (job.state in STARTED or job.completing)
            and uid in uids(job)
            and any(share.node == node for share in job.shares)
            for job in self.slurm.jobs()
        )

    def bound(self, uid: str, node: str) -> None:
        """Only to a node that its own job holds, and, where it is guarded, for it alone."""
        if not self._holds(uid, node):
            self.wrong.append(f"pod {uid} was bound to {node}, which its job does not hold")
        if self.guarded and (left := self._left_on(node, but=(uid,))):
            self.wrong.append(f"pod {uid} was bound to {node} beside {left}")


def uids(job: Job) -> tuple[str, ...]:
    """The pods a job stands for; none for a foreign one."""
    return _stood_for(job.admin_comment)


@lru_cache
def _stood_for(admin_comment: str) -> tuple[str, ...]:
    tag = read_tag(admin_comment)
    return tag.uids if tag is not None and tag.owner == OWNER else ()
