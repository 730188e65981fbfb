"""From a pod to the job it asks for, or to everything that is wrong with it."""

from collections.abc import Iterator
from typing import Any

from annotations.grace import grace_problems
from annotations.keys import BY_KEY, remedy
from annotations.model import JobRequest, PodSpec, Rules
from annotations.problems import NotAcceptableError, Problem
from annotations.resources import Resources, read_resources


def parse(pod: PodSpec, rules: Rules) -> JobRequest | tuple[Problem, ...]:
    """The job request, or all problems at once: annotations by key, then resources, then grace."""
    fields, problems = _read_annotations(pod, rules)
    resources = read_resources(pod, rules)
    if not isinstance(resources, Resources):
        problems += resources
    problems += grace_problems(pod, rules)
    if problems or not isinstance(resources, Resources):
        return tuple(problems)
    return JobRequest(
        cpus=resources.cpus,
        memory_mib=resources.memory_mib,
        gpus=resources.gpus,
        gres=resources.gres,
        **fields,
    )


def _read_annotations(pod: PodSpec, rules: Rules) -> tuple[dict[str, Any], list[Problem]]:
    # Any: each value has the type of the JobRequest field named beside its reader in the table.
    fields: dict[str, Any] = {}
    problems: list[Problem] = []
    first: dict[str, str] = {}
    for key, name in _ours(pod, rules):
        value = pod.annotations[key]
        twin = first.setdefault(name, key)
        if value != pod.annotations[twin]:
            problems.append(Problem(key, value, f"the value of {twin}, or only one of the two"))
            continue
        definition = BY_KEY.get(name)
        if definition is None:
            problems.append(Problem(key, value, remedy(name)))
            continue
        try:
            fields[definition.field] = definition.kind.read(value)
        except NotAcceptableError as refusal:
            problems.append(Problem(key, value, str(refusal)))
    return fields, problems


def _ours(pod: PodSpec, rules: Rules) -> Iterator[tuple[str, str]]:
    """Keys under our prefixes with the name behind the prefix, in a stable order."""
    for prefix in dict.fromkeys(rules.prefixes):
        for key in sorted(pod.annotations):
            if key.startswith(prefix):
                yield key, key.removeprefix(prefix)
