"""Owner tags of older versions are read as they were meant: an upgrade finds no edit of any pod.

The digests were recorded with commit 8810b89, from pods with these annotations.
"""

from __future__ import annotations

from typing import Final

import pytest

from annotations import PREFIX, ContainerResources, JobRequest, PodView, Rules, parse
from annotations.keys import DEFINITIONS
from scheduler.core.edits import Edit, asks_the_same, digests, edit_of
from scheduler.core.owner_tag import SINGLE, OwnerTag
from slurmapi.model import BaseState
from tests.unit.core.things import KEY, OURS, record

_RESOURCES: Final = {"cpus": "0baf780f", "memory_mib": "6496c5da", "gpus": "0baf780f"}
_GPUS: Final = {"gres": "f90923d4"}
_RECORDED: Final[tuple[tuple[dict[str, str], dict[str, str]], ...]] = (
    ({}, {}),
    (
        {"account": "physics", "qos": "high", "partition": "gpu,cpu", "reservation": "window"},
        {
            "partition": "eda109ee",
            "account": "9cebeaa9",
            "qos": "736f04d1",
            "reservation": "ca6bfd61",
        },
    ),
    ({"comment": "nightly, \u00fc", "nice": "-100"}, {"comment": "4df8b64b", "nice": "e38c34b5"}),
    (
        {"constraints": "h100&nvlink", "prefer": "nvlink", "exclusive": "user"},
        {"constraints": "bf8b65dc", "prefer": "7310f32e", "exclusive": "b31f1d28"},
    ),
    (
        {"priority": "1000", "timeout": "3601"},
        {"time_limit_minutes": "de567ae4", "priority": "9f080961"},
    ),
    (
        {"features": "h100,nvlink", "exclusive": "none", "hold": "true"},
        {"constraints": "bf8b65dc", "exclusive": "689700d2", "hold": "d7064428"},
    ),
    ({"wckey": "project-x", "requeue": "true"}, {"wckey": "e37aeb89", "requeue": "d7064428"}),
    ({"user-id": "1001", "group-id": "1002"}, {"user_id": "4af29cce", "group_id": "1d8331e4"}),
    ({"current-working-dir": "/home/alice"}, {"working_directory": "3620bff5"}),
    ({"current-working-dir": "/home/alice/"}, {"working_directory": "33550884"}),
    ({"current-working-dir": "/home//alice"}, {"working_directory": "bd609f6a"}),
    (
        {"excluded-nodes": "gpu-05,gpu-[07-09]", "required-nodes": "gpu-[01-02,11]"},
        {"required_nodes": "e7a398a6", "excluded_nodes": "423b1242"},
    ),
    ({"required-nodes": "gpu-01"}, {"required_nodes": "34a77a64"}),
    (
        {"begin": "2030-01-31T08:00:00Z", "deadline": "2030-01-31T20:00:00Z"},
        {"begin": "ab6f79f5", "deadline": "9c2924db"},
    ),
    ({"dependency": "afterany:4711,afterok:1:2"}, {"dependency": "b03797f1"}),
    (
        {"gres": "nic:1", "licenses": "matlab:2,x", "switches": "1@30", "threads-per-core": "1"},
        {
            "gres": "145a16b8",
            "licenses": "165c6dc5",
            "switches": "fdc47c64",
            "threads_per_core": "245bda1b",
        },
    ),
)


# That version knew none of these, so it can have asked for none of them.
_NEWER = frozenset({"contiguous", "no-kill", "pods-per-node", "segment"})

# Slurm is told nothing of it, so there is nothing that an edit would change.
_OUR_OWN = frozenset({"gang-lost-slot"})


def test_every_annotation_was_recorded() -> None:
    recorded = {key for given, _ in _RECORDED for key in given}
    assert recorded | _NEWER | _OUR_OWN == {it.key for it in DEFINITIONS if it.of_job}


@pytest.mark.parametrize(("given", "recorded"), _RECORDED)
def test_pod_that_an_older_version_asked_for_was_not_edited(
    given: dict[str, str], recorded: dict[str, str]
) -> None:
    asked = _RESOURCES | _GPUS | recorded
    assert _edit(asked, _request(given)) == Edit()
    assert asks_the_same(asked, _request(given))


@pytest.mark.parametrize(
    ("before", "given"),
    [
        ({"working_directory": "33550884"}, {"current-working-dir": "/home/bob"}),
        ({"working_directory": "33550884"}, {}),
        ({}, {"current-working-dir": "/home/alice"}),
        ({"required_nodes": "34a77a64"}, {"required-nodes": "gpu-02"}),
    ],
)
def test_edit_of_such_a_pod_is_found(before: dict[str, str], given: dict[str, str]) -> None:
    asked = _RESOURCES | _GPUS | before
    assert _edit(asked, _request(given)).anew
    assert not asks_the_same(asked, _request(given))


def test_node_list_written_otherwise_is_no_edit() -> None:
    asked = _RESOURCES | _GPUS | {"required_nodes": "e7a398a6"}
    assert _edit(asked, _request({"required-nodes": "gpu-01,gpu-02,gpu-11"})) == Edit()


def _request(given: dict[str, str]) -> JobRequest:
    resources = {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"}
    pod = PodView(
        annotations={PREFIX + key: value for key, value in given.items()},
        containers=(ContainerResources(requests=resources, limits={"nvidia.com/gpu": "2"}),),
        termination_grace_period_seconds=3,
    )
    request = parse(pod, Rules())
    assert isinstance(request, JobRequest), request
    return request


def _edit(asked: dict[str, str], request: JobRequest) -> Edit:
    tag = OwnerTag(
        v=SINGLE,
        cluster=OURS.cluster,
        scheduler=OURS.scheduler,
        namespace="ns",
        unit="train",
        uids=(KEY,),
        asked=asked,
    )
    job = record(BaseState.PENDING, nodes=(), admin_comment=tag.encode())
    return edit_of(job, request)


def test_edit_of_what_slurm_is_not_told_needs_no_job() -> None:
    asked = dict(digests(_request({})))
    for value in ("wait", "release"):
        assert _edit(asked, _request({"gang-lost-slot": value})) == Edit()
