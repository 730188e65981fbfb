"""On which Node a pod of a gang was that vanished unseen: that of its slot."""

from __future__ import annotations

import pytest

from scheduler.core.owner_tag import SEVERAL, OwnerTag, TagPart
from scheduler.core.tagged import TaggedJob
from scheduler.state.pod_remains import remains_by
from slurmapi import BaseState, Job, JobState

RUNS = JobState(BaseState.RUNNING)
UIDS = ("a", "b", "c")


def job(*nodes: tuple[str, ...], per_node: int = 1, parts: tuple[TagPart, ...] = ()) -> TaggedJob:
    tag = OwnerTag(
        v=SEVERAL,
        cluster="c",
        scheduler="s",
        namespace="ns",
        unit="train",
        uids=UIDS,
        unit_key="key",
        group="gang/train",
        ranks=(0, 1, 2),
        names=UIDS,
        per_node=per_node,
        parts=parts,
    )
    held = [Job(job_id=1 + at, name="x", state=RUNS, nodes=of_it) for at, of_it in enumerate(nodes)]
    return TaggedJob(
        job_id=1,
        name="x",
        state=RUNS,
        nodes=tuple(node for of_it in nodes for node in of_it),
        admin_comment=tag.encode(),
        parts=tuple(held) if parts else (),
    )


@pytest.mark.parametrize(
    ("looked", "nodes"),
    [
        (job(("n1", "n2", "n3")), ["n1", "n2", "n3"]),
        (job(("n1", "n2"), per_node=2), ["n1", "n1", "n2"]),
        (job(("n2",), ("n1",), parts=(TagPart(1), TagPart(2, 2))), ["n2", "n1", "n1"]),
        (job(("n1", "n2")), ["n1", "n2", "n2"]),  # it has lost a node
    ],
)
def test_pod_was_on_the_node_of_its_slot(looked: TaggedJob, nodes: list[str]) -> None:
    found = [remains_by(looked, uid, kube_node=lambda node: node) for uid in UIDS]
    assert [it and it.node for it in found] == nodes
