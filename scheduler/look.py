"""From the caches to the facts of one unit: what `decide` gets to see."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from annotations import ContainerResources, JobRequest, PodSpec, Problem, Requirement, Rules, parse
from scheduler.core.facts import PodFacts, PodStage, Remark, UnitFacts
from scheduler.core.fitness import Place, Wishes
from scheduler.core.gres import types_of
from scheduler.core.naming import ENDS_AT, JOB_ID, NODES, OWN_PREFIX, Owner, read_tag, stands_for
from scheduler.kube.store import Joined
from scheduler.kube.wire import Container, Pod, Quantity, ResourceRequirements
from scheduler.nodes import Nodes
from scheduler.outcome import outcome_of
from scheduler.policy.rulebook import Rulebook
from scheduler.successors import Successors
from scheduler.units import Placeholder, Unit, Units
from slurmapi.model import Job

_LONGEST_JOB_ID = len(str(2**32))
_NO_JOB_ID = 2**32 - 2  # NO_VAL of slurm.h, and INFINITE above it
# A process before this one may have submitted for it.
_BEFORE_US = float("-inf")
_NO_WISHES = Wishes()
_NEW = frozenset({PodStage.GATED, PodStage.WAITING})


class Look:
    """Reads the caches and what is remembered, and says how things stand."""

    def __init__(
        self,
        *,
        pods: Joined[Pod],
        nodes: Nodes,
        units: Units,
        owner: Owner,
        rules: Rules,
        rulebook: Rulebook,
        clock: Callable[[], float],
        looked_through: Callable[[], bool],
        covered: Callable[[datetime | None], bool],
        left_over: Callable[[str, Iterable[str]], int],
        successors: Successors,
        evict_suspended: bool = False,
    ) -> None:
        self._pods = pods
        self._nodes = nodes
        self._units = units
        self._owner = owner
        self._clock = clock
        self._looked_through = looked_through
        self._covered = covered
        self._left_over = left_over
        self._successors = successors
        self._evict_suspended = evict_suspended
        self._rulebook = rulebook
        self._rules = rules
        self._judges_grace = True
        self._parse = lru_cache(maxsize=4096)(_Parser(rules, rulebook))

    def unit(self, key: str) -> Unit | None:
        """The unit of that key; one that is new to us is made from its pod."""
        unit = self._units.get(key)
        pod = self._pods.get(key)
        if unit is not None or pod is None:
            return unit
        meta = pod.metadata
        if not self._rulebook.knows(meta.namespace):
            return None  # the watch of Namespaces brings it up again
        unit = Unit(key, meta.namespace, meta.name, seen_at=self._clock(), told=_told(pod))
        if stage_of(pod, bound=False) in _NEW:
            unit.forerunner = self._successors.take(pod)
        job_id = recorded_job(pod)
        if job_id is not None:
            unit.job, unit.recorded = Placeholder(job_id), job_id
        elif not pod.spec.node_name and not self._covered(meta.creation_timestamp):
            unit.doubt_since = _BEFORE_US
        return self._units.add(unit)

    def facts(self, unit: Unit) -> UnitFacts:
        """Everything known of the unit now."""
        pod = self._pods.get(unit.key)
        if pod is not None:
            self.parting(pod)
        wishes = _NO_WISHES if pod is None else pod.spec.wishes
        request, remarks, refused = ((), (), ()) if pod is None else self._read(pod, unit)
        corrected = unit.refused not in {None, request}
        places = self._places(unit, wishes)
        update_refused = unit.update_refused is not None and unit.update_refused == request
        return UnitFacts(
            key=unit.key,
            owner=self._owner,
            pods=() if pod is None else (self._pod(pod, unit),),
            request=request,
            refused=refused,
            accepted=self._accepted(unit) if refused else {},
            job=unit.job_facts(
                looked_through=self._looked_through(),
                since=self._units.believed_since(self._clock()),
            ),
            nodes=places,
            in_way=self._left_over(unit.key, [it.target for it in places.values() if it.target]),
            submit_at=0.0 if corrected else unit.submit_at,
            held_until=0.0 if unit.forerunner is None else unit.forerunner.until,
            held_why="" if unit.forerunner is None else unit.forerunner.told,
            update_at=unit.update_at if update_refused else 0.0,
            readmit_at=unit.readmit_at,
            readmit_refused=unit.readmit_refused,
            untaken=unit.untaken if update_refused else "",
            unfit_since=unit.unfit_since,
            unlisted=self._nodes.unlisted,
            excluded=self._excluded(unit, wishes),
            nowhere="" if unit.job is not None else self._nodes.nowhere(wishes),
            unrecorded=unit.job is not None and unit.job.job_id != unit.recorded,
            unjudged=not self._rulebook.knows(unit.namespace),
            remarks=remarks,
            outcome=unit.outcome or ("pod gone" if pod is None else ""),
            epoch=time.time(),
            evict_suspended=self._evict_suspended,
        )

    def parting(self, pod: Pod) -> None:
        """Remember how the pod ends, if it does: this may be the last that is seen of it."""
        unit = self._units.get(pod.metadata.uid)
        if unit is not None:
            unit.outcome = outcome_of(pod) or unit.outcome
            self._successors.saw(unit, pod)

    def use_kill_wait(self, seconds: int | None) -> None:
        """Judge grace periods by this KillWait from now on, and none where it is not known."""
        self._judges_grace = seconds is not None
        if seconds is not None:
            self._rules = replace(self._rules, kill_wait_seconds=seconds)
        self._parse = lru_cache(maxsize=4096)(_Parser(self._rules, self._rulebook))

    def pod(self, uid: str) -> Pod | None:
        """The pod of that uid, as last seen."""
        return self._pods.get(uid)

    def _places(self, unit: Unit, wishes: Wishes) -> dict[str, Place]:
        record = unit.job.record if unit.job is not None else None
        nodes = () if record is None else record.nodes
        places = {node: self._nodes.place(node, wishes) for node in nodes}
        return {node: place for node, place in places.items() if place is not None}

    def _excluded(self, unit: Unit, wishes: Wishes) -> Mapping[str, str]:
        learnt, known = unit.exclusions.active(self._clock()), self._nodes.unsuitable(wishes)
        return {**known, **learnt} if learnt else known

    def _accepted(self, unit: Unit) -> Mapping[str, str]:
        record = None if unit.job is None else unit.job.record
        if record is None or not self._owned(unit, record):
            return {}
        tag = read_tag(record.admin_comment)
        return {} if tag is None else tag.asked

    def _pod(self, pod: Pod, unit: Unit) -> PodFacts:
        meta = pod.metadata
        return PodFacts(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            stage=stage_of(pod, bound=bool(unit.bound.get(meta.uid))),
            node=self._node(pod, unit),
            placed_by_us=_placed_by_us(pod, unit),
            grace_seconds=pod.spec.termination_grace_period_seconds,
            ends_at=meta.annotations.get(ENDS_AT, "") if unit.ends_at is None else unit.ends_at,
        )

    def slurm_node(self, unit: Unit) -> str:
        """The Slurm node behind the Node of a unit's pod; empty where it has none, or that is not
        known.
        """
        pod = self._pods.get(unit.key)
        return "" if pod is None else self._node(pod, unit)

    def _node(self, pod: Pod, unit: Unit) -> str:
        """The Slurm node of a bound pod. What an annotation says counts only as far as the mapping
        agrees: the pod's author can write it too.
        """
        # What this process has written counts where the watch does not show it yet.
        target = pod.spec.node_name or unit.bound.get(pod.metadata.uid, "")
        if not target:
            return ""
        record = unit.job.record if unit.job is not None else None
        held = () if record is None else record.nodes
        among = (pod.metadata.annotations.get(NODES, ""), *held)
        return self._nodes.node_of(target, among=among) or ""

    def _read(self, pod: Pod, unit: Unit) -> _Reading:
        edition = self._rulebook.edition(pod.metadata.namespace)
        # The grace of a pod that runs was accepted: its node is asked for anew all the same.
        judged = self._judges_grace and not pod.spec.node_name
        types = self._gpu_types(unit)
        return self._parse(_Spec(pod, edition, grace_counts=judged, gpu_types=types))

    def _gpu_types(self, unit: Unit) -> frozenset[str] | None:
        """Those that Slurm has, and the one that the unit's own job was asked for: where its nodes
        are away while we start, a job that waits for them shall not be taken for another.
        """
        known = self._nodes.gpu_types
        record = None if unit.job is None else unit.job.record
        if known is None or record is None:
            return known
        own = types_of(record.gres.replace("gres/", ""), name="gpu")
        # Whose job it is costs a decoding of its tag, and nearly always there is nothing to add.
        return known if own <= known or not self._owned(unit, record) else known | own

    def _owned(self, unit: Unit, record: Job) -> bool:
        return stands_for(record.admin_comment, unit.key, owner=self._owner)


def recorded_job(pod: Pod) -> int | None:
    """The job id in the pod's annotation; it is believed only after Slurm confirms it."""
    text = pod.metadata.annotations.get(JOB_ID, "")
    plain = text.isascii() and text.isdigit() and len(text) <= _LONGEST_JOB_ID
    job_id = int(text) if plain else 0
    return job_id if 0 < job_id < _NO_JOB_ID else None


def stage_of(pod: Pod, *, bound: bool) -> PodStage:
    """How far the pod has come; `bound` when a binding was made that the watch may not show yet."""
    if pod.finished:
        return PodStage.FINISHED
    going = pod.metadata.deletion_timestamp is not None
    if pod.spec.node_name or bound:
        return PodStage.DEPARTING if going else PodStage.BOUND
    if going:
        return PodStage.WITHDRAWN
    return PodStage.GATED if pod.spec.scheduling_gates else PodStage.WAITING


def _told(pod: Pod) -> tuple[str, str]:
    """What a former process told last, so that it is not told again."""
    scheduled = pod.condition("PodScheduled")
    return ("", "") if scheduled is None else (scheduled.reason, scheduled.message)


def _placed_by_us(pod: Pod, unit: Unit) -> bool:
    return (
        pod.metadata.uid in unit.bound
        or unit.job is not None
        or recorded_job(pod) is not None
        or NODES in pod.metadata.annotations
    )


_Reading = tuple[JobRequest | tuple[Problem, ...], tuple[Remark, ...], tuple[Problem, ...]]
"""What a pod asks for; what is to be said of that; why a pod that runs would be refused now."""


class _Spec:
    """A pod's part that the parser reads, hashed by identity of the pod's version."""

    __slots__ = ("_key", "gpu_types", "grace_counts", "pod")

    def __init__(
        self,
        pod: Pod,
        edition: Hashable,
        *,
        grace_counts: bool,
        gpu_types: frozenset[str] | None,
    ) -> None:
        self.pod = pod
        self.grace_counts = grace_counts
        self.gpu_types = gpu_types
        # Resources and grace are immutable; annotations are not, but ours change them often.
        # Selector and affinity may change while a scheduling gate holds the pod.
        spec = pod.spec
        self._key = (
            edition,
            grace_counts,
            gpu_types,
            bool(pod.spec.node_name),
            pod.metadata.uid,
            spec.active_deadline_seconds,
            spec.affinity,
            *sorted(spec.node_selector.items()),
            *sorted(_foreign(pod.metadata.annotations)),
        )

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Spec) and other._key == self._key


def _foreign(found: Mapping[str, str]) -> list[tuple[str, str]]:
    return [item for item in found.items() if not item[0].startswith(OWN_PREFIX)]


class _Parser:
    """`annotations.parse` for a pod as Kubernetes sends it, by the site's policy."""

    def __init__(self, rules: Rules, rulebook: Rulebook) -> None:
        self._rules = rules
        self._rulebook = rulebook

    def __call__(self, spec: _Spec) -> _Reading:
        verdict = self._rulebook.judge(spec.pod)
        if isinstance(verdict, Problem):
            return (verdict,), (), ()
        rules = replace(
            self._rules,
            known_gpu_types=spec.gpu_types,
            grace_policy=self._rules.grace_policy if spec.grace_counts else "guarded",
        )
        request = self._parse(spec.pod, verdict.annotations, rules)
        if not isinstance(request, JobRequest):
            return (*request, *verdict.problems), verdict.remarks, ()
        if spec.pod.spec.node_name:
            return request, verdict.remarks, verdict.problems
        return verdict.problems or request, verdict.remarks, ()

    def _parse(
        self, pod: Pod, annotations: Mapping[str, str], rules: Rules
    ) -> JobRequest | tuple[Problem, ...]:
        whole = pod.spec.resources or ResourceRequirements()
        return parse(
            PodSpec(
                annotations=annotations,
                containers=tuple(map(_resources, pod.spec.containers)),
                init_containers=tuple(map(_resources, pod.spec.init_containers)),
                overhead=_texts(pod.spec.overhead),
                requests=_texts(whole.requests),
                limits=_texts(whole.limits),
                node_selector=pod.spec.node_selector,
                node_affinity=_required_affinity(pod),
                termination_grace_period_seconds=pod.spec.termination_grace_period_seconds,
                active_deadline_seconds=pod.spec.active_deadline_seconds,
            ),
            rules,
        )


def _required_affinity(pod: Pod) -> tuple[tuple[Requirement, ...], ...] | None:
    """The terms of which one must match, None where the pod has no such affinity."""
    of_nodes = None if pod.spec.affinity is None else pod.spec.affinity.node_affinity
    required = of_nodes and of_nodes.required_during_scheduling_ignored_during_execution
    if not required:
        return None
    return tuple(
        tuple(Requirement(it.key, it.operator, it.values) for it in term.match_expressions)
        for term in required.node_selector_terms or ()
    )


def _resources(container: Container) -> ContainerResources:
    return ContainerResources(
        name=container.name,
        requests=_texts(container.resources.requests),
        limits=_texts(container.resources.limits),
        restartable=container.restart_policy == "Always",
    )


def _texts(quantities: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in quantities.items()}
