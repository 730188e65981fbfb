"""Reads what pods ask for: their annotations and resources, with the site's policy applied."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from annotations import JobRequest, PodView, Problem, Rules, longest_grace, parse
from scheduler.core.facts import Remark
from scheduler.core.naming import OWN_PREFIX
from scheduler.core.node_gres import types_of
from scheduler.core.owner_tag import Owner
from scheduler.core.uncharged import uncharged
from scheduler.facts.caches import Caches
from scheduler.facts.grace_rule import GraceRule
from scheduler.facts.list_lengths import excess
from scheduler.facts.pod_view import kept_sizes, view_of
from scheduler.facts.readings import Readings
from scheduler.facts.requirements import Requirements
from scheduler.kube.of_pod import OfPod
from scheduler.kube.wire import Pod, PodSpec
from scheduler.policy.rulebook import Rulebook
from scheduler.slurm.slurmctld import Slurmctld
from scheduler.state.units import Unit

# How many templates are remembered, so that a few tenants may create pods at the same time.
_TEMPLATES_AT_ONCE: Final = 8


class Reading(msgspec.Struct, frozen=True):
    """A pod's request, or the problems with it; remarks about it; and why a running pod would be
    `refused` now. The lists of a `bulky` pod are too long to be compared with Nodes. `placed` says
    that it was read as that of a pod on a Node.
    """

    request: JobRequest | tuple[Problem, ...]
    remarks: tuple[Remark, ...] = ()
    refused: tuple[Problem, ...] = ()
    bulky: bool = False
    placed: bool = False


NOTHING = Reading(())
"""For a unit without a pod."""


class RequestReader:
    """Reads the requests of pods. Parsing is costly, so the last result of each pod is kept."""

    def __init__(
        self,
        caches: Caches,
        *,
        requirements: Requirements,
        rules: Rules,
        grace: GraceRule,
        owner: Owner,
        slurmctld: Slurmctld,
    ) -> None:
        self._rulebook = caches.rulebook
        self._nodes = caches.nodes
        self._requirements = requirements
        self._rules = rules
        self._grace = grace
        self._owner = owner
        self._slurmctld = slurmctld
        self._excess = OfPod(excess)
        self._longest_by_kill_wait = longest_grace(rules)
        self._parse = _Parser(self._rulebook)
        self._readings = Readings(self._parse)

    def use_kill_wait(self, seconds: int | None) -> None:
        """Judge grace periods by this KillWait from now on; with None, judge none."""
        self._grace.kill_wait_known = seconds is not None
        if seconds is not None:
            self._rules = replace(self._rules, kill_wait_seconds=seconds)
            self._longest_by_kill_wait = longest_grace(self._rules)
        self._readings = Readings(self._parse)

    @property
    def longest_grace(self) -> int | None:
        """The longest grace period that a pod may have, in seconds; None if any is accepted."""
        rules = self._grace.now(self._rules)
        return None if rules.grace_policy == "guarded" else longest_grace(rules)

    def rules_for(self, unit: Unit) -> Hashable:
        """A value that changes when unchanged pods of the unit may be read differently, except for
        their volumes: whoever changes those has the unit handled once more.
        """
        rules = self._grace.now(self._rules, has_job=unit.job is not None)
        return (
            self._rulebook.edition(unit.namespace),
            self._gpu_types(unit),
            (rules.grace_policy, rules.guarded_grace_seconds, rules.kill_wait_seconds),
            self._slurmctld.accounting_storage,
            self._requirements.readable,
        )

    def forget(self, uid: str) -> None:
        """Drop what was read of a pod that is gone."""
        self._readings.forget(uid)

    def read(self, pod: Pod, unit: Unit) -> Reading:
        """The request of the unit's pod. Requirements that nobody would honour are problems of a
        pod that is not on a Node yet.
        """
        if pod.spec.node_name:
            return self._read(pod, unit)
        bulky = self._excess(pod)
        if bulky is None:
            return self._required(pod, self._read(pod, unit))
        return replace(_oversize_reading(pod) or Reading((bulky,)), bulky=True)

    def read_template(self, pod: Pod) -> JobRequest | tuple[Problem, ...]:
        """What the pods of a template ask for. `pod` is that template, in the form of a pod.
        Nothing of it is kept.
        """
        large = excess(pod)
        if large is not None:
            return (large,)
        if (reading := _oversize_reading(pod)) is None:
            rules = self._grace.now(self._rules)
            spec = _Spec(pod, None, rules, gpu_types=self._nodes.gpu_types)
            reading = self._parse(spec)
        return reading.request

    def read_use(self, pod: Pod, unit: Unit) -> JobRequest | None:
        """What a pod on a Node uses there: what it asks for or, if its annotations are wrong, what
        its spec alone asks for. None if that cannot be read either.
        """
        request = self._read(pod, unit).request
        if isinstance(request, JobRequest):
            return request
        if _oversize_reading(pod) is not None:
            return None
        return self._parse.without_annotations(self._spec(pod, unit))

    def _read(self, pod: Pod, unit: Unit) -> Reading:
        if (large := _oversize_reading(pod)) is not None:
            return large
        return self._readings.of(pod.metadata.uid, self._spec(pod, unit))

    def _spec(self, pod: Pod, unit: Unit) -> _Spec:
        edition = self._rulebook.edition(pod.metadata.namespace)
        rules = self._rules
        if pod.spec.termination_grace_period_seconds > self._longest_by_kill_wait:
            rules = self._grace.now(rules, has_job=unit.job is not None)
        return _Spec(pod, edition, rules, gpu_types=self._gpu_types(unit))

    def _required(self, pod: Pod, reading: Reading) -> Reading:
        """The reading, with requirements that nobody would honour added as problems."""
        request, remarks = reading.request, reading.remarks
        if isinstance(request, JobRequest) and (
            more := uncharged(request, self._slurmctld.accounting_storage)
        ):
            remarks = (*remarks, *more)
        problems, passed = self._requirements.judge(pod)
        if not problems and not passed and remarks is reading.remarks:
            return reading
        if problems:
            known = () if isinstance(request, JobRequest) else request
            request = (*known, *problems)
        return replace(reading, request=request, remarks=(*remarks, *passed))

    def _gpu_types(self, unit: Unit) -> frozenset[str] | None:
        """The types of GPUs that Slurm has, and the one that the unit's own job was submitted with.
        Without the latter, a waiting job would seem to have another request if the nodes with its
        type are away when this process starts.
        """
        known = self._nodes.gpu_types
        record = None if unit.job is None else unit.job.record
        if known is None or record is None:
            return known
        own = types_of(record.gres.replace("gres/", ""), name="gpu")
        # Nearly always there is nothing to add, so ownership is checked only if there is.
        return known if own <= known or not unit.owns(record, owner=self._owner) else known | own


def _oversize_reading(pod: Pod) -> Reading | None:
    """The problem of a pod of which only the size was kept; None for any other. A pod on a Node
    whose containers were kept is read all the same.
    """
    large = pod.oversize
    if large is None or (pod.spec.node_name and pod.spec.containers):
        return None
    return Reading((Problem(large.part, large.size, large.most),))


class _Spec:
    """The part of a pod that the parser reads. Two with the same key give the same reading, if both
    are on a Node or neither is.
    """

    __slots__ = ("gpu_types", "key", "placed", "pod", "rules")

    def __init__(
        self, pod: Pod, edition: Hashable, rules: Rules, *, gpu_types: frozenset[str] | None
    ) -> None:
        self.pod = pod
        self.placed = bool(pod.spec.node_name)
        self.rules = rules
        self.gpu_types = gpu_types
        # The grace period is immutable. Annotations change often, but mostly ours. Resources change
        # by pods/resize, selector and affinity while a scheduling gate holds the pod.
        spec = pod.spec
        self.key: Hashable = (
            edition,
            gpu_types,
            rules.grace_policy,
            rules.guarded_grace_seconds,
            pod.metadata.uid,
            spec.active_deadline_seconds,
            spec.affinity and spec.affinity.node_affinity,
            _resource_key(spec),
            *((name, *it.items()) for name, it in kept_sizes(pod).items()),
            *sorted(spec.node_selector.items()),
            *sorted(_author_annotations(pod.metadata.annotations)),
        )

    def takes(self, reading: Reading) -> bool:
        """A pod on a Node is judged less strictly. So what a waiting pod was allowed to ask for is
        also the reading of the bound one.
        """
        accepted = isinstance(reading.request, JobRequest)
        return reading.placed == self.placed or (self.placed and accepted)


def _resource_key(spec: PodSpec) -> Hashable:
    parts = [it.resources for it in (*spec.init_containers, *spec.containers)]
    if spec.resources is not None:
        parts.insert(0, spec.resources)
    return tuple([(*it.requests.items(), None, *it.limits.items()) for it in parts])


def _author_annotations(found: Mapping[str, str]) -> list[tuple[str, str]]:
    """The annotations that the author writes. The pod cache keeps only those with our prefixes
    (`kube/slim.py`).
    """
    return [item for item in found.items() if not item[0].startswith(OWN_PREFIX)]


class _Parser:
    """Runs `annotations.parse` for a pod as Kubernetes sends it, with the site's policy applied.

    Pods of one template come one after another, and nothing in them differs that the parser reads.
    So they share the request of the first.
    """

    def __init__(self, rulebook: Rulebook) -> None:
        self._rulebook = rulebook
        self._recent = deque[tuple[PodView, Rules, JobRequest]](maxlen=_TEMPLATES_AT_ONCE)

    def __call__(self, spec: _Spec) -> Reading:
        return replace(self._reading(spec), placed=spec.placed)

    def _reading(self, spec: _Spec) -> Reading:
        verdict = self._rulebook.judge(spec.pod)
        if isinstance(verdict, Problem):
            return Reading((verdict,))
        request = self._parsed(view_of(spec.pod, verdict.annotations), _rules_for(spec))
        if not isinstance(request, JobRequest):
            return Reading((*request, *verdict.problems), verdict.remarks)
        if spec.placed:
            return Reading(request, verdict.remarks, refused=verdict.problems)
        return Reading(verdict.problems or request, verdict.remarks)

    def without_annotations(self, spec: _Spec) -> JobRequest | None:
        """What the pod's spec alone asks for; None if that cannot be read."""
        found = self._parsed(view_of(spec.pod, {}), _rules_for(spec))
        return found if isinstance(found, JobRequest) else None

    def _parsed(self, view: PodView, rules: Rules) -> JobRequest | tuple[Problem, ...]:
        for recent, by, request in self._recent:
            if recent == view and by == rules:
                return request
        found = parse(view, rules)
        if isinstance(found, JobRequest):
            self._recent.appendleft((view, rules, found))
        return found


def _rules_for(spec: _Spec) -> Rules:
    """The rules for this pod. The grace period of a running pod was accepted before, so it must not
    prevent a new job for its node.
    """
    return replace(
        spec.rules,
        known_gpu_types=spec.gpu_types,
        grace_policy="guarded" if spec.placed else spec.rules.grace_policy,
    )
