"""The tables in docs/ say what the code says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from prometheus_client.metrics import MetricWrapperBase

from docs._make.pages import LABELS, TABLES, metrics_table, rewrite, rewritten, settings_table
from scheduler.config.settings import Settings
from scheduler.core.event_reasons import MEANINGS, Reason
from scheduler.observe.metrics import Metrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", TABLES)
def test_document_shows_the_table_as_the_code_has_it(name):
    text = (DOCS / name).read_text(encoding="utf-8")
    assert rewritten(text, TABLES[name]()) == text, "run: make docs"


def test_stale_documents_are_brought_up_to_date(tmp_path):
    for name, table in TABLES.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace(table(), "an old table\n"), encoding="utf-8")
    rewrite(tmp_path)
    for name in TABLES:
        assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes()


def test_document_without_markers_is_refused(tmp_path):
    shutil.copytree(DOCS, tmp_path, dirs_exist_ok=True)
    (tmp_path / "events.md").write_text("# Events\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for the table"):
        rewrite(tmp_path)


def test_table_of_settings_has_a_row_for_each():
    rows = [line for line in settings_table().splitlines() if line.startswith("| `--")]
    assert len(rows) == len(Settings.model_fields)


def test_table_of_metrics_has_a_row_for_each_and_every_label_a_meaning():
    ours = [it for it in vars(Metrics()).values() if isinstance(it, MetricWrapperBase)]
    rows = [line for line in metrics_table().splitlines() if "`slurm_pod_scheduler_" in line]
    assert len(rows) == len(ours)
    assert set(LABELS) == {label for metric in ours for label in metric._labelnames}


def test_every_reason_has_a_meaning_and_a_remedy():
    assert set(MEANINGS) == set(Reason)
    assert all(it.meaning.endswith(".") and it.remedy.endswith(".") for it in MEANINGS.values())


def test_reasons_are_words_that_kubernetes_accepts():
    assert all(re.fullmatch(r"[A-Z][A-Za-z]{0,127}", reason) for reason in Reason)


def test_only_evictions_and_waiting_bear_conditions():
    waiting = {r for r, it in MEANINGS.items() if it.condition == "PodScheduled"}
    assert Reason.SLURM_PENDING in waiting
    evicting = {r for r, it in MEANINGS.items() if it.condition == "DisruptionTarget"}
    assert Reason.PREEMPTED in evicting
    assert all(MEANINGS[reason].kind == "Warning" for reason in evicting)


def test_no_reason_is_written_out_elsewhere():
    """Reasons have one home, so that the table is complete."""
    literal = re.compile("|".join(f'"{reason}"' for reason in Reason))
    files = [
        *(ROOT / "scheduler" / "execute").glob("*.py"),
        *(ROOT / "scheduler" / "core").glob("*.py"),
    ]
    written = [
        it.name for it in files if it.name != "event_reasons.py" and literal.search(it.read_text())
    ]
    assert written == []
