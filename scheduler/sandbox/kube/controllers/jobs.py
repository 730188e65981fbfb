"""Batch Jobs: creates pods until enough of them have succeeded or too many have failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.controllers import pod_failures
from scheduler.sandbox.kube.controllers.dependents import Dependents, controller_key
from scheduler.sandbox.kube.controllers.pod_failures import Verdict
from scheduler.sandbox.kube.controllers.templates import pod_of
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.meta import (
    controller_of,
    is_finished,
    is_leaving,
    is_ready,
    now,
    with_condition,
)
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import JOBS, PODS, Body
from scheduler.sandbox.kube.store import Change

INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(slots=True)
class Tally:
    """How the pods of one Job ended, each counted once; `indexes` are those that succeeded."""

    counted: set[str] = field(default_factory=set)
    succeeded: int = 0
    failed: int = 0
    against_limit: int = 0
    indexes: set[str] = field(default_factory=set)
    verdict: str = ""


class JobController:
    """Runs Jobs. The end of a pod is counted at once, because the pod may soon be removed."""

    def __init__(self, model: KubeModel, dependents: Dependents) -> None:
        self._model = model
        self._dependents = dependents
        self._tallies: dict[str, Tally] = {}

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """Yield the key of a changed Job, or of a changed pod's Job."""
        if storage == JOBS.storage:
            if change.after is None and change.before is not None:
                self._tallies.pop(change.before.body["metadata"]["uid"], None)
            yield change.key
        elif storage == PODS.storage and (key := controller_key(change, "Job")):
            self._count(change)
            yield key

    def reconcile(self, key: Key) -> float | None:
        """Create or delete pods as needed, and write the Job's status."""
        job = self._model.find(JOBS, key[0], key[1])
        if job is None or is_leaving(job) or _ended(job):
            return None
        tally = self._tallies.setdefault(job["metadata"]["uid"], Tally())
        outcome = _outcome(job, tally)
        if outcome is None:
            self._level(job, tally)
        else:
            for pod in self._active(job):
                self._delete(pod)
        active = list(self._active(job))
        self._model.modify(JOBS, job, lambda body: _status(body, tally, active, outcome))
        return None

    def _count(self, change: Change) -> None:
        stored = change.after or change.before
        if stored is None:
            return
        pod, controller = stored.body, controller_of(stored.body)
        gone = change.after is None
        if controller is None or not (is_finished(pod) or is_leaving(pod) or gone):
            return
        job = self._model.find(JOBS, change.key[0], controller["name"])
        if job is None or job["metadata"]["uid"] != controller["uid"]:
            return
        tally = self._tallies.setdefault(controller["uid"], Tally())
        uid = pod["metadata"]["uid"]
        if uid in tally.counted or _waits_for_end(pod, gone=gone):
            return
        tally.counted.add(uid)
        _add(tally, job, pod)

    def _active(self, job: Body) -> Iterator[Body]:
        for pod in self._dependents.controlled(job, PODS):
            if not is_finished(pod) and not is_leaving(pod):
                yield pod

    def _level(self, job: Body, tally: Tally) -> None:
        active = list(self._active(job))
        wanted = _wanted(job, tally, len(active))
        for pod in active[wanted:]:
            self._delete(pod)
        free = _free_indexes(job, tally, active)
        for _ in range(wanted - len(active)):
            index = next(free, None)
            prefix = "" if index is None else f"{job['metadata']['name']}-{index}-"
            marks = {} if index is None else {INDEX: index}
            pod = pod_of(job, labels=marks, annotations=marks, prefix=prefix)
            self._model.create(PODS, job["metadata"]["namespace"], pod)

    def _delete(self, pod: Body) -> None:
        metadata = pod["metadata"]
        self._model.delete(PODS, metadata["namespace"], metadata["name"], DeleteOptions())


def _waits_for_end(pod: Body, *, gone: bool) -> bool:
    """Whether the end of a deleted pod must be awaited. A pod that is stopping may still succeed; a
    pod that never started will not.
    """
    started = bool(pod["spec"].get("nodeName"))
    return is_leaving(pod) and not is_finished(pod) and started and not gone


def _add(tally: Tally, job: Body, pod: Body) -> None:
    if pod["status"].get("phase") == "Succeeded":
        tally.succeeded += 1
        if index := _index(pod):
            tally.indexes.add(index)
        return
    verdict = pod_failures.judge(job["spec"].get("podFailurePolicy"), pod)
    tally.failed += 1
    if verdict is Verdict.COUNT:
        tally.against_limit += 1
    elif verdict is Verdict.FAIL_JOB:
        tally.verdict = f"Pod {pod['metadata']['name']} matches a FailJob rule"


def _index(pod: Body) -> str | None:
    return (pod["metadata"].get("annotations") or {}).get(INDEX)


def _succeeded(job: Body, tally: Tally) -> int:
    indexed = job["spec"]["completionMode"] == "Indexed"
    return len(tally.indexes) if indexed else tally.succeeded


def _wanted(job: Body, tally: Tally, active: int) -> int:
    spec = job["spec"]
    if spec["suspend"]:
        return 0
    if spec.get("completions") is None:  # a work queue: no new pods once one has succeeded
        return min(active, spec["parallelism"]) if tally.succeeded else int(spec["parallelism"])
    return int(min(spec["parallelism"], spec["completions"] - _succeeded(job, tally)))


def _free_indexes(job: Body, tally: Tally, active: list[Body]) -> Iterator[str]:
    if job["spec"]["completionMode"] != "Indexed":
        return
    taken = tally.indexes | {_index(pod) for pod in active}
    for index in map(str, range(job["spec"]["completions"])):
        if index not in taken:
            yield index


def _outcome(job: Body, tally: Tally) -> Body | None:
    """The condition of a Job that has ended; None while the Job goes on."""
    spec = job["spec"]
    if tally.verdict:
        return _condition("Failed", "PodFailurePolicy", tally.verdict)
    if tally.against_limit > spec["backoffLimit"]:
        text = "Job has reached the specified backoff limit"
        return _condition("Failed", "BackoffLimitExceeded", text)
    completions = spec.get("completions")
    done = _succeeded(job, tally) >= (completions if completions is not None else 1)
    if done and (completions is not None or tally.succeeded):
        text = "Reached expected number of succeeded pods"
        return _condition("Complete", "CompletionsReached", text)
    return None


def _condition(kind: str, reason: str, message: str) -> Body:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def _ended(job: Body) -> bool:
    return any(
        each["type"] in {"Complete", "Failed"} and each["status"] == "True"
        for each in job["status"].get("conditions") or ()
    )


def _status(job: Body, tally: Tally, active: list[Body], outcome: Body | None) -> Body:
    status = dict(job["status"])
    counts = {
        "active": len(active),
        "ready": sum(is_ready(pod) for pod in active),
        "succeeded": _succeeded(job, tally),
        "failed": tally.failed,
    }
    for name, count in counts.items():
        if count or name == "ready":
            status[name] = count
        else:
            status.pop(name, None)
    if not job["spec"]["suspend"]:
        status.setdefault("startTime", now())
    if tally.indexes:
        status["completedIndexes"] = ",".join(sorted(tally.indexes, key=int))
    if outcome is not None:
        status["conditions"] = with_condition(status.get("conditions"), outcome)
        if outcome["type"] == "Complete":
            status["completionTime"] = now()
    return {**job, "status": status}
