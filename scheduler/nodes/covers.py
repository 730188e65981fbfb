"""Remembers which pods had a job that held their Node, so that they need not be judged again.

What is remembered is compared with the job at each question, so nobody has to say that a job has
changed. A question costs one comparison for each such pod on the Node, and no call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scheduler.state.units import Placeholder, Unit


@dataclass(frozen=True, slots=True)
class Cover:
    """The job that held a Node for a pod, by the Slurm node in its record, and its edition then."""

    node: str
    slurm_node: str
    job: Placeholder
    edition: int


class Covers:
    """The pods that were covered when this was last asked, by uid and by Node."""

    def __init__(self) -> None:
        self._of_pod: dict[str, Cover] = {}
        self._on: dict[str, dict[str, dict[str, Cover]]] = {}

    def __len__(self) -> int:
        return len(self._of_pod)

    def note(self, uid: str, cover: Cover) -> None:
        """Note that the pod is covered, and by what."""
        self.drop(uid)
        self._of_pod[uid] = cover
        self._on.setdefault(cover.node, {}).setdefault(cover.slurm_node, {})[uid] = cover

    def drop(self, uid: str) -> None:
        """Note that the pod is not covered, or gone."""
        cover = self._of_pod.pop(uid, None)
        if cover is None:
            return
        there = self._on[cover.node]
        del there[cover.slurm_node][uid]
        if not there[cover.slurm_node]:
            del there[cover.slurm_node]
        if not there:
            del self._on[cover.node]

    def valid(
        self,
        node: str,
        *,
        units: Mapping[str, Unit],
        kube_node: Callable[[str], str],
        beside: Placeholder,
    ) -> set[str]:
        """The pods that are covered on this Node as before: their `units` have the same jobs, which
        have not changed and which Slurm has said to hold their place since the job `beside` runs.
        """
        if beside.runs_from is None:
            return set()
        # As `Placeholder.ran_beside`, but without a call for each pod.
        since, answer = beside.runs_from, beside.runs_in or None
        found = set[str]()
        for slurm_node, covers in self._on.get(node, {}).items():
            if kube_node(slurm_node) == node:
                found |= {
                    uid
                    for uid, cover in covers.items()
                    if (job := cover.job).edition == cover.edition
                    and (job.asked_at >= since or job.shown_in == answer)
                    and not job.missing
                    and uid in units
                    and units[uid].job is job
                }
        return found
