"""Whatever the scheduler says when something is wrong is found in docs/troubleshooting.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs._make.state_table import answer, situations, standings
from scheduler.core.actions import DropJob, Evict, Submit, Tell, Warn
from scheduler.core.event_reasons import Reason
from scheduler.core.refusal_texts import _MEANINGS
from scheduler.observe.wake import WakeCause

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
PLAIN = " ".join(PAGE.replace("`", "").split())
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ")]
CODES = re.compile(r"`([^`]+)`")

# Who tells something to users of pods, and who stops the process at its start.
TELLERS = (
    *(
        "core/waiting",
        "core/running",
        "core/beside",
        "core/endings",
        "core/stuck",
        "execute/bind",
        "execute/cancel",
        "execute/learn",
        "execute/submit",
        "execute/evict",
        "execute/update",
    ),
    *(
        "core/unknown_unit",
        "core/untagged",
        "execute/untagged",
        "execute/avoid",
        "execute/ending_brake",
        "slurm/kill_wait",
        "nodes/candidates",
        "facts/successors",
    ),
)
STARTERS = (
    *(
        "config/settings",
        "config/values",
        "config/flags",
        "service/app",
        "kube/identity",
        "nodes/map_file",
        "service/known_cluster",
        "core/mapping_strategies",
    ),
    *("hooks/setup", "hooks/secrets", "election/setup", "service/startup"),
)
REFUSALS = {"ValueError", "SettingsError", "ClusterIdError", "MapFileError", "SecretError"}
LEVELS = {"warning", "error", "exception", "critical"}
FEWEST_WORDS = 3
# What is told to nobody: a cause that is only compared, an error that is only logged for debugging.
UNTOLD = {"no Node fits", "the pod is bound to"}


def tree(name: str) -> ast.Module:
    return ast.parse((ROOT / "scheduler" / f"{name}.py").read_text(encoding="utf-8"))


def literals(node: ast.expr) -> list[str]:
    """What is written out of a text, part by part."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return [text for part in node.values for text in literals(part)]
    return []


def stable(node: ast.expr) -> str:
    """The longest part of a text that is always the same; empty for what is no text."""
    found = max(literals(node), key=len, default="")
    return " ".join(found.replace("`", "").strip(" ,;:.()'").split())


def logged() -> Iterator[tuple[str, ast.expr]]:
    """File and event of every log call at level warning and above."""
    for folder in ("scheduler", "slurmapi", "annotations", "groundwork"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in LEVELS
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id in {"log", "logger"}
                ):
                    yield path.name, node.args[0]


def refused_at_the_start() -> Iterator[tuple[str, str]]:
    for name in STARTERS:
        for node in ast.walk(tree(name)):
            call = node.exc if isinstance(node, ast.Raise) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                words = stable(call.args[0]) if call.func.id in REFUSALS else ""
                if " " in words or words.startswith("--"):
                    yield name, words


def told() -> Iterator[tuple[str, str]]:
    """Sentences about pods. Log calls are looked at by themselves, docstrings are for us."""
    for name in TELLERS:
        module = tree(name)
        passed_over = {
            id(inner)
            for node in ast.walk(module)
            if isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."))
            for inner in ast.walk(node)
            if inner is not node or not isinstance(node, ast.JoinedStr)
        }
        for node in ast.walk(module):
            words = stable(node) if isinstance(node, ast.expr) else ""
            if (
                id(node) not in passed_over
                and len(words.split()) >= FEWEST_WORDS
                and words not in UNTOLD
            ):
                yield name, words


def section(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> set[str]:
    cells = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    return {code for cell in cells for code in CODES.findall(cell)}


def shown() -> list[re.Pattern[str]]:
    """The beginnings of texts in the page's tables, where … stands for anything or nothing."""
    texts = {text for row in ROWS for text in CODES.findall(row) if text.count(" ") > 1}
    return [re.compile(re.escape(text).replace("…\\ ", ".*").replace("…", ".*")) for text in texts]


def decided() -> Iterator[str]:
    """What `decide` says of pods in every situation of the state table."""
    for situation in situations():
        for standing in standings():
            for action in answer(situation, standing):
                match action:
                    case Tell(message=text) | Evict(message=text) | Warn(message=text):
                        yield text
                    case Submit(why=text) | DropJob(why=text):
                        yield text
                    case _:
                        pass  # nothing is said


@pytest.mark.parametrize("reason", Reason)
def test_reason_has_a_place(reason):
    assert f"`{reason}`" in PAGE


def test_numbers_of_slurm_are_those_that_are_explained_on_pods():
    assert {int(number) for number in first_cells(section("What Slurm refuses"))} == set(_MEANINGS)


def test_log_events_are_written_out():
    assert [(file, ast.unparse(event)) for file, event in logged() if not literals(event)] == []


def test_events_of_the_log_are_those_of_the_code():
    events = {literals(event)[0] for _, event in logged()}
    assert first_cells(section("In the log")) - {"event"} == events


@pytest.mark.parametrize(("where", "words"), sorted(set(refused_at_the_start())), ids=str)
def test_refusal_at_the_start_has_a_place(where, words):
    assert words in PLAIN, where


@pytest.mark.parametrize("words", ["there is no such setting", "kubeconfig", "in-cluster"])
def test_refusal_of_a_library_or_parser_has_a_place(words):
    assert words in section("The scheduler does not start")


@pytest.mark.parametrize(("where", "words"), sorted(set(told())), ids=str)
def test_sentence_about_a_pod_has_a_place(where, words):
    assert words in PLAIN, where


@pytest.mark.parametrize("text", sorted({it for it in decided() if " " in it}))
def test_what_is_decided_is_found_by_a_row(text):
    assert [pattern for pattern in shown() if pattern.match(text)]


def test_what_is_missing_for_readiness_has_a_place():
    (function,) = (
        node
        for node in ast.walk(tree("service/app"))
        if isinstance(node, ast.FunctionDef) and node.name == "not_ready"
    )
    parts = {
        stable(node)
        for line in function.body[1:]
        for node in ast.walk(line)
        if isinstance(node, ast.expr)
    }
    words = {part for part in parts if len(part.split()) >= FEWEST_WORDS}
    assert len(words) == 4
    assert {it for it in words if it not in PLAIN} == set()


def test_words_of_the_hook_scripts_have_a_place():
    scripts = [
        *(ROOT / "deploy" / "slurm").glob("*.sh"),
        ROOT / "scheduler" / "execute" / "placeholder.sh",
    ]
    said = [
        text
        for script in scripts
        for text in re.findall(r'(?:\bsay|\bgive_up|told=)\s?"(.*?)"', script.read_text())
    ]
    parts = [max(re.split(r"\$\w+|\$\{.*?\}|\$\*", text), key=len).strip(" ,;:()") for text in said]
    words = {part for part in parts if len(part.split()) >= FEWEST_WORDS}
    assert len(words) > FEWEST_WORDS
    assert {it for it in words if it not in PLAIN} == set()


def test_each_cause_of_a_line_in_the_log_has_a_row() -> None:
    assert [it for it in WakeCause if not any(row.startswith(f"| `{it}` |") for row in ROWS)] == []
