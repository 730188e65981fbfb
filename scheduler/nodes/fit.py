"""Finds the Nodes that a pod may go to, by a survey of all Nodes and of the pods on them.

The survey is made before a job is submitted, so that the job excludes nodes that are of no use. It
is made once for each pod template, in slices of the event loop's time. Before each bind the chosen
Node is checked again: by `nodes.candidates` for its own properties, and here for what depends on
other objects (resources, ports, affinity, volumes).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.core.comparison_cost import crowd_weight, too_much, wishes_weight
from scheduler.core.labels import packed
from scheduler.core.node_requests import PODS_RESOURCE, Amounts
from scheduler.core.node_suitability import NodeFacts, Unfit, Wishes, unsuitable
from scheduler.core.pod_affinity import AffinityFilter, Crowd, PodTerm
from scheduler.core.ports import HostPort, taken
from scheduler.core.resource_fit import short_of, shortage, too_small
from scheduler.core.spread import Constraint, Spread, crowd_of
from scheduler.kube.demands import (
    apart_of,
    has_no_sizes,
    near_of,
    ports_of,
    requests_of,
    spread_of,
)
from scheduler.kube.neighbours import Neighbour, NeighbourStore, neighbour
from scheduler.kube.of_pod import OfPod
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.nodes.aversions import Repelling
from scheduler.nodes.candidates import NOT_SURVEYED, Complaint, Nodes, Survey
from scheduler.nodes.divisions import Divisions
from scheduler.nodes.neighbourhood import Load, Neighbourhood
from scheduler.nodes.own_pods import OwnPods
from scheduler.nodes.surveyor import SLICE_ITEMS, Surveyor
from scheduler.nodes.volumes import Reach, Volumes, out_of_reach

# For pods with equal demands all Nodes are surveyed no more often than this. Later changes are
# found by the check before the bind.
SURVEY_SECONDS: Final = 1.0
# How many surveys are kept. They are kept for templates, not for pods: all pods of one controller
# share one. Each takes a third of a MB if a thousand nodes are ruled out.
_REMEMBERED: Final = 192
# Of how many pods the demands are kept until the pod changes: those that are submitted and bound at
# the same time in a burst. They take a few hundred bytes each, but a user can make that 36 KiB by
# terms (measured) and 96 KiB by labels (`kube/slim.py`).
_DEMANDS_KEPT: Final = 512
# How many templates are remembered, so that a few tenants may create pods at the same time.
_TEMPLATES_AT_ONCE: Final = 8
# The cost of checking one Node, in texts that are compared with labels: a fixed part, and a part
# for each term and constraint. The pod's own requirements are added to it.
_NODE_ITEMS: Final = 20
_TERM_ITEMS: Final = 5


class Demands(msgspec.Struct, frozen=True):
    """What a pod requires of a Node and of the pods around it; equal for all pods of one
    template.
    """

    namespace: str
    labels: str
    wishes: Wishes
    requests: Amounts
    ports: tuple[HostPort, ...]
    near: tuple[PodTerm, ...]
    apart: tuple[PodTerm, ...]
    spread: tuple[Constraint, ...]
    reach: Reach = ()

    @property
    def special(self) -> bool:
        """Whether other pods, host ports or its volumes affect where the pod may go."""
        return bool(self.ports or self.near or self.apart or self.spread or self.reach)

    @property
    def plain(self) -> bool:
        """Whether the Node's own properties alone decide. Then the pod's namespace and labels are
        left out.
        """
        return not self.namespace

    @property
    def too_much(self) -> str:
        """What makes the pod too costly to compare, so that it is refused; "" if nothing does."""
        terms = (*self.near, *self.apart)
        return too_much(terms, self.spread) if terms or self.spread else ""

    @property
    def crowds(self) -> tuple[Crowd, ...]:
        """All crowds whose pods must be counted."""
        near = (Crowd(self.near),) if self.near else ()
        spread = (crowd_of(it, self.namespace) for it in self.spread)
        found = (*near, *(Crowd((it,)) for it in self.apart), *filter(None, spread))
        return tuple(dict.fromkeys(found))

    @property
    def node_items(self) -> int:
        """The cost of checking one Node, in texts that are compared (the surveyor's items)."""
        terms = len((*self.near, *self.apart, *self.spread))
        return _NODE_ITEMS + _TERM_ITEMS * terms + wishes_weight(self.wishes)


def demands_of(pod: Pod) -> Demands:
    """The demands of a pod, by its spec and labels. What its volumes require is not known here."""
    return Demands(
        namespace=pod.metadata.namespace,
        labels=packed(pod.metadata.labels),
        wishes=pod.spec.wishes,
        requests=requests_of(pod),
        ports=ports_of(pod),
        near=near_of(pod),
        apart=apart_of(pod),
        spread=spread_of(pod),
    )


class _Read(msgspec.Struct, frozen=True):
    """What a pod demands by its spec and labels, and the same without its namespace and labels.
    What follows from that is said once for each pod.
    """

    demands: Demands
    plain: Demands
    special: bool
    too_much: str


class _Reader:
    """Reads what pods demand. Pods of one template come one after another, and share what was read
    of the first, but for their labels.
    """

    def __init__(self) -> None:
        self._recent = deque[tuple[tuple[object, ...], _Read]](maxlen=_TEMPLATES_AT_ONCE)

    def __call__(self, pod: Pod) -> _Read:
        shared = has_no_sizes(pod)
        template = _template_of(pod)
        if shared:
            for recent, read in self._recent:
                if recent == template:
                    labels = packed(pod.metadata.labels)
                    return replace(read, demands=replace(read.demands, labels=labels))
        demands = demands_of(pod)
        plain = replace(demands, namespace="", labels="")
        read = _Read(demands, plain, demands.special, demands.too_much)
        if shared:
            self._recent.appendleft((template, read))
        return read


def _template_of(pod: Pod) -> tuple[object, ...]:
    """All that demands are read from besides the pod's own labels, of a pod of which no kubelet has
    reported sizes. A spread may be over the pods with one of its labels.
    """
    meta, spec = pod.metadata, pod.spec
    return (
        meta.namespace,
        meta.labels if spec.topology_spread_constraints else None,
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.affinity,
        spec.node_selector,
        spec.tolerations,
        spec.topology_spread_constraints,
    )


@dataclass(slots=True)
class _Kept:
    survey: Survey
    edition: int
    changes: int
    at: float


class NodeFit:
    """Checks Nodes by the pods that are on them. `seen` has the pods that the watch of pods on
    Nodes shows, without the pods that we serve if `own_left_out`. `own` are those, and `binding`
    are the bindings that our watch does not show yet.
    """

    def __init__(
        self,
        nodes: Nodes,
        *,
        volumes: Volumes,
        scheduler_name: str,
        seen: NeighbourStore,
        own: Joined[Pod],
        binding: Mapping[str, str],
        clock: Callable[[], float],
        own_left_out: bool = False,
        on_ready: Callable[[str], None] = lambda _unit: None,
    ) -> None:
        self._nodes = nodes
        self._volumes = volumes
        self._scheduler_name = scheduler_name
        self._seen = seen
        self._own = own
        self._own_left_out = own_left_out
        self._binding = binding
        self._clock = clock
        self._readable = True
        # A pod is asked about when its job is submitted, and a few times before it is bound.
        self._read = OfPod(_Reader(), most=_DEMANDS_KEPT)
        self._surveys: OrderedDict[Demands, _Kept] = OrderedDict()
        self._divisions = Divisions(nodes)
        self.around = Neighbourhood()
        self._own_there = OwnPods(self.around)
        self.surveyor = Surveyor(self._survey_again, on_ready=on_ready, clock=clock)

    @property
    def readable(self) -> bool:
        """Whether we read pods and Nodes. If not, nothing is checked here."""
        return self._readable and self._nodes.readable

    def do_without(self) -> None:
        """Note that we may not read other schedulers' pods."""
        self._readable = False

    def unfit(self, pod: Pod, target: str, *, alike: int = 1) -> Unfit | None:
        """Why the pod cannot be bound to this Node now, with others of its gang so that they are
        `alike` pods there; None if it can.
        """
        if self._is_there(pod):
            return None  # as our own watch shows, or will show soon
        return self._unfit(pod, target, alike)

    def _unfit(self, pod: Pod, target: str, alike: int) -> Unfit | None:
        node = self._nodes.facts(target)
        if node is None:
            return None
        why = out_of_reach(self._volumes.reach(pod), node)
        if why or not self.readable:
            return Unfit(why) if why else None
        self._settle(pod.metadata.uid)
        read = self._read(pod)
        if read.too_much:
            return Unfit("cannot be compared with what the pod requires")
        why = self._judge(read.demands)(node)
        return Unfit(why) if why else self._room(read.demands, node, alike)

    def waits_since(self, pod: Pod, *, holds_nodes: bool) -> float | None:
        """Since when the pod waits to be compared with Nodes and pods; None if it need not wait.
        Must be called before the other methods, because it starts long comparisons. With
        `holds_nodes` the pod is about to be checked against its own node; a plain pod needs no
        comparison for that.
        """
        return None if self._is_there(pod) else self._waits_since(pod, holds_nodes=holds_nodes)

    def _waits_since(self, pod: Pod, *, holds_nodes: bool) -> float | None:
        demands = self._demands(pod)
        # A bind needs no survey of the other Nodes.
        if holds_nodes and (demands.plain or self._counted(demands)):
            return None
        kept = self._surveys.get(demands)
        outdated = kept is None or self._outdated(kept, self._clock())
        # A result from before Slurm's nodes were known is of no use afterwards.
        found = kept is not None and not (outdated and kept.survey is NOT_SURVEYED)
        ready = found and (not holds_nodes or self._counted(demands))
        if ready and not outdated:
            return None
        if self.surveyor.try_spend(self._items(demands)):
            for _ in self._survey_again(demands):
                pass
            return None
        # An old survey is good enough until the next is ready, because the bind is checked again.
        # Only a pod that fits nowhere would not look again by itself, so it waits for the next one.
        serves = ready and kept is not None and not kept.survey.nowhere
        unit = "" if serves else pod.metadata.uid
        since = self.surveyor.ask(pod.metadata.namespace, demands, unit)
        return None if ready else since

    def survey(self, pod: Pod) -> Survey:
        """Which Slurm nodes are of no use to the pod; none while it waits for the survey."""
        kept = self._surveys.get(self._demands(pod))
        return NOT_SURVEYED if kept is None else kept.survey

    def claim(self, pod: Pod, target: str) -> bool:
        """Whether the pod may be bound to the Node now; not before the two have been compared. If
        so, the pod is counted there from now on, so that the next one finds its room taken. Always
        true if we may not read pods and Nodes.
        """
        if not self.readable or self._is_there(pod):
            return True
        if self._waits_since(pod, holds_nodes=True) is not None:
            return False
        if self._unfit(pod, target, alike=1) is not None:
            return False
        requests = self._read(pod).demands.requests
        self.around.assume(neighbour(pod, node=target, requests=requests))
        if self._own_left_out:
            self._own_there.claimed(pod)
        return True

    def changed(self, old: Neighbour | None, new: Neighbour | None) -> None:
        """Called with each change that the watch of pods on Nodes shows."""
        self.around.changed(old, new)

    def own_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Called with each change of a pod that we serve."""
        if old is not None:
            self._read.forget(old.metadata.uid)
            if new is None or new.finished:
                self.around.withdraw(old.metadata.uid)
        if self._own_left_out:
            self._own_there.changed(old, new)

    def _is_there(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._seen.items or pod.metadata.uid in self._own_there.items

    def _outdated(self, kept: _Kept, now: float) -> bool:
        if kept.edition != self._nodes.edition:
            return True
        return kept.changes != self.around.changes and now - kept.at >= SURVEY_SECONDS

    def _settle(self, asking: str) -> None:
        """Stop counting pods that were to be bound but were not."""
        self.around.withdraw(asking)
        for uid in self.around.assumed() - self._binding.keys():
            pod = self._own.get(uid)
            if pod is None or not pod.spec.node_name:
                self.around.withdraw(uid)

    def _demands(self, pod: Pod) -> Demands:
        """What the pod requires; plain if neither other pods nor volumes affect where it may go."""
        read, reach = self._read(pod), self._volumes.reach(pod)
        if not reach and not read.special:  # as nearly all pods
            return read.demands if self._repelling(read.demands) else read.plain
        demands = replace(read.demands, reach=reach)
        if not self.readable or read.too_much:
            demands = replace(demands, ports=(), near=(), apart=(), spread=())
        if demands.special or self._repelling(demands):
            return demands
        return replace(demands, namespace="", labels="")

    def _counted(self, demands: Demands) -> bool:
        known = self._divisions.knows(demands.spread, demands.wishes)
        return known and all(map(self.around.counts, demands.crowds))

    def _items(self, demands: Demands) -> int:
        """The cost of making the survey now, in the surveyor's items: the pods for each crowd that
        is not counted yet, and one to three passes over all Nodes.
        """
        missing = [it for it in demands.crowds if not self.around.counts(it)]
        pods = (len(self._seen) + len(self._own_there)) * sum(map(crowd_weight, missing))
        looks = 1 + (not self._divisions.knows(demands.spread, demands.wishes))
        looks += not self._nodes.located
        return pods + looks * len(self._nodes.all_facts()) * demands.node_items

    def _survey_again(self, demands: Demands) -> Iterator[int]:
        """Make the survey in steps, and yield after each step how many items it has compared. Yield
        nothing if the survey was made in the meantime, for a pod of another namespace with the same
        template.
        """
        kept = self._surveys.get(demands)
        done = kept is not None and not self._outdated(kept, self._clock())
        if done and self._counted(demands):
            return
        for crowd in demands.crowds:
            yield from self.around.counting(crowd)
        if demands.spread:
            for nodes in self._divisions.dividing(demands.spread, demands.wishes):
                yield nodes * demands.node_items
        edition, changes, at = self._nodes.edition, self.around.changes, self._clock()
        # A full slice makes the surveyor pause here. So the next part, which also goes through all
        # Nodes, starts with a slice of its own.
        yield SLICE_ITEMS if len(self._nodes.all_facts()) * demands.node_items > SLICE_ITEMS else 0
        survey = yield from self._look(demands)
        self._surveys[demands] = _Kept(survey, edition, changes, at)
        self._surveys.move_to_end(demands)
        if len(self._surveys) > _REMEMBERED:
            self._surveys.popitem(last=False)

    def _look(self, demands: Demands) -> Generator[int, None, Survey]:
        judge = self._judge(demands)

        def complain(node: NodeFacts) -> Complaint:
            lasting = unsuitable(demands.wishes, node)
            if lasting is not None:
                return lasting.why
            busy = self._busy(demands, self.around.load(node.name))
            why = too_small(demands.requests, node) or out_of_reach(demands.reach, node)
            return why or judge(node) or ("" if busy is None else busy.why)

        return (yield from self._nodes.surveying(complain, items=demands.node_items))

    def _judge(self, demands: Demands) -> Callable[[NodeFacts], str]:
        """A function that returns why pod affinity or topology spread forbid a Node now; "" if
        neither does.
        """
        repelling = self._repelling(demands)
        if not (demands.near or demands.apart or demands.spread or repelling):
            return _nothing_forbidden
        affinity = AffinityFilter(
            demands.near,
            demands.apart,
            namespace=demands.namespace,
            labels=demands.labels,
            count=self.around.count,
            topology=self._nodes.topology,
            repelling=repelling,
        )
        if not demands.spread:
            return affinity.complaint
        spread = Spread(
            demands.spread,
            self._divisions.of(demands.spread, demands.wishes),
            namespace=demands.namespace,
            labels=demands.labels,
            count=self.around.count,
        )
        return lambda node: affinity.complaint(node) or spread.complaint(node)

    def _repelling(self, demands: Demands) -> Repelling:
        """The Nodes whose pods repel a pod with these demands, if pods are read."""
        found = self.around.aversions.repelling(demands.namespace, demands.labels)
        return found if not found or self.readable else {}

    def _room(self, demands: Demands, node: NodeFacts, alike: int) -> Unfit | None:
        load = self.around.load(node.name)
        there = node.allocatable
        short = short_of(
            demands.requests, there=there, used=load.used, pods=len(load.pods), more=alike
        )
        if short is None:
            return self._busy(demands, load)
        staying = [it for it in load.pods if not it.leaving]
        used = {name: _sum(staying, name) for name, _ in demands.requests}
        left = short_of(demands.requests, there=there, used=used, pods=len(staying), more=alike)
        why = shortage(
            short,
            asked=dict(demands.requests).get(short, 1),
            has=there.get(short, 0),
            used=_sum(load.pods, short),
            foreign=_sum([it for it in load.pods if it.scheduler != self._scheduler_name], short),
            leaving=_sum([it for it in load.pods if it.leaving], short),
            pods=alike,
        )
        return Unfit(why, passes=left is None, occupied=True)

    def _busy(self, demands: Demands, load: Load) -> Unfit | None:
        """Why the Node is unfit, if a host port that the pod wants is taken; None if none is."""
        if not demands.ports:
            return None
        for staying in (True, False):
            for pod in load.pods:
                if not pod.shape.ports:
                    continue
                port = taken(demands.ports, pod.shape.ports)
                if port is not None and (pod.leaving is not staying):
                    why = f"has its port {port} taken by pod {pod.namespace}/{pod.name}"
                    return Unfit(why, passes=not staying, occupied=True)
        return None


def _nothing_forbidden(_node: NodeFacts) -> str:
    return ""


def _sum(pods: Collection[Neighbour], name: str) -> int:
    if name == PODS_RESOURCE:
        return len(pods)
    return sum(amount for pod in pods for found, amount in pod.shape.requests if found == name)
