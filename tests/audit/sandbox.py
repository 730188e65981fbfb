"""Records the models from within: synchronously, each change at the moment it is made.

Works in any event loop, with virtual time too: `clock` gives the only times there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from scheduler.sandbox.kube.calls import Call
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import PODS
from scheduler.sandbox.kube.server import KubeServer
from scheduler.sandbox.kube.store import Change
from scheduler.sandbox.slurm import SlurmModel
from scheduler.sandbox.slurm.records import Job
from tests.audit.history import By, When, at
from tests.audit.records import JobAsked, JobMissing, JobSeen, PodAsked, PodSeen, Records

OUR_AGENT: Final = "slurm-pod-scheduler/"
OUR_USER: Final = "root"
_WRITES: Final = {"PATCH": "write", "PUT": "write", "DELETE": "delete"}
_BELOW: Final = {"binding": "bind", "eviction": "delete", "status": "write"}


class SandboxRecorder:
    """Of the two models, and of the API server that stands before the one. `our_user` is the Slurm
    user by whom only the scheduler cancels and updates; at the API server it goes by its agent.
    `waited` tells for how many seconds a request may have waited before its turn.
    """

    def __init__(
        self,
        server: KubeServer,
        slurm: SlurmModel,
        *,
        our_user: str = OUR_USER,
        waited: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._server = server
        self._slurm = slurm
        self._our_user = our_user
        self._waited = waited
        self._undo: list[Callable[[], None]] = []
        self._live: dict[int, str] = {}
        self._over: frozenset[str] = frozenset()
        self._changed_at = 0.0
        self._records = Records(opened=slurm.clock())

    def open(self) -> None:
        """Begin; what is there already is taken up as it is, what has ended is another's matter."""
        self._records = Records(opened=self._now, looks=True)
        self._over = frozenset(job.sluid for job in self._slurm.jobs() if not job.alive)
        model: KubeModel = self._server.model
        for pod in model.bodies(PODS):
            self._records.pods.append(PodSeen(at(self._now), pod, gone=False))
        for job in self._slurm.jobs():
            if job.alive:
                self.changed(job)
        self._undo = [
            model.store.observe(self._pod_changed),
            self._server.audit(self._called),
            self._slurm.keep(self),
        ]

    def close(self) -> Records:
        """End."""
        while self._undo:
            self._undo.pop()()
        self._records.closed = self._now
        return self._records

    def _seen(self, job: Job, when: When) -> JobSeen:
        """The job; for a component, the heterogeneous job with the nodes of all components."""
        if not job.het_id:
            return _seen(job, when)
        parts = [it for it in self._slurm.jobs() if it.het_id == job.het_id]
        parts.sort(key=lambda it: it.het_offset)
        if not parts or parts[0].id != job.het_id:
            return _seen(job, when)
        tasks = {node: n for part in parts for node, n in _tasks(part).items()}
        flags = frozenset({"CONFIGURING"} if any(it.configuring for it in parts) else ())
        whole = _seen(parts[0], when)
        nodes = frozenset(tasks)
        return replace(whole, state=_joint(parts), nodes=nodes, flags=flags, tasks=tasks)

    # --- Slurm's journal

    def changed(self, job: Job) -> None:
        """As in Journal."""
        if job.sluid in self._over and not job.alive:
            return
        self._changed_at = self._now
        self._records.jobs.append(self._seen(job, at(self._now)))
        if job.alive:
            self._live[job.id] = job.sluid
        else:
            self._live.pop(job.id, None)

    def restored(self, jobs: Mapping[int, Job]) -> None:
        """As in Journal. What is missing was forgotten in the crash, after the last change."""
        when = When(self._changed_at, self._now)
        for job_id, known_as in list(self._live.items()):
            job = jobs.get(job_id)
            if job is None or job.sluid != known_as:
                del self._live[job_id]
                self._records.jobs.append(JobMissing(when, job_id))
        for job in jobs.values():
            if job.alive or job.id in self._live:
                self.changed(job)

    def asked(self, verb: str, job_id: int, *, user: str, since: float) -> None:
        """As in Journal."""
        by = By.US if user == self._our_user else By.OTHER
        # What a look shows is as of the answer; only a write is older than its turn.
        waited = 0.0 if verb == "look" else self._waited()
        when = When(since - waited, self._now)
        self._records.jobs_asked.append(JobAsked(when, by, verb, job_id))

    # --- the API server

    def _pod_changed(self, storage: str, change: Change) -> None:
        if storage != PODS.storage:
            return
        stored = change.after or change.before
        assert stored is not None
        self._records.pods.append(PodSeen(at(self._now), stored.body, gone=change.after is None))

    def _called(self, call: Call, status: int) -> None:
        parts = call.path.strip("/").split("/")
        if parts[:3] != ["api", "v1", "namespaces"] or parts[4:5] != ["pods"] or len(parts) < 6:
            return
        below = parts[6] if len(parts) > 6 else ""
        verb = _BELOW.get(below, "") if below else _WRITES.get(call.method, "")
        if not verb or call.method == "GET" or call.dry_run:
            return
        body = _document(call) if verb == "bind" else {}
        self._records.pods_asked.append(
            PodAsked(
                at(self._now),
                By.US if call.agent.startswith(OUR_AGENT) else By.OTHER,
                verb,
                parts[3],
                parts[5],
                str((body.get("metadata") or {}).get("uid") or ""),
                accepted=status < 300,
                node=str((body.get("target") or {}).get("name") or ""),
            )
        )

    @property
    def _now(self) -> float:
        return self._slurm.clock()


def _joint(parts: list[Job]) -> str:
    """The state of all components: it has ended if one has, and runs if all do."""
    ended = next((it.state for it in parts if not it.alive), None)
    waits = next((it.state for it in parts if not it.shares), None)
    return (ended or waits or parts[0].state).value


def _document(call: Call) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(call.body)
    except msgspec.DecodeError:
        return {}
    return body if isinstance(body, dict) else {}


def _seen(job: Job, when: When) -> JobSeen:
    return JobSeen(
        when=when,
        job_id=job.id,
        key=job.sluid,
        state=job.state.value,
        flags=frozenset({"CONFIGURING"} if job.configuring else ()),
        nodes=frozenset(share.node for share in job.shares),
        admin_comment=job.admin_comment,
        restarts=job.restart_count,
        submitted=at(job.submit_time),
        start=at(job.start_time) if job.shares else None,
        end=None,
        preempted=at(job.preempt_time) if job.preempt_time else None,
        tasks=_tasks(job),
    )


def _tasks(job: Job) -> dict[str, int]:
    """How many tasks each node of the job has, by its CPUs."""
    return {share.node: share.cpus // job.asked.cpus_per_task for share in job.shares}
