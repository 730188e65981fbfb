"""Kubernetes Nodes as a pod's wishes meet them: where it may go, and whether it can go anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from scheduler.core.fitness import Place, Unfit, Wishes, fitness, unsuitable
from scheduler.kube.store import Store
from scheduler.kube.wire import Node

_MOST_SHOWN: Final = 3
# Wishes of templates, not of pods: those of one controller are the same.
_REMEMBERED: Final = 1024


class Nodes:
    """Reads the store of Nodes; `changed` is to be called with each change of one.

    `on_change` is called when a Node may take pods that it could not take before.
    """

    def __init__(self, store: Store[Node], *, on_change: Callable[[], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._nowhere = lru_cache(maxsize=_REMEMBERED)(self._look_everywhere)

    def place(self, node: str, wishes: Wishes) -> Place:
        """What is behind a Slurm node, for a pod of these wishes."""
        found = self._store.by_name(node)
        if found is None:
            return Place("", Unfit("maps to no Kubernetes Node"))
        return Place(node, fitness(wishes, found.facts))

    def nowhere(self, wishes: Wishes) -> str:
        """Why no Node can take a pod of these wishes, or nothing where one can."""
        return self._nowhere(wishes)

    def changed(self, old: Node | None, new: Node | None) -> None:
        """A Node has come, gone or changed; heartbeats change nothing here."""
        if old is not None and new is not None and old.facts == new.facts:
            return
        self._nowhere.cache_clear()
        self._on_change()

    def _look_everywhere(self, wishes: Wishes) -> str:
        complaints: Counter[str] = Counter()
        for node in self._store:
            unfit = unsuitable(wishes, node.facts)
            if unfit is None:
                return ""
            complaints[unfit.why] += 1
        return _nowhere_text(complaints)


def _nowhere_text(complaints: Counter[str]) -> str:
    """Nothing without any Node: they may be about to come."""
    if not complaints:
        return ""
    shown = [f"{count} {why}" for why, count in complaints.most_common(_MOST_SHOWN)]
    left = complaints.total() - sum(count for _, count in complaints.most_common(_MOST_SHOWN))
    more = [f"{left} for other reasons"] if left else []
    told = "; ".join([*shown, *more])
    return f"None of the {complaints.total()} Kubernetes Nodes can take the pod: {told}"
