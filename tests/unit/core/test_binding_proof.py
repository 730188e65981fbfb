"""What shows that a pod got its node from Slurm, and what its author could have written."""

from __future__ import annotations

import pytest

from scheduler.core.binding_proof import proves_binding
from scheduler.core.owner_tag import Owner
from scheduler.core.tagged import TaggedJob
from slurmapi import BaseState
from tests.unit.core.things import KEY, OURS, record, tag


@pytest.mark.parametrize(
    ("job", "proves"),
    [
        (record(), True),
        (record(BaseState.TIMEOUT), True),
        (record(BaseState.PENDING, nodes=()), True),
        (record(admin_comment=tag(node="n1")), True),
        (record(BaseState.PENDING, nodes=(), admin_comment=tag(node="n1")), False),
        (record(nodes=("n2",), admin_comment=tag(node="n1")), False),
        (record(admin_comment=tag(uids=("another",))), False),
        (record(admin_comment=tag(owner=Owner("another", "scheduler"))), False),
        (record(admin_comment=""), False),
    ],
    ids=[
        "runs there",
        "ran there",
        "asked for before the pod had a Node",
        "asked for where the pod said it runs, and started there",
        "asked for where the pod says it runs",
        "started elsewhere",
        "of another pod",
        "of another scheduler",
        "of somebody else",
    ],
)
def test_record_proves_a_binding(job: TaggedJob, proves: bool) -> None:
    assert proves_binding(job, KEY, owner=OURS, node="n1") is proves
