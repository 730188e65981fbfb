"""The page about policies and the examples are policies that do what is said of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler.config.settings import Settings, SettingsError
from scheduler.policy.file import read_policy
from scheduler.service.startup import run
from tests.unit.policy.policies import effective, told, verdict

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/policy.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "deploy/examples").glob("policy*.yaml"))
FENCES = re.findall(r"^```yaml\n(rules:.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLE = next(it for it in FENCES if "name: everybody" in it)
ROWS = re.findall(r"^\| `(\w+)` \| `?(\w*)`? *\| `?([^`|]*?)`? *\| ([^|]*) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_is_a_policy(path):
    assert read_policy(path).rules


def test_there_are_examples():
    assert EXAMPLES
    assert len(FENCES) == 5
    assert len(ROWS) == 7


@pytest.mark.parametrize("text", FENCES)
def test_policy_of_the_page_can_be_taken(text):
    verdict(text)


@pytest.mark.parametrize(("namespace", "priority_class", "asked", "outcome"), ROWS)
def test_example_of_the_page_does_what_is_said(namespace, priority_class, asked, outcome):
    given = dict(word.split("=", 1) for word in asked.split())
    found = verdict(EXAMPLE, namespace, priority_class=priority_class, **given)
    refused = re.fullmatch(r"refused by `(\w+)`", outcome)
    if refused:
        assert [it.rule for it in found.problems] == [refused[1]]
    else:
        words = dict(word.split("=", 1) for word in outcome.strip("`").split())
        assert effective(found) == words
        assert not found.problems


def test_refusal_of_the_page_is_what_is_told():
    (text,) = told(verdict(EXAMPLE, "physics", partition="gpu,secret"))
    assert text in PAGE


async def test_message_of_the_page_is_what_a_broken_file_gives_at_the_start(tmp_path):
    (line,) = re.findall(r"^--policy-file: (\S+): (.*)$", PAGE, re.MULTILINE)
    path = tmp_path / "policy.yaml"
    path.write_text("rules: [{name: physics, allowed: {timeout: {max: 1d}}}]")
    with pytest.raises(SettingsError) as caught:
        await run(Settings.model_validate({"policy-file": path}))
    assert str(caught.value) == f"--policy-file: {path}: {line[1]}"
