"""The checks that compare Slurm with Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from scheduler.core.node_gres import count_of
from scheduler.core.node_suitability import NodeFacts
from scheduler.doctor.facts import Facts, NodePods, Pair, Unread
from scheduler.doctor.finding import CheckResult, error, note, ok, some, warning
from scheduler.kube.wire import Node
from scheduler.nodes.records import OFF
from slurmapi import SlurmNode

_MAPPING: Final = "docs/nodes.md#which-node-is-it"
_BESIDE: Final = "docs/nodes.md#beside-other-pods"
# Both clocks are read in whole seconds, and answers take their time.
MOST_SECONDS_OFF: Final = 5.0
_MILLI: Final = 1000
_MIB: Final = 2**20
_AVOIDED: Final = frozenset({"DOWN", "DRAIN", "FAIL", "FUTURE", "MAINTENANCE"}) | OFF


def mapping(facts: Facts) -> Iterator[CheckResult]:
    """There is one Kubernetes Node behind each Slurm node (--node-mapping)."""
    pairs = facts.pairs
    if isinstance(pairs, Unread):
        if pairs.cause == "map_file":
            yield error(pairs.why, _MAPPING)
        elif pairs.why:
            yield warning(f"mappings could not be checked: {pairs.why}", _MAPPING)
        return
    kube_nodes = facts.kube.nodes
    if isinstance(kube_nodes, Unread):
        yield note(
            f"Nodes may not be read, so mappings are not checked: {kube_nodes.why}", _MAPPING
        )
        return
    lost = [f"{it.slurm.name} {it.why}" for it in pairs if not it.target]
    found = f"{len(pairs) - len(lost)} of {len(pairs)} Slurm nodes have a Kubernetes Node"
    if pairs and len(lost) == len(pairs):
        yield error(f"no Slurm node has a Kubernetes Node: {some(lost, most=2)}", _MAPPING)
    elif lost:
        yield note(
            f"{found}; no pod is bound on the others: {some(lost, most=2)}",
            f"if pods are to run there, correct the mapping: {_MAPPING}",
        )
    elif pairs:
        yield ok(found)


def readiness(facts: Facts) -> Iterator[CheckResult]:
    """Nodes that cannot take pods are not offered by Slurm either."""
    offered = [it for it in _pairs(facts) if it.slurm.states.isdisjoint(_AVOIDED)]
    ours = list(_with_nodes(offered))
    closed = sorted(
        f"{it.target} ({_closed(node.facts)})" for it, node in ours if _closed(node.facts)
    )
    if closed:
        yield warning(
            f"{len(closed)} Nodes take no pod, and Slurm allocates them nevertheless: "
            f"{some(closed)}",
            "repair or uncordon the Node, or drain it in Slurm (`scontrol update nodename=NAME "
            "state=drain reason=...`): docs/operations.md#a-node-out-of-service",
        )
    elif ours:
        yield ok("every Node that Slurm offers takes pods")


def _closed(node: NodeFacts) -> str:
    if not node.ready:
        return "not ready"
    return "cordoned" if node.unschedulable else ""


class _Amount(NamedTuple):
    """A resource of one pair: what Slurm has for jobs and the Node for pods, in Slurm's unit."""

    name: str
    slurm: int
    node: int


def capacity(facts: Facts) -> Iterator[CheckResult]:
    """Slurm counts no more CPUs, memory and devices than the Node has for pods."""
    resources = facts.settings.device_resources
    large: dict[str, list[str]] = {}
    unused: dict[str, list[str]] = {}
    pairs = list(_with_nodes(_pairs(facts)))
    for pair, node in pairs:
        for it in _compared_amounts(pair.slurm, node.facts.allocatable, resources):
            text = f"{pair.slurm.name} ({it.slurm} in Slurm, {it.node} on its Node)"
            if it.slurm > it.node:
                large.setdefault(it.name, []).append(text)
            elif it.slurm < it.node and it.name in resources:
                unused.setdefault(it.name, []).append(text)
    for name, nodes in large.items():
        yield warning(
            f"Slurm counts more {name} than the Nodes give to pods on {len(nodes)} nodes: "
            f"{some(nodes)}",
            "give Slurm what the Node can allocate (`kubectl describe node`), less what DaemonSets "
            "take, or reserve the rest (CoreSpecCount, MemSpecLimit): "
            "docs/prepare-slurm.md#3-nodes",
        )
    for name, nodes in unused.items():
        yield note(
            f"Slurm counts fewer {name} than the Nodes have on {len(nodes)} nodes: {some(nodes)}",
            "Gres= of these nodes, if pods are to use all of them",
        )
    if pairs and not large and not unused:
        yield ok(f"{len(pairs)} nodes have no more in Slurm than their Nodes give to pods")


def _compared_amounts(
    node: SlurmNode, there: Mapping[str, int], resources: Mapping[str, str]
) -> Iterator[_Amount]:
    if not there:
        return  # the kubelet has not reported yet
    yield _Amount("cpu", node.job_cpus, there.get("cpu", 0) // _MILLI)
    yield _Amount("memory in MiB", node.job_memory_mib, there.get("memory", 0) // _MIB)
    for resource, gres in resources.items():
        yield _Amount(resource, count_of(node.gres, gres), there.get(resource, 0))


def foreign_pods(facts: Facts) -> Iterator[CheckResult]:
    """What pods of other schedulers take on Slurm's Nodes, which Slurm does not know of."""
    crowd = facts.crowd
    if isinstance(crowd, Unread):
        if crowd.cause == "denied":
            yield note(f"pods of other schedulers may not be read: {crowd.why}", _BESIDE)
        elif crowd.why:
            yield warning(f"pods of other schedulers could not be read: {crowd.why}", _BESIDE)
        return
    if not crowd.whole:
        yield note("there are more pods than were looked at")
    pairs = list(_with_nodes(_pairs(facts)))
    shared = [(*it, crowd.on[it[0].target]) for it in pairs if it[0].target in crowd.on]
    beside = sum(foreign.pods for _, _, foreign in shared)
    tight = list(_tight(shared, facts.settings.device_resources))
    schedulers = [it or "no name" for it in sorted(crowd.schedulers)]
    if tight:
        yield warning(
            f"pods of other schedulers ({some(schedulers)}) take what Slurm counts as free on "
            f"{len(tight)} Nodes: {some(sorted(tight))}",
            "reserve it in Slurm (CoreSpecCount, MemSpecLimit), or move these pods: " + _BESIDE,
        )
    elif beside:
        yield ok(f"{beside} pods of other schedulers ({some(schedulers)}) fit beside Slurm's jobs")
    elif pairs:
        yield ok("no pod of another scheduler is on Slurm's Nodes")


def _tight(
    shared: Iterable[tuple[Pair, Node, NodePods]], resources: Mapping[str, str]
) -> Iterator[str]:
    """The Nodes on which Slurm's jobs may not fit beside the foreign pods, and what is short."""
    for pair, node, foreign in shared:
        short = _shortage(pair.slurm, node.facts.allocatable, foreign, resources)
        if short:
            yield f"{pair.target} ({short})"


def _shortage(
    node: SlurmNode, there: Mapping[str, int], foreign: NodePods, resources: Mapping[str, str]
) -> str:
    """The first resource that is not enough for all of Slurm's jobs and these pods; "" if there is
    none. What the Node alone lacks is the business of `capacity`.
    """
    left = {name: amount - foreign.requests.get(name, 0) for name, amount in there.items()}
    for whole, rest in zip(
        _compared_amounts(node, there, resources),
        _compared_amounts(node, left, resources),
        strict=True,
    ):
        if rest.node < rest.slurm <= whole.node:
            return f"{rest.slurm} {rest.name} in Slurm, {rest.node} left"
    return ""


def clocks(facts: Facts) -> Iterator[CheckResult]:
    """The clocks of Slurm, of the API server and of this machine agree."""
    known = {
        "slurmctld": facts.slurm_seconds_off,
        "the API server": facts.kube.seconds_off,
    }
    off = {"this machine": 0.0, **{name: it for name, it in known.items() if it is not None}}
    if len(off) == 1:
        return
    first, last = min(off, key=lambda it: off[it]), max(off, key=lambda it: off[it])
    apart = off[last] - off[first]
    if apart > MOST_SECONDS_OFF:
        yield warning(
            f"the clock of {last} is {apart:.0f} s ahead of that of {first}",
            "synchronise them (NTP), Slurm's slowly: docs/operations.md#a-clock-is-set",
        )
    else:
        yield ok(f"the clocks of {', '.join(off)} agree")


def policy(facts: Facts) -> Iterator[CheckResult]:
    """The policy file is valid."""
    path = facts.settings.policy_file
    if facts.policy:
        yield error(f"--policy-file: {facts.policy}", "docs/policy.md")
    elif path is not None:
        yield ok(f"the policy file {path} is valid")


def scheduler_ready(facts: Facts) -> Iterator[CheckResult]:
    """The scheduler that runs on this machine, or in this pod, is ready (/readyz)."""
    found = facts.running
    if isinstance(found, Unread):
        yield note(found.why, "--health-probe-bind-address, as the scheduler has it")
    elif found is None and facts.settings.health_probe_bind_address is not None:
        yield note(
            "no scheduler listens at --health-probe-bind-address of this machine",
            "in the scheduler's pod the doctor also says whether it is ready",
        )
    elif found is not None and not found.ready:
        yield error(
            f"the scheduler at {found.url} is not ready: {some(list(found.words))}",
            "docs/troubleshooting.md",
        )
    elif found is not None:
        yield ok(f"the scheduler at {found.url} is ready: {some(list(found.words))}")


def _pairs(facts: Facts) -> tuple[Pair, ...]:
    return () if isinstance(facts.pairs, Unread) else facts.pairs


def _with_nodes(pairs: Iterable[Pair]) -> Iterator[tuple[Pair, Node]]:
    return ((it, it.node) for it in pairs if it.node is not None)
