"""The threat model's page names a test in each row, and its numbers are those of the code.

That the tests which it names exist is seen by test_docs.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from annotations import gpu_type, node_list
from scheduler.core import actions
from scheduler.execute import claim_budget, edit_pace, tell
from scheduler.facts import list_lengths
from scheduler.hooks import api as hooks
from scheduler.kube import clip, of_pod, pages, recorder, reflector, session, slim, wire
from scheduler.listen import acceptor, listener, places
from scheduler.nodes import surveyor, vanished_pods
from scheduler.nodes.presence import CLAIM_SECONDS
from scheduler.policy import file as policy
from scheduler.state.pod_remains import KUBELET_SECONDS
from tests.unit.kube.test_hostile_pods import MOST_CALLS as MOST_CALLS_FOR_A_POD
from tests.unit.kube.test_kept_objects import MOST_CLAIM_BYTES, MOST_NAMESPACE_BYTES
from tests.unit.kube.test_pod_budget import BUDGET_BYTES, ORDINARY_BYTES
from tests.unit.service.test_connections import MOST_CALLS

PAGE = (Path(__file__).parents[2] / "docs/threat-model.md").read_text(encoding="utf-8")
KIB = 1024


def section(heading: str) -> str:
    return re.split(r"\n#+ ", PAGE.partition(f"# {heading}\n")[2])[0]


def rows(text: str) -> list[list[str]]:
    """The cells of each row of its tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line, below in zip(lines, [*lines[1:], ""], strict=True)
        if not (line.startswith("|-") or below.startswith("|-"))
    ]


def a_second(each_seconds: float) -> str:
    return {0.5: "two", 0.25: "four"}[each_seconds]


OF_A_POD = {
    "memory for what is kept of a pod": (
        f"{slim.MOST_POD_BYTES // KIB} KiB of its metadata and spec, "
        f"{BUDGET_BYTES // KIB} KiB with",
        f"an ordinary pod takes below {ORDINARY_BYTES // KIB} KiB",
        f"keep {of_pod.MOST_KEPT} pods each",
    ),
    "time of the loop to read": (f"{MOST_CALLS_FOR_A_POD:_} function calls".replace("_", " "),),
    "lists and watches of large objects": (
        f"{session.LONGEST_LINE // KIB // KIB} MiB for a line of a watch",
        f"{pages.MOST_PAGE_BYTES // KIB // KIB} MiB an answer",
        f"{reflector.TURN_BYTES // KIB} KiB of JSON in a turn",
    ),
    "memory for a claim": (
        f"{MOST_CLAIM_BYTES // KIB} KiB of a claim",
        f"of a Namespace {MOST_NAMESPACE_BYTES // KIB} KiB, "
        f"for its first {wire.MOST_NAMESPACE_LABELS} labels",
    ),
    "pods that were deleted by force": (
        f"{vanished_pods.MOST_BOUND} per namespace",
        f"for its grace period plus {KUBELET_SECONDS:.0f} s",
        f"the bounds are {vanished_pods.MOST_CLAIMED} pods and "
        f"{CLAIM_SECONDS + KUBELET_SECONDS:.0f} s each",
    ),
    "keys and values": (str(slim.MOST_WORDS),),
    "comparing a template": (
        f"{list_lengths.MOST_NODE_EXPRESSIONS} expressions in {list_lengths.MOST_NODE_TERMS} terms",
        f"with their values {list_lengths.MOST_NODE_WORDS}; "
        f"{list_lengths.MOST_TOLERATIONS} tolerations",
        f"{surveyor.SLICE_ITEMS} items in a turn of the loop",
        f"then {surveyor.PAUSE_SECONDS * 1000:g} ms for all else",
        f"Of one namespace {surveyor.MOST_WAITING} templates wait",
    ),
    "finding the GPU type": (f"more than {gpu_type.LONGEST_LABEL} characters",),
    "node names": (
        f"{node_list.MOST_NAMES}, of {node_list.MOST_NAMES_BYTES // KIB} KiB in all",
        f"a digest of {len(actions.Readmit(1, ('n1',)).digest)} bytes",
    ),
    "text of a condition": (f"{clip.MOST_TEXT_BYTES // KIB} KiB, and {tell.MOST_PROBLEMS} faults",),
    "edits that reach Slurm": (
        f"{edit_pace.POD_EDITS[0]} at once, then one each {edit_pace.POD_EDITS[1]:g} s",
        f"of a namespace {edit_pace.NAMESPACE_EDITS[0]} and "
        f"{a_second(edit_pace.NAMESPACE_EDITS[1])} a second",
        f"of all {edit_pace.ALL_EDITS[0]} and {a_second(edit_pace.ALL_EDITS[1])} a second",
    ),
    "looks at jobs that pods name": (
        f"of one namespace {claim_budget.NAMESPACE_CLAIMS[0]} at once, "
        f"then {1 / claim_budget.NAMESPACE_CLAIMS[1]:g} a",
        f"from {claim_budget.START_SECONDS:g} s after the start on",
    ),
    "Events that wait": (f"{recorder.CAPACITY} in all",),
    "delay of all Events": (f"{recorder.YIELD_SECONDS:g} s for each, from when it was recorded",),
    "Events of one object": (
        f"{recorder.OBJECT_BURST}, then one each {recorder.OBJECT_SECONDS / 60:g} minutes",
    ),
    "a policy file": (
        f"{policy.MOST_RULES}, {policy.MOST_POLICY_BYTES // KIB // KIB} MiB, "
        f"{policy.MOST_FAULTS} lines",
    ),
}
OF_A_CONNECTION = {
    "kept at a time, of callers": (
        f"metrics and probes {listener.FACE.strangers} each",
        f"hooks {listener.HOOKS.strangers}, over TLS {listener.HOOKS_TLS.strangers}",
    ),
    "of these": (f"said nothing for {places.STRANGER_KEPT_SECONDS:g} s",),
    "kept at a time in all": (
        f"{2 * hooks.MOST_WAITS} questions that wait, {hooks.MOST_WAITS} of each kind",
        f"{hooks.MOST_WAITS_OF_A_UNIT} about one pod",
    ),
    "time": (
        f"{listener.HANDSHAKE_SECONDS:g} s for a TLS handshake",
        f"{listener.STRANGER_SECONDS:g} s until a request with a known token is there",
        f"{listener.KNOWN_SECONDS:g} s in all",
    ),
    "CPU time": (
        f"below {MOST_CALLS} function calls",
        f"{acceptor.MOST_A_TURN} connections in a turn of the loop",
        f"then {acceptor.REST_SECONDS * 1000:g} ms for all else",
        f"{acceptor.REQUEST_REST_SECONDS * 1000:g} ms without new connections for each",
    ),
    "memory": (
        f"({listener.MOST_FIELDS} fields of at most {listener.LONGEST_FIELD // KIB} KiB)",
        f"up to {listener.MOST_FIELDS * listener.LONGEST_FIELD // KIB} KiB for a head",
        f"{hooks.LARGEST_BODY // KIB} KiB for a body",
    ),
    "log": (f"{listener.ERROR_LINES} lines a minute",),
}


def test_every_row_names_a_test() -> None:
    found = rows(PAGE)
    assert len(found) > 50
    assert [row[0] for row in found if not re.search(r"`test_\w+`", row[-1])] == []


@pytest.mark.parametrize(
    ("heading", "what", "words"),
    [
        (heading, what, words)
        for heading, table in (
            ("What one pod may cost", OF_A_POD),
            ("What a connection may cost", OF_A_CONNECTION),
        )
        for what, texts in table.items()
        for words in texts
    ],
)
def test_number_is_that_of_the_code(heading: str, what: str, words: str) -> None:
    (bound,) = [row[1] for row in rows(section(heading)) if row[0].startswith(what)]
    assert words in bound
