"""`slurm-pod-scheduler nodes` tells who holds what of a node, as both servers know it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import pods
from tests.support.doctor import Doctor
from tests.support.world import World

_PAGE: Final = (Path(__file__).parents[2] / "docs/nodes-command.md").read_text(encoding="utf-8")


pytestmark = pytest.mark.live_on("26.05")


@pytest.fixture
def nodes(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path, command="nodes")


async def _look(nodes: Doctor, world: World, name: str) -> dict[str, Any]:
    report = await nodes(world.cluster, "-o", "json")
    assert report.status == 0, report.out
    (found,) = (it for it in json.loads(report.out)["items"] if it["name"] == name)
    return dict(found)


async def test_what_a_pod_holds_and_what_a_job_holds_are_told_apart(
    world: World, nodes: Doctor
) -> None:
    partition = world.cluster.partition
    await world.create("train", cpus="4", memory="1Gi", slurm={"partition": partition})
    node = pods.annotation(await world.running(), pods.NODES)
    assert node is not None
    held = await _look(nodes, world, node)
    assert held["cpus"]["pods"] == 4
    assert held["memoryMiB"]["pods"] == 1024
    assert held["cpus"]["pods"] + held["cpus"]["free"] <= held["cpus"]["total"]
    assert (held["nodeState"], held["refused"]) == ("Ready", [])
    await world.cordon(held["node"])
    cordoned = await _look(nodes, world, node)
    assert cordoned["nodeState"] == "Ready,SchedulingDisabled"
    assert cordoned["refused"] == ["the Node is cordoned"]


async def test_table_has_the_columns_of_the_page(world: World, nodes: Doctor) -> None:
    report = await nodes(world.cluster)
    (sample,) = re.findall(r"^```text\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    heading, *lines = report.out.splitlines()
    assert heading.split() == sample.splitlines()[0].split()
    assert len(lines) >= len(world.cluster.nodes)


async def test_partition_without_nodes_names_those_with(world: World, nodes: Doctor) -> None:
    report = await nodes(world.cluster, "-p", "nope")
    assert report.status == 0
    told = report.out.partition("-p: no node is in such a partition; there are ")[2].splitlines()
    assert world.cluster.partition in told[0].split(", ")


async def test_server_that_does_not_answer_is_one_line(world: World, nodes: Doctor) -> None:
    report = await nodes(world.cluster, "--slurm-api-base=http://127.0.0.1:9")
    assert (report.status, report.out.count("\n")) == (1, 1)
    assert "http://127.0.0.1:9" in report.out
