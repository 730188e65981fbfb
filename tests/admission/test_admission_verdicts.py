"""The API server refuses a pod where the scheduler would, and never where it would not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annotations import PREFIX, Problem, Rules
from annotations.keys import BY_KEY, DEFINITIONS
from tests.admission.oracle import problems
from tests.stories.test_sunk_manifest import SHARED_GPU, WHOLE_NODE
from tests.support import pods
from tests.support.admission import dry
from tests.support.scheduler import SCHEDULER_NAME
from tests.support.value_patterns import matches

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

# Hundreds of dry runs: beside other work those of one test took over 180 s.
pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

RULES: Final = Rules()
# What the parser finds and the policy does not look for, beside the patterns' own `beyond`.
_LEFT_TO_THE_SCHEDULER: Final = (
    "as often as the containers ask for it",
    "with a type, or without one, but not both",
    "no node of ",
)

GOOD: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "requests as limits": {"container": {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}},
    "pod-level requests": {
        "container": {"resources": {}},
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    },
    "requests of an init container": {
        "container": {"resources": {}},
        "initContainers": [
            {
                "name": "init",
                "image": "registry.invalid/anything:1",
                "resources": {"requests": {"cpu": "1m", "memory": "1"}},
            }
        ],
    },
    "grace just short enough": {"grace": 24},
    "GPUs of one user": {"gpus": 1, "slurm": {"exclusive": "user"}},
    "shared without GPUs": {"slurm": {"exclusive": "shared"}},
    "hold with priority 0": {"slurm": {"hold": "true", "priority": "0"}},
    "required and excluded": {"slurm": {"required-nodes": "a[1,3]", "excluded-nodes": "b[2,3]"}},
    "annotations of others": {"annotations": {"example.com/timeout": "1h"}},
    "another scheduler": {"scheduler": "default-scheduler", "grace": 30, "cpus": None},
    **{f"example of {it.key}": {"slurm": {it.key: it.example}} for it in DEFINITIONS},
}
BAD: Final[dict[str, dict[str, Any]]] = {
    "grace of Kubernetes' default": {"grace": 30},
    "grace just too long": {"grace": 25},
    "no cpu": {"cpus": None},
    "no memory": {"memory": None},
    "cpu of 0": {"cpus": "0"},
    "nothing at all": {"cpus": None, "memory": None, "grace": 60},
    "unknown key": {"slurm": {"partitions": "gpu"}},
    "text for a number": {"slurm": {"priority": "high"}},
    "number below": {"slurm": {"user-id": "-1"}},
    "number above": {"slurm": {"priority": "4294967294"}},
    "duration": {"slurm": {"timeout": "1h"}},
    "no time": {"slurm": {"timeout": "0"}},
    "a third kind of exclusive": {"slurm": {"exclusive": "yes"}},
    "two lines": {"slurm": {"comment": "a\nb"}},
    "blank value": {"slurm": {"account": " "}},
    "no value": {"slurm": {"account": ""}},
    "long value": {"slurm": {"comment": "é" * 513}},
    "features twice": {"slurm": {"features": "a", "constraints": "a"}},
    "hold and priority": {"slurm": {"hold": "True", "priority": "+7"}},
    "same node both ways": {"slurm": {"required-nodes": "a,b", "excluded-nodes": "c,b"}},
    "shared GPUs": {"gpus": 1, "slurm": {"exclusive": "ok"}},
    "dependency of any": {"slurm": {"dependency": "afterok:1?afterok:2"}},
    "brackets": {"slurm": {"required-nodes": "a[1-"}},
    "many faults": {"grace": 99, "cpus": None, "slurm": {"nice": "x", "hold": "?", "qos": " a"}},
}


@pytest.mark.parametrize("case", GOOD)
def test_pod_that_the_scheduler_takes_is_created(policies: KubeRig, case: str) -> None:
    body = pods.pod("good", **GOOD[case])
    assert body["spec"]["schedulerName"] != SCHEDULER_NAME or problems(body, RULES) == ()
    answer = dry(policies, body)
    assert answer.status == 201, answer.text


@pytest.mark.parametrize("case", BAD)
def test_pod_that_the_scheduler_refuses_is_not_created_and_all_faults_are_told(
    policies: KubeRig, case: str
) -> None:
    body = pods.pod("bad", **BAD[case])
    found = problems(body, RULES)
    assert found
    answer = dry(policies, body)
    assert answer.status == 422
    for problem in found:
        _is_told(problem, answer.body["message"])


@pytest.mark.parametrize("manifest", [WHOLE_NODE, SHARED_GPU], ids=["whole-node", "shared-gpu"])
def test_manifests_of_sunk_are_created(policies: KubeRig, manifest: str) -> None:
    body = yaml.safe_load(manifest.replace("NAME", "sunk"))
    body["spec"] |= {"schedulerName": SCHEDULER_NAME, "automountServiceAccountToken": False}
    answer = dry(policies, body)
    assert answer.status == 201, answer.text


def _is_told(problem: Problem, message: str) -> None:
    """With its field and value; of long messages the end is left out by nobody."""
    assert problem.field in message
    if len(problem.value) < 40 and problem.value.isprintable():
        assert f"{problem.field} is {problem.value!r}" in message or problem.value == "not set"


def values(key: str) -> st.SearchStrategy[str]:
    """Values that look right, and values near them."""
    pattern = BY_KEY[key].kind.pattern.pattern
    right = st.from_regex(pattern, fullmatch=True, alphabet=_CHARACTERS)
    spoilt = st.tuples(right, st.text(_CHARACTERS, max_size=2), right).map("".join)
    return st.one_of(right, spoilt, st.text(_CHARACTERS, max_size=12), st.sampled_from(_ODD))


_CHARACTERS: Final = st.characters(codec="utf-8")
_ODD: Final = (
    "",
    " ",
    "0",
    "-0",
    "+1",
    "1e3",
    "0x1",
    "true",
    "TRUE",
    "None",
    "1h",
    "\u3000a",
    "a,",
)
asked: Final = st.lists(
    st.sampled_from(sorted(BY_KEY)), min_size=1, max_size=3, unique=True
).flatmap(lambda keys: st.fixed_dictionaries({key: values(key) for key in keys}))


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(slurm=asked, gpus=st.sampled_from([0, 0, 2]))
def test_verdicts_are_the_same_whatever_is_asked_for(
    policies: KubeRig, slurm: dict[str, str], gpus: int
) -> None:
    body = pods.pod("any", slurm=slurm, gpus=gpus)
    found = problems(body, RULES)
    answer = dry(policies, body)
    assert answer.status in {201, 422}, answer.text
    seen = [it for it in found if not _is_left(it)]
    assert (answer.status == 422) >= bool(seen), (seen, answer.text)
    assert (answer.status == 422) <= bool(found), answer.text


def _is_left(problem: Problem) -> bool:
    definition = BY_KEY.get(problem.field.removeprefix(PREFIX))
    beyond = definition is not None and bool(definition.kind.pattern.beyond)
    if beyond and definition is not None and matches(definition.kind.pattern, problem.value):
        return True
    return any(words in problem.expected for words in _LEFT_TO_THE_SCHEDULER)
