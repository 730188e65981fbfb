"""What the page tells a user without any access to Slurm: by `kubectl slurm partitions` what would
start now, and by `queue` and `explain` where a pod stands.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.cluster import Cluster
from tests.support.plugin import plugin, plugin_and_remarks
from tests.support.ports import free_ports
from tests.support.sandbox import SandboxCluster
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

_PAGE: Final = (Path(__file__).parents[2] / "docs/partitions.md").read_text(encoding="utf-8")
# Slurm is asked for its nodes and partitions every 15 s.
_SECONDS: Final = 90.0
_POLICY: Final = """
rules:
  - name: stories
    namespaces: [story-*]
    allowed: {{partition: [{partition}], timeout: {{max: 7200}}}}
"""

pytestmark = pytest.mark.live_on("26.05")


@pytest.fixture
def page(cluster: Cluster, scheduler: SchedulerProcess, tmp_path: Path) -> tuple[str, ...]:
    """The flags that name the page of the scheduler, which has a policy. The kubeconfig of the
    sandbox has a password instead of a token.
    """
    (port,) = free_ports(1)
    policy, token = tmp_path / "policy.yaml", tmp_path / "kube-token"
    policy.write_text(_POLICY.format(partition=cluster.partition))
    token.write_text(cluster.kube_token)
    scheduler.stop()
    scheduler.add_flags(f"--page-bind-address=127.0.0.1:{port}", f"--policy-file={policy}")
    scheduler.start()
    of_token = [f"--page-token-file={token}"] if isinstance(cluster, SandboxCluster) else []
    return (f"--page-url=http://127.0.0.1:{port}", *of_token)


async def _told(world: World, page: tuple[str, ...]) -> dict[str, Any]:
    """What is told of the partition of the story."""
    found = json.loads(await plugin(world, "partitions", *page, "-o", "json"))
    assert found["source"] == "scheduler"
    (row,) = (it for it in found["items"] if it["name"] == world.cluster.partition)
    return dict(row)


def _largest_kind(row: dict[str, Any]) -> dict[str, Any]:
    return dict(row["kinds"][0])


@pytest.mark.slow
async def test_largest_pod_that_is_told_starts_at_once_and_is_counted(
    world: World, page: tuple[str, ...]
) -> None:
    partition = world.cluster.partition

    async def idle() -> dict[str, Any] | None:
        found = await _told(world, page)
        kind = _largest_kind(found)
        return found if kind["idle"] == kind["usable"] else None

    # Jobs of the story before may still be ending: their nodes become idle while this one runs.
    row = await world.until("all nodes are idle", idle, seconds=_SECONDS)
    assert (row["state"], row["allowed"], row["maxSeconds"]) == ("UP", True, 7200)
    assert row["usable"] <= row["nodes"]
    before, room = _largest_kind(row), row["now"][0]
    assert before["gang"] == before["idle"] > 0
    assert sum(room["gpus"].values()) == world.cluster.gpus_per_node
    await world.create(
        cpus=str(room["cpus"]),
        memory=f"{room['memoryMiB']}Mi",
        gpus=sum(room["gpus"].values()),
        slurm={"partition": partition},
    )
    await world.running()

    async def counted() -> dict[str, Any] | None:
        found = _largest_kind(await _told(world, page))
        return found if found["idle"] < before["idle"] else None

    after = await world.until("the node is idle no longer", counted, seconds=_SECONDS)
    assert before["idle"] - after["idle"] == 1
    assert after["usable"] == before["usable"]


@pytest.mark.slow
async def test_partition_that_is_closed_and_one_that_the_policy_forbids_are_told(
    world: World, page: tuple[str, ...]
) -> None:
    partition = world.cluster.partition
    found = json.loads(await plugin(world, "partitions", *page, "-o", "json"))
    assert {it["name"]: it["allowed"] for it in found["items"]} == {
        it["name"]: it["name"] == partition for it in found["items"]
    }
    assert found["limits"] == ["timeout: at most 7200 (policy rule 'stories')"]
    await world.set_partition(partition, state="DOWN", max_minutes=30)

    async def closed() -> dict[str, Any] | None:
        row = await _told(world, page)
        return row if row["state"] == "DOWN" else None

    row = await world.until("it is told to be DOWN", closed, seconds=_SECONDS)
    assert (row["now"], row["maxSeconds"]) == ([], 1800)
    assert "the partition is DOWN: Slurm takes jobs, and starts none" in row["notes"]


async def test_table_has_the_columns_of_the_page(world: World, page: tuple[str, ...]) -> None:
    names = (await plugin(world, "partitions", *page, "-o", "name")).split()
    assert world.cluster.partition in names
    (sample,) = re.findall(r"^```text\n(NAME .*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    out, said = await plugin_and_remarks(world, "partitions", *page)
    assert out.splitlines()[0].split() == sample.splitlines()[0].split()
    assert [it.split()[0] for it in out.splitlines()[1:]] == names
    assert "sacctmgr" in said


async def test_places_in_the_queue_are_in_slurms_order(world: World, page: tuple[str, ...]) -> None:
    partition = world.cluster.partition
    await world.set_partition(partition, state="DOWN")
    jobs = {}
    for name in ("first", "second"):
        await world.create(name, cpus="1", memory="100Mi", slurm={"partition": partition})
        pod = await world.waiting(name)
        jobs[name] = (await world.placeholder(pod)).job_id

    async def told() -> dict[str, str]:
        items = json.loads(await plugin(world, "queue", *page, "-o", "json"))["items"]
        found = {it["name"]: it["place"] for it in items}
        return found if all(found.values()) else {}

    assert jobs["first"] < jobs["second"], "so Slurm starts it first: their priority is the same"
    places = await world.until("both have a place", told, seconds=_SECONDS)
    assert places == {"first": "1/2", "second": "2/2"}
    out, _ = await plugin_and_remarks(world, "queue", *page)
    assert out.splitlines()[0].split()[-1] == "PLACE"
    story = await plugin(world, "explain", "second", *page)
    (room,) = (it for it in story.split("\n\n") if it.startswith("What there is now\n"))
    words = " ".join(room.split())
    assert f"2 of the 2 waiting jobs of this scheduler in partition {partition}" in words
    assert f"partition {partition}, which is DOWN" in words
