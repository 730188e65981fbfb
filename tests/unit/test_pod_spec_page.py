"""The page about a pod's spec has a row for all that the scheduler reads and may refuse."""

from __future__ import annotations

import msgspec
import pytest

from docs._make.pod_spec import ROWS, SERVED, verdict
from scheduler.core.ignorable import IGNORABLE
from scheduler.kube.wire import PodSpec


def test_each_field_that_is_read_has_one_row():
    fields = {it.name for it in msgspec.structs.fields(PodSpec)}
    told = [name for row in ROWS for name in row.reads]
    assert sorted(told) == sorted(fields)


def test_each_requirement_that_a_site_may_have_ignored_has_its_row():
    assert {row.ignorable for row in ROWS if row.ignorable} == set(IGNORABLE)


@pytest.mark.parametrize("row", [it for it in ROWS if it.ignorable], ids=lambda row: row.part)
def test_what_may_be_ignored_is_refused_without_rights(row):
    assert verdict(row.spec, rights=False) != SERVED


@pytest.mark.parametrize("row", [it for it in ROWS if it.unchecked], ids=lambda row: row.part)
def test_what_is_not_checked_is_not_refused(row):
    assert verdict(row.spec, rights=False) == verdict(row.spec, rights=True) == SERVED
