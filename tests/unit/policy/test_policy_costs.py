"""What a policy file costs, however large or wrong it is: text, memory, and time of the loop."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from scheduler.kube.wire import ObjectMeta, Pod, PodSpec
from scheduler.policy.file import MOST_FAULTS, MOST_RULES, PolicyError, understood
from scheduler.policy.rulebook import Rulebook
from tests.support.at_rest import write_at_rest
from tests.support.costs import cpu_seconds, least_cpu_seconds, measured
from tests.unit.policy.policies import PATH, PREFIX, policy
from tests.unit.policy.test_policy_watch import Watched

LONGEST_TEXT = 2048 + MOST_FAULTS * len(str(PATH))


def rules(count: int) -> str:
    """A rule for each namespace, and one for all."""
    each = (f"- {{name: r{n}, namespaces: [ns-{n}], forced: {{qos: q{n}}}}}" for n in range(count))
    return "\n".join(["rules:", *each])


def refusal(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        understood(PATH, text.encode())
    return str(caught.value)


def test_aliases_are_refused_before_they_are_expanded() -> None:
    """491 bytes of these gave an error of 3.9 MB."""
    bomb = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 9)]
    with measured() as cost:
        error = refusal("\n".join([*bomb, "rules: *a8"]))
    assert "aliases" in error
    assert "line 2" in error
    assert cost.peak_bytes < 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        "rules: [" + ", ".join(["7"] * 4000) + "]",
        "rules: [" + ", ".join(f"{{name: r{n}, forced: {{no{n}: 1}}}}" for n in range(2000)) + "]",
        "rules: [{name: r, forced: {" + ", ".join(f"n{n}: 1" for n in range(5000)) + "}}]",
        "x" * 100_000 + ": 1",
        "{" + "x" * 100_000 + ": 1, " + "x" * 100_000 + ": 2}",
        "rules: " + "[" * 100_000,
        "rules: [{name: " + "n" * 500_000 + ", forced: {qos: a}}]",
        "! " * 1000,
    ],
)
def test_whatever_is_wrong_is_told_in_two_kilobytes(text: str) -> None:
    assert len(refusal(text).encode()) <= LONGEST_TEXT


def test_first_faults_are_told_and_the_others_counted() -> None:
    error = refusal("rules: [" + ", ".join(["7"] * 100) + "]").splitlines()
    assert len(error) == MOST_FAULTS + 1
    assert error[-1].endswith(f"and {100 - MOST_FAULTS} more faults")


def test_more_rules_than_the_bound_are_refused_with_it() -> None:
    assert f"expected at most {MOST_RULES}" in refusal(
        "rules: [" + ", ".join(["{}"] * (MOST_RULES + 1)) + "]"
    )


def cost_of(count: int) -> float:
    """Of judging many pods of one namespace."""
    book = Rulebook(prefixes=(PREFIX,), policy=policy(rules(count)))
    meta = ObjectMeta(name="p", namespace="ns-0", uid="u", annotations={PREFIX + "qos": "high"})
    pod = Pod(metadata=meta, spec=PodSpec())
    return least_cpu_seconds(lambda: [book.judge(pod) for _ in range(200)])


def test_thousand_rules_cost_a_pod_little_more_than_one() -> None:
    assert cost_of(1000) < 4 * cost_of(1)


async def test_large_file_is_read_beside_the_loop(tmp_path: Path) -> None:
    """8000 rules stopped it for 3.4 s."""
    watched = Watched(tmp_path / "policy.yaml")
    write_at_rest(watched.path, rules(800))
    began = time.process_time()
    with cpu_seconds() as of_the_loop:
        await watched.look()
    assert len(watched.rules) == 800
    assert of_the_loop[0] < 0.2 * (time.process_time() - began)
