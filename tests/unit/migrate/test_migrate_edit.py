"""Files are changed where they must be, and nowhere else."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.migrate.diff import split_lines, unified
from scheduler.migrate.documents import DEEPEST, MOST_DOCUMENTS, MOST_FILE_BYTES, load_documents
from scheduler.migrate.edit import EditError
from scheduler.migrate.examine import examine
from tests.unit.migrate.manifests import BRIDGE, SITE, SUNK, bridge_job

_WRITTEN = """\
# Nightly.
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 1 * * *"   # at one
  jobTemplate:
    metadata:
      annotations:
        slurmjob.slinky.slurm.net/account: foo   # who pays
        slurmjob.slinky.slurm.net/timelimit: '30'
    spec:
      template:
        metadata:
          annotations:
            # of the site
            site: "x"  # stays

        # the pods
        spec:
          # theirs
          schedulerName: 'slurm-bridge-scheduler'
          containers:
          - name: main
            resources: {requests: {cpu: 1, memory: 1Gi}}
---
# Another.
kind: ConfigMap
"""
_BECOMES = """\
# Nightly.
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: "0 1 * * *"   # at one
  jobTemplate:
    spec:
      template:
        metadata:
          annotations:
            # of the site
            site: "x"  # stays
            sunk.coreweave.com/account: foo   # who pays
            sunk.coreweave.com/timeout: "1800"
            sunk.coreweave.com/exclusive: whole-node

        # the pods
        spec:
          terminationGracePeriodSeconds: 24
          # theirs
          schedulerName: 'slurm-scheduler'
          containers:
          - name: main
            resources: {requests: {cpu: 1, memory: 1Gi}}
---
# Another.
kind: ConfigMap
"""


def changed(text: str) -> str:
    return examine(text.encode(), SITE).new_text


def patched(text: str, diff: str) -> str:
    """The text with a unified diff applied, which must fit it."""
    old, new, at = split_lines(text), [], 0
    lines = split_lines(re.sub(r"\n\\ No newline at end of file\n", "\0", diff))[2:]
    for line in (part for it in lines for part in it.replace("\0", "\0\n").splitlines(True)):
        if line.startswith("@@"):
            first, count = re.findall(r"\d+", line)[:2]
            begin = int(first) - (count != "0")
            new += old[at:begin]
            at = begin
            continue
        content = line[1:].replace("\0\n", "")
        if line[0] in " -":
            assert old[at] == content
            at += 1
        if line[0] in " +":
            new.append(content)
    return "".join([*new, *old[at:]])


def test_comments_order_and_quotes_stay() -> None:
    assert changed(_WRITTEN) == _BECOMES


def test_annotations_stand_behind_what_metadata_has() -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    b: c\n  # the pod\nspec:\n"
    )
    text += "  schedulerName: slurm-bridge-scheduler\n  containers: [{}]\n"
    own = f"  annotations:\n    {SUNK}exclusive: whole-node\n"
    assert f"    b: c\n{own}  # the pod\nspec:\n" in changed(text)


def test_comments_around_annotations_that_move_stay() -> None:
    text = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: |
    j
  annotations:
    # The team that pays.
    slurmjob.slinky.slurm.net/account: a

    # Ask before you raise it.
    slurmjob.slinky.slurm.net/qos: b
spec: {template: {spec: {containers: [{}]}}}
"""
    found = changed(text)
    assert "\n  # The team that pays.\n  # Ask before you raise it.\nspec: " in found
    assert yaml.safe_load(found)["metadata"] == {"name": "j\n"}


@pytest.mark.parametrize("nothing", ["metadata:", "metadata: {annotations: {}}", "metadata: {}"])
def test_comment_that_cannot_go_with_its_value_stays(nothing: str) -> None:
    """Where the value goes, nothing can stand behind it in its line."""
    text = """\
apiVersion: batch/v1
kind: Job
metadata:
  annotations:
    slurmjob.slinky.slurm.net/account: a   # who pays
    slurmjob.slinky.slurm.net/qos: b
    other: c
spec:
  template:
    NOTHING
    spec:
      containers: [{}]
"""
    found = changed(text.replace("NOTHING", nothing))
    assert "  annotations:\n    # who pays\n    other: c\n" in found
    alone = changed(text.replace("NOTHING", nothing).replace("    other: c\n", ""))
    assert "metadata:\n  # who pays\nspec:" in alone or "kind: Job\n# who pays\nspec:" in alone


def test_line_ends_of_another_system_stay() -> None:
    assert changed(_WRITTEN.replace("\n", "\r\n")) == _BECOMES.replace("\n", "\r\n")


def test_file_without_a_last_line_end_stays_one() -> None:
    text = "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a}]}\nmetadata:\n  annotations:\n"
    text += f"    {BRIDGE}qos: a"
    assert changed(text).endswith(f"    {SUNK}qos: a\n    {SUNK}exclusive: whole-node")


def test_json_stays_json() -> None:
    text = json.dumps(bridge_job(account="a", qos="b"), indent=2)
    found = json.loads(changed(text))
    assert found["spec"]["template"]["metadata"]["annotations"][f"{SUNK}account"] == "a"
    assert "annotations" not in found["metadata"]


@pytest.mark.parametrize("nothing", ["", " null", " ~", " {}", " # none\n"])
def test_annotations_that_are_nothing_yet_are_filled(nothing: str) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:" + nothing + "\nspec:\n"
    text += "  schedulerName: slurm-bridge-scheduler\n  containers:\n  - {}\n"
    (pod,) = yaml.safe_load_all(changed(text))
    assert pod["metadata"]["annotations"] == {f"{SUNK}exclusive": "whole-node"}


def test_annotation_in_several_lines_goes_with_all_of_them() -> None:
    text = yaml.safe_dump(bridge_job(qos="b")).replace("qos: b", "qos: >-\n      b\n")
    assert yaml.safe_load(changed(text))["metadata"] == {"name": "j"}


@pytest.mark.parametrize(
    "odd",
    [
        '? "slurmjob.slinky.slurm.net/qos"\n    : a',
        "slurmjob.slinky.slurm.net/qos: !!str a",
        "!!str slurmjob.slinky.slurm.net/qos: &a a",
        "slurmjob.slinky.slurm.net/qos: 7",
    ],
)
def test_odd_writing_is_changed_right_or_refused(odd: str) -> None:
    text = "apiVersion: v1\nkind: Pod\nspec: {containers: [{}]}\nmetadata:\n  annotations:\n"
    with suppress(EditError):
        own = yaml.safe_load(changed(f"{text}    {odd}\n"))["metadata"]["annotations"]
        assert own[f"{SUNK}qos"] in ("a", "7")
        assert f"{BRIDGE}qos" not in own


def test_what_cannot_be_changed_is_told_with_its_line() -> None:
    text = (
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    ? slurmjob.slinky.slurm."
    )
    text += "net/qos\n    : a\n    b: c\nspec: {template: {spec: {containers: [{}]}}}\n"
    with pytest.raises(EditError, match=r"^, line 5: this cannot be changed"):
        changed(text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("slurm: [", ", line 1: expected the node content"),
        ("slurm: 1\nslurm: 2", "line 2: 'slurm' is given twice, first in line 1"),
        ("a: &a slurm\nb: *a", ", line 2: aliases (*name) are not supported"),
        ("slurm: " + "[" * 70 + "]" * 70, f"more than {DEEPEST} levels"),
        ("slurm: {{ .Values.x }}", ", line 1: found unhashable key"),
        ("slurm: !secret x", ", line 1: could not determine a constructor"),
        ("slurm: \0", ": expected text in UTF-8"),
        ("slurm\n---\n" * (MOST_DOCUMENTS + 1), f"more than {MOST_DOCUMENTS} documents"),
        ("slurm: \x01", ": not YAML"),
        ("#slurm\n" + " " * MOST_FILE_BYTES, "larger than 2 MiB"),
    ],
    ids=range(10),
)
def test_what_is_not_taken_is_told(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        load_documents(text.encode())


def test_a_bomb_of_aliases_is_refused() -> None:
    rows = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
    with pytest.raises(ValueError, match="aliases"):
        load_documents("\n".join(["a0: &a0 slurm", *rows]).encode())


def test_bytes_that_are_no_text_are_told() -> None:
    with pytest.raises(ValueError, match="UTF-8"):
        load_documents(b"slurm: \xff")


def test_times_and_merge_keys_are_text_as_in_kubernetes() -> None:
    _, (document,) = load_documents(b"{slurm: 2026-13-45, <<: 1}")
    assert document.data == {"slurm": "2026-13-45", "<<": 1}


def test_numbers_are_those_of_kubernetes() -> None:
    text = b"[slurm, 1:30:00, 1:30.5, =, 0755, -7, 1.5, 1e3]"
    _, (document,) = load_documents(text)
    assert document.data == ["slurm", "1:30:00", "1:30.5", "=", 0o755, -7, 1.5, "1e3"]


def test_time_limit_without_quotes_is_the_time_that_it_shows() -> None:
    text = yaml.safe_dump(bridge_job(timelimit="T")).replace(": T", ": 1:30:00")
    (job,) = yaml.safe_load_all(changed(text))
    own = job["spec"]["template"]["metadata"]["annotations"]
    assert own[f"{SUNK}timeout"] == "5400"


_NAMES = st.sampled_from(
    ["account", "qos", "timelimit", "exclusive", "job-name", "gres", "max-nodes"]
)
_VALUES = st.sampled_from(
    ["1", "a", "no", "1e3", "a: b # c", "it's", '"', "ä\\n", "", "false", "{x"]
)
_OWN = st.dictionaries(_NAMES, _VALUES, max_size=4).map(
    lambda found: {BRIDGE + name: it for name, it in found.items()}
)
_OTHERS = st.dictionaries(
    st.sampled_from(["b", "z", f"{SUNK}account", f"{SUNK}exclusive"]), _VALUES, max_size=2
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A file of one or two Jobs, in any style of YAML."""
    written = []
    for _ in range(draw(st.integers(1, 2))):
        job: dict[str, Any] = bridge_job()
        job["metadata"]["annotations"] = draw(_OWN) | draw(_OTHERS)
        inside = draw(st.none() | st.builds(lambda own, others: own | others, _OWN, _OTHERS))
        if inside is not None:
            job["spec"]["template"]["metadata"] = {"labels": {"a": "b"}, "annotations": inside}
        if draw(st.booleans()):
            del job["spec"]["template"]["spec"]["schedulerName"]
        style = draw(st.sampled_from([None, False, True]))
        quotes = draw(st.sampled_from([None, "'", '"', "|"]))
        width = draw(st.sampled_from([20, 1000]))
        indent = draw(st.sampled_from([2, 4]))
        if draw(st.integers(0, 3)) == 0:
            written.append(json.dumps(job, indent=draw(st.sampled_from([None, 2]))) + "\n")
        else:
            dumped = yaml.safe_dump(
                job,
                default_flow_style=style,
                default_style=quotes,
                width=width,
                indent=indent,
                sort_keys=draw(st.booleans()),
            )
            written.append(dumped)
    return "---\n".join(written)


@settings(max_examples=30)
@given(texts())
def test_change_means_what_is_planned_in_any_style(text: str) -> None:
    examined = examine(text.encode(), SITE)  # reads its own work again, and compares
    again = examine(examined.new_text.encode(), SITE)
    assert not again.edits
    assert patched(text, unified(text, examined.edits, "x")) == examined.new_text


@settings(max_examples=30)
@given(st.integers(0, len(_WRITTEN)), st.text(max_size=3))
def test_damaged_file_is_an_error_at_most(at: int, damage: str) -> None:
    broken = f"{_WRITTEN[:at]}{damage}{_WRITTEN[at + 1 :]}"
    with suppress(ValueError):
        examine(broken.encode(errors="replace"), SITE)
