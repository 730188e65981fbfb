"""The parts that exist before any cache: the units, the queue, and the receivers of the caches'
news.
"""

from __future__ import annotations

from scheduler.config.annotation_rules import rules_of
from scheduler.execute.owner_hints import OwnerHints
from scheduler.facts.memberships import Memberships
from scheduler.facts.pod_endings import Partings
from scheduler.facts.successors import Successors
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.nodes.presence import Presence
from scheduler.reconcile.urgency import PATIENCE, Level, Urgency
from scheduler.reconcile.workqueue import WorkQueue
from scheduler.service.news import News
from scheduler.service.outside import Outside
from scheduler.state.gangs import Gangs
from scheduler.state.units import Units


class Memory:
    """The process's memory. `pods` are those with our scheduler's name, as the watch shows them."""

    def __init__(self, outside: Outside, pods: Joined[Pod]) -> None:
        self.pods = pods
        self.rules = rules_of(outside.settings)
        self.units = Units()
        self.memberships = Memberships(outside.settings.gangs, prefixes=self.rules.prefixes)
        self.gangs = Gangs(self.memberships, pods)
        urgency = Urgency(self.units, self.gangs, pods)
        self.queue = WorkQueue[str](
            metrics=outside.metrics,
            first_seconds=0.05,
            levels=len(Level),
            level=urgency,
            line=urgency.line,
            patience=PATIENCE,
        )
        self.presence = Presence(binding=self.units.binding, clock=outside.clock)
        self.successors = Successors(metrics=outside.metrics, clock=outside.clock)
        self.partings = Partings(self.units, self.successors, clock=outside.clock)
        self.owner_hints = OwnerHints(
            outside.kube, outside.recorder, prefixes=self.rules.prefixes, clock=outside.clock
        )
        self.news = News(
            outside,
            units=self.units,
            gangs=self.gangs,
            pods=pods,
            queue=self.queue,
            presence=self.presence,
            partings=self.partings,
            owner_hints=self.owner_hints,
        )
