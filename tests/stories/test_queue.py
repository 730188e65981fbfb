"""`kubectl slurm queue` shows a user's pods as squeue shows jobs, from the pods alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import pods
from tests.support.plugin import plugin
from tests.support.world import World

_ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = (_ROOT / "docs/queue.md").read_text(encoding="utf-8")
# What is another one each time: ids of jobs, priorities of Slurm, ages, Nodes.
_CHANGING: Final = re.compile(r"\d+[smhd]?|node-\d+")

pytestmark = pytest.mark.live_on("26.05")


def _page_table(second_column: str) -> list[list[str]]:
    """The words that last of each line of a table on the page."""
    table = rf"^```\n(NAME +{second_column} .*?)^```$"
    (found,) = re.findall(table, _PAGE, re.MULTILINE | re.DOTALL)
    return [_lasting(it) for it in str(found).splitlines()]


def _lasting(line: str) -> list[str]:
    return ["*" if _CHANGING.fullmatch(word) else word for word in line.split()]


async def test_pods_that_wait_and_run_are_listed_as_squeue_lists_jobs(world: World) -> None:
    where = {"partition": world.cluster.partition}
    gpus = min(1, world.cluster.gpus_per_node)
    await world.create("first", cpus="4", memory="2Gi", gpus=gpus)  # Slurm chooses the partition
    first = await world.running("first")
    await world.fill(leave_cpus=4)
    await world.create("second", cpus="8", slurm=where)
    await world.message_with("is pending: Resources", name="second")

    items: list[dict[str, Any]] = json.loads(await plugin(world, "queue", "-o", "json"))["items"]
    second, running = items
    assert (second["name"], second["state"], second["reason"]) == ("second", "PENDING", "Resources")
    assert (running["name"], running["state"], running["reason"]) == ("first", "RUNNING", None)
    assert running["jobId"] == int(pods.annotation(first, pods.JOB_ID) or 0)
    assert (running["node"], second["node"]) == (pods.node_of(first), None)
    chosen = (await world.placeholder(first)).raw["partition"]
    assert (running["partition"], second["partition"]) == (chosen, world.cluster.partition)
    assert second["priority"] is not None
    of_it = json.loads(await plugin(world, "queue", "-p", chosen, "-t", "RUNNING", "-o", "json"))
    assert [it["name"] for it in of_it["items"]] == ["first"]

    lines = (await plugin(world, "queue")).replace(running["node"], "node-00").splitlines()
    assert [_lasting(it) for it in lines] == _page_table("STATE")


async def test_jobs_of_slurm_are_listed_for_those_with_a_token_of_slurm(
    world: World, tmp_path: Path
) -> None:
    where = {"partition": world.cluster.partition}
    await world.create("web", cpus="1", memory="1Gi", slurm=where)
    web = await world.running("web")
    job_id = await world.native_job(
        "train", user="alice", partition=world.cluster.partition, cpus_per_task=2
    )
    await world.job_runs(job_id)
    token = tmp_path / "token"
    token.write_text(world.cluster.slurm_token("alice"))
    slurm = (f"--slurm-api-base={world.cluster.slurm_url}", f"--slurm-auth-token-file={token}")
    out = await plugin(world, "queue", "--jobs", *slurm, "-o", "json")
    # The pod has its own line, and its job none beside it.
    mine, train = json.loads(out)["items"]
    assert mine["jobId"] == int(pods.annotation(web, pods.JOB_ID) or 0)
    assert (mine["name"], mine["user"], mine["namespace"]) == ("web", None, world.namespace)
    assert (train["jobId"], train["user"], train["namespace"]) == (job_id, "alice", None)
    assert (train["cpus"], train["memoryBytes"]) == (2, 100 * 2**20)
    lines = await plugin(world, "queue", "--jobs", *slurm)
    for node, name in ((mine["node"], "node-00"), (train["node"], "node-01")):
        lines = lines.replace(node, name)
    assert [_lasting(it) for it in lines.splitlines()] == _page_table("USER")


@pytest.mark.flags("--gang-linger=2s")
@pytest.mark.live_on("neither")
async def test_gang_is_one_line_and_each_of_its_pods_is_told(world: World) -> None:
    asks = {"partition": world.cluster.partition, "gang": "trainer", "gang-size": "2"}
    await world.create("trainer-0", cpus="1", memory="512Mi", slurm=asks)
    await world.message_with("waiting for trainer-1", name="trainer-0")
    told = json.loads(await plugin(world, "explain", "trainer-0", "-o", "json"))["gang"]
    assert (told["rank"], told["missing"]) == (0, "trainer-1")

    await world.create("trainer-1", cpus="1", memory="512Mi", slurm=asks)
    first = await world.running("trainer-0")
    second = await world.running("trainer-1")
    lines = (await plugin(world, "queue", "--gangs")).splitlines()
    shown = [it.replace(str(pods.node_of(first)), "node-00") for it in lines]
    assert [_lasting(it) for it in shown] == _page_table("PODS")
    told = json.loads(await plugin(world, "explain", "trainer-1", "-o", "json"))["gang"]
    assert (told["name"], told["rank"], told["size"]) == ("trainer", 1, 2)
    assert told["firstNode"] == pods.node_of(first)
    assert [it["node"] for it in told["pods"]] == [pods.node_of(first), pods.node_of(second)]
