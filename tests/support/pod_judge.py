"""Watches the pods of a sandbox from within, at every change, and does not ask the scheduler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from scheduler.sandbox.cluster import Sandbox
from scheduler.sandbox.kube.resources import PODS
from scheduler.sandbox.kube.store import Change

Body = dict[str, Any]
_OVER: Final = frozenset({"Succeeded", "Failed"})


class PodJudge(ABC):
    """Keeps in `wrong` what never may happen to a pod.

    `may_go` are the uids of pods that a user or Slurm ends; nobody else may be.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.may_go: set[str] = set()
        self.wrong: list[str] = []
        self.kube, self.slurm = sandbox.kube.model, sandbox.slurm
        self.kube.store.observe(self._changed)

    @abstractmethod
    def bound(self, uid: str, node: str) -> None:
        """A pod gets its Node."""
        ...

    def _changed(self, storage: str, change: Change) -> None:
        if storage != PODS.storage or change.before is None:
            return
        before, after = change.before.body, None if change.after is None else change.after.body
        uid, node = before["metadata"]["uid"], before["spec"].get("nodeName")
        going = after is None or "deletionTimestamp" in after["metadata"]
        if going and uid not in self.may_go:
            self.wrong.append(f"pod {uid} was ended without a reason")
        if after is not None and after["spec"].get("nodeName") != node:
            if node:
                self.wrong.append(f"pod {uid} was bound twice")
            self.bound(uid, after["spec"]["nodeName"])


def runs(pod: Body) -> bool:
    """Whether containers of it run, or are about to."""
    leaves = "deletionTimestamp" in pod["metadata"]
    return may_run(pod) and (not leaves or pod["status"].get("phase") == "Running")


def may_run(pod: Body) -> bool:
    """Whether it has a Node, and is not over there."""
    phase = pod.get("status", {}).get("phase")
    return bool(pod["spec"].get("nodeName")) and phase not in _OVER
