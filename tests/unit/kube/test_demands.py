"""What pods request: those of one template share it, and only what counts is read for them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.kube.demands import requests_of
from scheduler.kube.wire import Pod


def pod(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Pod:
    metadata = {"uid": "u", "name": "p", "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, Pod)


def container(**requests: object) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": requests}}


SPEC = {"containers": [container(cpu="500m", memory="1Gi"), container(cpu=1)]}
SIDECAR = {**container(cpu="250m"), "restartPolicy": "Always"}


def test_pods_of_one_template_share_what_they_request() -> None:
    first, second = pod(SPEC), pod(SPEC)
    assert requests_of(first) == (("cpu", 1500), ("memory", 2**30))
    assert requests_of(first) is requests_of(second)


@pytest.mark.parametrize(
    ("more", "cpu"),
    [
        ({"initContainers": [SIDECAR]}, 1750),
        ({"initContainers": [container(cpu=4)]}, 4000),
        ({"overhead": {"cpu": "100m"}}, 1600),
        ({"resources": {"requests": {"cpu": 3}}}, 3000),
    ],
)
def test_everything_else_that_counts_is_counted(more: dict[str, Any], cpu: int) -> None:
    assert dict(requests_of(pod(SPEC | more)))["cpu"] == cpu


@pytest.mark.parametrize("said", [{"resources": {"requests": {"cpu": 2}}}, {"resources": {}}])
def test_pod_that_was_resized_is_counted_by_its_status(said: dict[str, Any]) -> None:
    spec = {"containers": [container(cpu=1)]}
    resized = pod(spec, {"containerStatuses": [{"name": "main", **said}]})
    given = said["resources"].get("requests", {}).get("cpu", 1)
    assert requests_of(resized) == (("cpu", 1000 * given),)


def test_request_of_many_resources_is_not_kept() -> None:
    spec = {"containers": [container(**{f"example.com/{n}": 1 for n in range(16)})]}
    assert len(requests_of(pod(spec))) == 16
    assert requests_of(pod(spec)) is not requests_of(pod(spec))
