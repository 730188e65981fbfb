"""Pods of other schedulers use a part of a Node. Our pods go where they fit beside them."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import pods
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")


async def test_pod_goes_where_it_fits_beside_the_pods_of_another_scheduler(world: World) -> None:
    """Slurm does not know the other pod, and may choose its Node first."""
    first, *others = world.cluster.nodes
    whole = world.cluster.cpus_per_node
    await world.create("web", scheduler="somebody-else", cpus=str(whole))
    await world.kube.bind("web", first, namespace=world.namespace)
    await world.create(slurm={"required-nodes": first})
    event = await world.event("NodeUnavailable")
    assert f"Kubernetes Node {first}" in event["message"]
    assert f"has 0 of {whole} CPUs free, the pod requests 2" in event["message"]
    assert "requested by pods of other schedulers" in event["message"]
    await world.create("second")
    assert pods.node_of(await world.running("second")) in others


PORT = {"ports": [{"containerPort": 8080, "hostPort": 18080, "protocol": "TCP"}]}


async def test_pod_keeps_away_from_a_pod_that_has_its_port(world: World) -> None:
    first, *others = world.cluster.nodes
    await world.create("web", scheduler="somebody-else", container=PORT)
    await world.kube.bind("web", first, namespace=world.namespace)
    # After a restart it knows the other pod from the watch of all pods, not from that of its own.
    await asyncio.to_thread(world.scheduler.stop)
    await asyncio.to_thread(world.scheduler.start)
    await world.create(container=PORT)
    assert pods.node_of(await world.running()) in others
    event = await world.event("PlaceholderSubmitted")
    assert f"has its port 18080/TCP taken by pod {world.namespace}/web" in event["message"]


async def test_pod_that_wants_to_be_alone_is_not_bound_beside_its_like(world: World) -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    first, *others = world.cluster.nodes
    await world.create("web", scheduler="somebody-else")
    await world.kube.bind("web", first, namespace=world.namespace)
    await world.create(affinity={"podAntiAffinity": required})
    assert pods.node_of(await world.running()) in others


async def test_pod_with_a_claim_that_nobody_made_says_so(world: World) -> None:
    claim = {"claimName": "nobodys"}
    await world.create(volumes=[{"name": "data", "persistentVolumeClaim": claim}])
    event = await world.event("SchedulingFailed")
    assert "spec.volumes[data].persistentVolumeClaim is 'nobodys'" in event["message"]
    assert await world.slurm.placeholders(world.namespace) == []
