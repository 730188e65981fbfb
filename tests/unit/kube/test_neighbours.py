"""What is kept of pods of all schedulers, and what that takes."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import pytest

from scheduler.core.labels import LONGEST_LABELS
from scheduler.kube.neighbours import NEIGHBOURS, Neighbour, NeighbourStore, neighbour
from scheduler.kube.wire import (
    Container,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
    decoder,
)
from scheduler.nodes.neighbourhood import Neighbourhood
from tests.support.costs import measured

# A fifth of a large cluster, which has 50 000 pods on 5000 Nodes.
COUNT: Final = 10_000
NODES: Final = 1_000
MOST_BYTES: Final = 25 * 1000 * 1000 // 5
PAGE: Final = 500


def body(number: int) -> dict[str, Any]:
    """One of a large cluster: half are of Deployments of 100 pods, half of Jobs with one."""
    deployment = number // 200
    of_job = number % 2 == 1
    unique = f"{number:08x}-1111-4222-8333-{number:012x}"
    labels = (
        {"batch.kubernetes.io/controller-uid": unique, "job-name": f"train-{number}"}
        if of_job
        else {"app": f"web-{deployment}", "pod-template-hash": f"{deployment:010x}"}
    )
    image = {"name": "c", "image": "registry.example/team/image:v1", "env": [{"name": "A"}] * 10}
    return {
        "metadata": {
            "name": f"{'train' if of_job else f'web-{deployment}'}-{number:05x}-abcde",
            "namespace": f"team-{deployment % 50}",
            "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
            "resourceVersion": str(1_000_000 + number),
            "labels": labels,
            "annotations": {"note": "x" * 500},
        },
        "spec": {
            "nodeName": f"node-{number % NODES}",
            "schedulerName": "default-scheduler",
            "containers": [image | {"resources": {"requests": {"cpu": "250m", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    }


def page(first: int) -> bytes:
    items = [body(number) for number in range(first, first + PAGE)]
    return json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode()


@pytest.mark.timeout(300)  # 8 s alone, for tracemalloc slows all that allocates
def test_pods_of_others_take_25_mb_of_50_000():
    store, around = NeighbourStore(), Neighbourhood()
    # Python's table of interned strings grows by megabytes at a time: by chance here, if it is
    # nearly full of other tests' strings. With these it has grown before.
    interned = [sys.intern(f"node-{number}") for number in range(NODES)]
    interned += [sys.intern(f"team-{number}") for number in range(50)]
    interned.append(sys.intern("default-scheduler"))
    with measured() as cost:
        for first in range(0, COUNT, PAGE):
            for item in NEIGHBOURS.page(page(first)).items or ():
                for change in store.apply(item):
                    around.changed(change.old, change.new)
    assert len(store) == COUNT
    assert {it.node for it in store.items.values()} <= set(interned)
    assert around.load("node-0").used == {"cpu": 2500, "memory": 10 * 2**30}
    assert cost.kept_bytes < MOST_BYTES, f"{cost.kept_bytes / COUNT:.0f} bytes a pod"
    # Pages are read one by one: the list as it was sent is never there as a whole.
    assert cost.peak_bytes < cost.kept_bytes + 8_000_000, cost.peak_bytes


def test_labels_of_one_pod_are_bounded():
    labels = {f"key-{number}": "v" * 63 for number in range(10_000)}
    found = neighbour(Pod(ObjectMeta(name="p", uid="1", labels=labels)))
    assert len(found.labels) <= LONGEST_LABELS + 1
    assert found.labels.startswith("\nkey-0=v")
    assert found.labels.endswith("v\n")


def test_state_before_the_last_is_what_a_pod_that_goes_is_taken_away_by():
    store = NeighbourStore()
    read = decoder(Pod)
    first = neighbour(read(json.dumps(body(1)).encode()))
    store.apply(first)
    last = neighbour(read(json.dumps(body(1) | {"spec": {"nodeName": "other"}}).encode()))
    (change,) = store.remove(first.uid, last=last)
    assert change.old is first


def test_resources_that_nobody_on_a_node_requests_any_more_are_forgotten():
    """A pod's author chooses their names, and the Node itself need not have them."""
    around = Neighbourhood()

    def come(uid: str, *resources: str) -> Neighbour:
        requests: dict[str, str | int | float] = {"cpu": "1", **dict.fromkeys(resources, "1")}
        container = Container("c", ResourceRequirements(requests=requests))
        spec = PodSpec(node_name="node-0", containers=(container,))
        return neighbour(Pod(ObjectMeta(name=uid, namespace="ns", uid=uid), spec))

    around.changed(None, come("stays"))
    for number in range(200):
        found = come(f"uid-{number}", f"example.com/r{number}")
        around.changed(None, found)
        around.changed(found, None)
    assert around.load("node-0").used == {"cpu": 1000}
