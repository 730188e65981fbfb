"""Pods for these tests: a good one, changed where a test says so."""

from collections.abc import Mapping
from typing import Any

from annotations import PREFIX, ContainerResources, JobRequest, PodView, Problem, Rules, parse

WEB = ContainerResources(name="web", requests={"cpu": "2", "memory": "1Gi"})


def pod(annotations: Mapping[str, str] | None = None, **changes: Any) -> PodView:
    values: dict[str, Any] = {
        "annotations": {PREFIX + key: value for key, value in (annotations or {}).items()},
        "containers": (WEB,),
        "termination_grace_period_seconds": 20,
    }
    return PodView(**(values | changes))


def accepted(spec: PodView, rules: Rules | None = None) -> JobRequest:
    request = parse(spec, rules or Rules())
    assert isinstance(request, JobRequest), request
    return request


def refused(spec: PodView, rules: Rules | None = None) -> tuple[Problem, ...]:
    problems = parse(spec, rules or Rules())
    assert isinstance(problems, tuple), problems
    assert problems
    return problems


def the_problem(spec: PodView, rules: Rules | None = None) -> Problem:
    (problem,) = refused(spec, rules)
    return problem
