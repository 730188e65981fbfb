import re

import pytest
from msgspec.structs import fields

from annotations import JobRequest
from annotations.keys import DEFINITIONS
from docs._make.pages import annotations_table
from tests.unit.annotations.pods import accepted, pod

_CELL_END = re.compile(r"(?<!\\)\|")
_FOLLOWERS = {"user_id": {"group_id"}}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.key)
def test_each_example_fills_its_own_field_and_no_other(definition):
    plain = accepted(pod())
    request = accepted(pod({definition.key: definition.example}))
    changed = {
        f.name
        for f in fields(JobRequest)
        if f.name not in JobRequest.ASIDE and getattr(request, f.name) != getattr(plain, f.name)
    }
    own = {definition.field} if definition.of_job else set()
    assert changed - _FOLLOWERS.get(definition.field, set()) == own


def test_table_names_each_annotation_once():
    keys = [definition.key for definition in DEFINITIONS]
    assert len(set(keys)) == len(keys)


def test_every_annotation_of_sunk_is_known():
    # facts: the annotation reference of SUNK's schedule page
    sunk = (
        "account comment constraints exclusive excluded-nodes required-nodes partition prefer "
        "priority qos reservation user-id group-id current-working-dir timeout"
    )
    assert set(sunk.split()) == {definition.key for definition in DEFINITIONS if definition.sunk}


def test_rendered_table_has_a_row_for_each_definition():
    rows = [line for line in annotations_table().splitlines() if line.startswith("| `")]
    assert len(rows) == len(DEFINITIONS)
    assert all(len(_CELL_END.findall(row)) == 7 for row in rows)
