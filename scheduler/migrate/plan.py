"""Decides what is to be done to a document. Nothing here reads a file or the text.

SUNK's pods stay as they are: its annotations and its rules are also those of this scheduler.
slurm-bridge's annotations move from the object around a pod to the pod, under other names. What the
scheduler would then refuse about a pod is noted, in its own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from annotations import PREFIX, JobRequest, Problem, Rules, longest_grace, parse
from annotations.grace import USUAL_GRACE
from scheduler.facts.pod_view import view_of
from scheduler.kube.wire import Pod
from scheduler.migrate import bridge
from scheduler.migrate.bridge_annotations import bridge_annotations
from scheduler.migrate.changes import DocumentChange, Note, Path, Plan, Put, applied, at, mapping_at
from scheduler.migrate.objects import Workload, objects_in, title_of, workload
from scheduler.migrate.values import about_values, wrong_addresses

_GRACE: Final = "terminationGracePeriodSeconds"
_NAME: Final = "schedulerName"
_OURS: Final = "slurm-scheduler"
_LIKE_SUNK: Final = re.compile("slurm|sunk")
_GANG: Final = (
    "pods that start together: they get one Slurm job, unless the pod template has the annotation "
    f"{PREFIX}gang: none"
)
_GANG_OF_JOBSET: Final = (
    "pods that start together: they get one Slurm job, or one for each Job if Jobs wait until "
    f"others are complete, unless the pod templates have the annotation {PREFIX}gang: none"
)
_CLASS: Final = "deviceclass.resource.kubernetes.io/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """How the scheduler here will be set. `scheduler_name` is None if SUNK's pods keep the name
    that they have; `old_names` are further names of the schedulers that it replaces.
    """

    rules: Rules
    scheduler_name: str | None = None
    old_names: frozenset[str] = frozenset()


def plan(data: Any, site: Site) -> Plan:
    """What is to be done to a document."""
    found = Plan(notes=(*wrong_addresses(data), *about_values(data)))
    for path, item in objects_in(data):
        pods = workload(item, path)
        found += _of_group(item, path) if pods is None else _of_workload(data, pods, site)
    return found


def _of_group(item: Mapping[Any, Any], path: Path) -> Plan:
    """An object without pods, such as a PodGroup."""
    own = ("metadata", "annotations")
    found = mapping_at(item, own).items()
    theirs = {str(key): str(it) for key, it in found if str(key).startswith(bridge.PREFIX)}
    title = title_of(item)
    return Plan(
        notes=tuple(
            Note((*path, *own, key), _of_no_pod(key, it), title) for key, it in theirs.items()
        )
    )


def _of_no_pod(key: str, value: str) -> Problem:
    ours = bridge.translated(key.removeprefix(bridge.PREFIX), value)
    if isinstance(ours, Problem):
        return ours
    expected = "it in the pod templates: slurm-bridge also reads this object, this scheduler not"
    return Problem(f"metadata.annotations[{key}]", value, expected)


def _of_workload(data: Any, pods: Workload, site: Site) -> Plan:
    of_bridge = any(_is_bridges(data, pods, template) for template in pods.templates)
    served = of_bridge or any(_is_sunks(data, it, site) for it in pods.templates)
    if served and not pods.known:
        expected = f"a change by hand where pods are: what a {pods.kind} is, is not known here"
        return Plan(notes=(Note(pods.path, Problem("kind", pods.kind, expected), pods.title),))
    moved = bridge_annotations(data, pods) if of_bridge else Plan()
    changes = [*moved.changes]
    for template in pods.templates if served else ():
        changes += _renamed(data, template, site, of_bridge=of_bridge)
        changes += _shortened(data, template, site.rules)
    notes = [*moved.notes, *_outside(data, pods)]
    if served:
        notes += _of_gangs(data, pods)
        notes += _refusals(data, pods, tuple(changes), site.rules)
    return Plan(tuple(changes), tuple(notes))


def _is_bridges(data: Any, pods: Workload, template: Path) -> bool:
    places = (pods.root, (*template, "metadata"))
    named = at(data, (*template, "spec", _NAME)) == bridge.SCHEDULER
    return named or any(
        str(key).startswith(bridge.PREFIX)
        for place in places
        for key in mapping_at(data, (*place, "annotations"))
    )


def _is_sunks(data: Any, template: Path, site: Site) -> bool:
    """Whether SUNK's scheduler serves the pod, or this one already does."""
    name = at(data, (*template, "spec", _NAME))
    found = mapping_at(data, (*template, "metadata", "annotations"))
    if isinstance(name, str) and (name in site.old_names or _LIKE_SUNK.search(name)):
        return True
    return any(str(key).startswith(PREFIX) for key in found)


def _renamed(data: Any, template: Path, site: Site, *, of_bridge: bool) -> Iterator[DocumentChange]:
    path = (*template, "spec", _NAME)
    name, wanted = at(data, path), site.scheduler_name
    if of_bridge:
        # slurm-bridge's webhook gives a name to pods without one.
        theirs = (None, bridge.SCHEDULER, *site.old_names)
        wanted = wanted or (_OURS if name in theirs else None)
    elif name is None:
        return
    if wanted is not None and name != wanted:
        yield Put(path, wanted)


def _shortened(data: Any, template: Path, rules: Rules) -> Iterator[DocumentChange]:
    path, longest = (*template, "spec", _GRACE), longest_grace(rules)
    found = at(data, path)
    grace = USUAL_GRACE if found is None else found
    if rules.grace_policy == "strict" and isinstance(grace, int) and grace > longest >= 0:
        yield Put(path, longest)


def _outside(data: Any, pods: Workload) -> Iterator[Note]:
    """Annotations that stand around the pods, where neither SUNK nor this scheduler reads them."""
    for place in () if pods.root in _of_pods(pods) else (pods.root, *pods.above):
        own = (*place, "annotations")
        where = "spec.template" if pods.kind != "CronJob" else "spec.jobTemplate.spec.template"
        expected = f"it in {where}.metadata.annotations, where it is read"
        found = mapping_at(data, own)
        if place == pods.root:  # slurm-bridge reads its own there
            found = {key: it for key, it in found.items() if str(key).startswith(PREFIX)}
        yield from _misplaced(found, own, expected=expected, of=pods.title)


def _of_pods(pods: Workload) -> tuple[Path, ...]:
    return tuple((*it, "metadata") for it in pods.templates)


def _misplaced(found: Mapping[Any, Any], own: Path, *, expected: str, of: str) -> Iterator[Note]:
    for key, value in found.items():
        if str(key).startswith((bridge.PREFIX, PREFIX)):
            problem = Problem(f"metadata.annotations[{key}]", str(value), expected)
            yield Note((*own, key), problem, of)


def _of_gangs(data: Any, pods: Workload) -> Iterator[Note]:
    """A batch Job of fixed size, whose pods get one Slurm job here. SUNK does so from 7.6 on. And a
    JobSet; neither SUNK nor slurm-bridge takes its pods together.
    """
    if pods.kind == "JobSet":
        yield from _of_jobset(data, pods)
    parallel = ("spec", "parallelism")
    several = at(data, (*pods.path, *parallel)) if pods.kind == "Job" else None
    completions = at(data, (*pods.path, "spec", "completions"))
    if isinstance(several, int) and several > 1 and completions in {None, several}:
        problem = Problem("spec.parallelism", str(several), _GANG)
        yield Note((*pods.path, *parallel), problem, pods.title)


def _of_jobset(data: Any, pods: Workload) -> Iterator[Note]:
    parts = (*pods.path, "spec", "replicatedJobs")
    several = sum(
        _number_at(it, ("replicas",)) * _number_at(it, ("template", "spec", "parallelism"))
        for it in at(data, parts)
    )
    if several > 1:
        problem = Problem("spec.replicatedJobs", f"{several} pods", _GANG_OF_JOBSET)
        yield Note(parts, problem, pods.title)


def _number_at(part: Any, path: Path) -> int:
    found = at(part, path)
    return found if isinstance(found, int) else 1


def _refusals(
    data: Any, pods: Workload, changes: tuple[DocumentChange, ...], rules: Rules
) -> Iterator[Note]:
    """What the scheduler would refuse about the pods after the changes."""
    after = applied(data, changes)
    for template in pods.templates:
        for problem in _pod_problems(at(after, template), rules):
            yield Note(template, problem, pods.title)


def _pod_problems(template: Mapping[Any, Any], rules: Rules) -> Iterable[Problem]:
    found = mapping_at(template, ("metadata", "annotations"))
    read = {key: it for key, it in found.items() if isinstance(it, str) and isinstance(key, str)}
    for key, value in found.items():
        if str(key).startswith((PREFIX, bridge.PREFIX)) and not isinstance(value, str):
            yield Problem(f"metadata.annotations[{key}]", str(value), "a text: put it in quotes")
    yield from _uncounted_devices(template, rules)
    try:
        pod = msgspec.convert({"metadata": {}, "spec": template["spec"]}, Pod)
    except msgspec.ValidationError as error:
        yield Problem("spec", "wrong", f"a pod's spec: {error}")
        return
    request = parse(view_of(pod, read), rules)
    yield from () if isinstance(request, JobRequest) else request


def _uncounted_devices(template: Mapping[Any, Any], rules: Rules) -> Iterator[Problem]:
    """Devices that slurm-bridge counts, and this scheduler does not."""
    for container in at(template, ("spec", "containers")):
        limits = mapping_at(container, ("resources", "limits"))
        for name in map(str, limits):
            if name == "amd.com/gpu" and name not in rules.device_resources:
                expected = f"--device-resources=nvidia.com/gpu=gpu,{name}=gpu, to count it in Slurm"
                yield Problem(f"resources.limits[{name}]", str(limits[name]), expected)
            if name.startswith(_CLASS):
                expected = "the resource of a device plugin: device classes are not in this version"
                yield Problem(f"resources.limits[{name}]", str(limits[name]), expected)
