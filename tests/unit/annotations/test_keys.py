from dataclasses import fields
from pathlib import Path

import pytest

from annotations import PREFIX, JobRequest
from annotations.__main__ import main, rewritten
from annotations.keys import DEFINITIONS, UNSUPPORTED, table
from tests.unit.annotations.pods import accepted, pod

DOCUMENT = Path(__file__).parents[3] / "docs" / "annotations.md"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.key)
def test_each_example_fills_its_own_field_and_no_other(definition):
    plain = accepted(pod())
    request = accepted(pod({definition.key: definition.example}))
    changed = {
        f.name for f in fields(JobRequest) if getattr(request, f.name) != getattr(plain, f.name)
    }
    assert changed == {definition.field}


def test_table_names_each_annotation_once():
    keys = [definition.key for definition in DEFINITIONS]
    assert len(set(keys)) == len(keys)
    assert not UNSUPPORTED & set(keys)


def test_every_annotation_of_sunk_is_known():
    # facts: the annotation reference of SUNK's schedule page
    sunk = (
        "account comment constraints exclusive excluded-nodes required-nodes partition prefer "
        "priority qos reservation user-id group-id current-working-dir timeout"
    )
    assert set(sunk.split()) <= {definition.key for definition in DEFINITIONS} | UNSUPPORTED


def test_rendered_table_has_a_row_for_each_definition():
    rows = [line for line in table().splitlines() if line.startswith("| `")]
    assert len(rows) == len(DEFINITIONS)
    assert all(row.count("|") == 6 for row in rows)


def test_documentation_shows_the_table_as_the_code_has_it():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert rewritten(text) == text, "run: python -m annotations"
    assert PREFIX in text


def test_stale_document_is_brought_up_to_date(tmp_path):
    text = DOCUMENT.read_text(encoding="utf-8")
    stale = tmp_path / "annotations.md"
    stale.write_text(text.replace(table(), "an old table\n"), encoding="utf-8")
    main([str(stale)])
    assert stale.read_text(encoding="utf-8") == text


def test_document_without_markers_is_refused():
    with pytest.raises(ValueError, match="no place for the table"):
        rewritten("# Annotations\n")
