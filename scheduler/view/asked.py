"""What a pod asks for, and where in the pod each value comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from annotations.keys import BY_KEY, DEFINITIONS
from annotations.problems import NotAcceptableError
from annotations.quantity import divide_up
from scheduler.kube.clip import clipped
from scheduler.kube.demands import requests_of
from scheduler.kube.wire import Pod, Quantity
from scheduler.view.row import Names
from scheduler.view.table import memory

_MILLI: Final = 1000
_MOST_BYTES: Final = 256
_MOST_ROWS: Final = 64
_MOST_PATHS: Final = 3
# Without these a pod gets something that people ask about.
_SHOWN_UNSET: Final = ("partition", "account", "qos", "timeout", "user-id")
_DEFAULT: Final = re.compile(r"Without (?:it|both): ([^.;,]+)")


@dataclass(frozen=True, slots=True)
class AskedFor:
    """One thing that the pod asks for. `value` is "" for what it leaves out; then `source` says
    what it gets. `problem` says why the value is not acceptable.
    """

    what: str
    value: str
    source: str
    problem: str = ""


def asked(pod: Pod, names: Names) -> tuple[AskedFor, ...]:
    """All of it, at most _MOST_ROWS: a pod may have thousands of annotations."""
    return (*_asked_amounts(pod, names), *islice(_annotations(pod, names), _MOST_ROWS), *_spec(pod))


def annotation_keys(pod: Pod, names: Names) -> dict[str, str]:
    """The pod's annotations under the site's prefixes, each with its name behind the prefix."""
    return {
        key: key.removeprefix(prefix)
        for prefix in names.prefixes
        for key in sorted(pod.metadata.annotations)
        if key.startswith(prefix)
    }


def _asked_amounts(pod: Pod, names: Names) -> Iterator[AskedFor]:
    """CPUs, memory and GPUs, counted as for the job."""
    amounts = dict(requests_of(pod))
    counted = {
        "cpu": ("cpus", str(divide_up(amounts.get("cpu", 0), _MILLI))),
        "memory": ("memory", memory(amounts.get("memory", 0))),
        **{it: ("gpus", str(amounts.get(it, 0))) for it in sorted(names.gpus)},
    }
    for resource, (what, value) in counted.items():
        if resource in amounts:
            yield AskedFor(what, value, _paths(pod, resource))
        elif resource not in names.gpus:
            yield AskedFor(what, "", "no container requests any, and a job needs some")


def _paths(pod: Pod, resource: str) -> str:
    """The fields of the pod that request the resource."""
    found = list(_requesting(pod, resource))
    more = len(found) - _MOST_PATHS
    return ", ".join(found[:_MOST_PATHS]) + (f" and {more} more" if more > 0 else "")


def _requesting(pod: Pod, resource: str) -> Iterator[str]:
    spec = pod.spec
    whole: Mapping[str, Quantity] = {} if spec.resources is None else spec.resources.requests
    if resource in whole:
        yield f"spec.resources.requests.{resource}"
    else:
        for kind, containers in (
            ("initContainers", spec.init_containers),
            ("containers", spec.containers),
        ):
            for it in containers:
                if resource in it.resources.requests:
                    yield f"spec.{kind}[{it.name}].resources.requests.{resource}"
    if resource in spec.overhead:
        yield f"spec.overhead.{resource}"


def _annotations(pod: Pod, names: Names) -> Iterator[AskedFor]:
    keys = annotation_keys(pod, names)
    for key, name in keys.items():
        value = clipped(pod.metadata.annotations[key], _MOST_BYTES)
        problem = _problem(name, pod.metadata.annotations[key])
        yield AskedFor(clipped(name, _MOST_BYTES), value, f"annotation {key}", problem)
    given = {BY_KEY[name].field for name in keys.values() if name in BY_KEY}
    if pod.spec.active_deadline_seconds is not None:
        given.add(BY_KEY["timeout"].field)
    for definition in DEFINITIONS:
        if definition.key in _SHOWN_UNSET and definition.field not in given:
            default = _DEFAULT.search(definition.description)
            yield AskedFor(definition.key, "", f"default: {default[1] if default else 'none'}")


def _problem(name: str, value: str) -> str:
    definition = BY_KEY.get(name)
    if definition is None:
        return "not the name of an annotation"
    try:
        definition.kind.read(value)
    except NotAcceptableError as refusal:
        return f"expected {refusal}"
    return ""


def _spec(pod: Pod) -> Iterator[AskedFor]:
    """What else of the spec decides about the job or its node."""
    spec = pod.spec
    if spec.active_deadline_seconds is not None:
        yield AskedFor(
            "time limit", f"{spec.active_deadline_seconds} s", "spec.activeDeadlineSeconds"
        )
    grace = f"{spec.termination_grace_period_seconds} s"
    yield AskedFor("grace period", grace, "spec.terminationGracePeriodSeconds")
    for key, value in islice(sorted(spec.node_selector.items()), _MOST_PATHS):
        yield AskedFor("node label", f"{key}={value}", "spec.nodeSelector")
    terms = spec.wishes.terms
    if terms is not None:
        yield AskedFor("node affinity", f"one of {len(terms)} terms", "spec.affinity.nodeAffinity")
    for gate in spec.scheduling_gates[:_MOST_PATHS]:
        yield AskedFor("scheduling gate", gate.name, "spec.schedulingGates")
