"""Story: a site sets rules about annotations, changes them, and makes a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.kube import Object
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")

RULES = """
rules:
- name: urgent
  priorityClassNames: [system-cluster-critical]
  forced: {timeout: 300}
- name: labelled
  namespaceSelector: {matchLabels: {team: lab}}
  forced: {comment: from the lab, partition: PARTITION}
- name: stories
  namespaces: [story-*]
  defaults: {timeout: 600}
  allowed: {partition: [PARTITION], timeout: {max: 3600}}
"""


class PolicyFile:
    """A file like that of a mounted ConfigMap: a new version replaces a symbolic link."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._versions = 0
        self.path = folder / "policy.yaml"
        self.path.symlink_to("..data/policy.yaml")

    def write(self, text: str) -> None:
        """Write a new version of the file, atomically."""
        self._versions += 1
        version = self._folder / f"..{self._versions}"
        version.mkdir()
        (version / "policy.yaml").write_text(text)
        swap = self._folder / "..data_tmp"
        swap.symlink_to(version.name)
        swap.rename(self._folder / "..data")


@pytest.fixture
def policy(cluster: Cluster, tmp_path: Path) -> PolicyFile:
    """The policy file with the rules of this story."""
    policy = PolicyFile(tmp_path / "policy")
    policy.write(RULES.replace("PARTITION", cluster.partition))
    return policy


@pytest.fixture
def scheduler_flags(policy: PolicyFile) -> tuple[str, ...]:
    return (f"--policy-file={policy.path}",)


async def test_rules_shape_jobs_and_refusals_name_them(world: World) -> None:
    await world.create("wrong", slurm={"partition": "secret", "timeout": "7200"})
    event = await world.event("SchedulingFailed", name="wrong")
    for words in (
        "'secret'",
        f"'{world.cluster.partition}'",
        "'7200'",
        "at most 3600",
        "'stories'",
    ):
        assert words in event["message"]

    await world.create()
    assert (await world.placeholder(await world.running())).number("time_limit") == 10

    await world.create("urgent", priorityClassName="system-cluster-critical")
    assert (await world.placeholder(await world.running("urgent"))).number("time_limit") == 5
    refusals = world.scheduler.metrics()["slurm_pod_scheduler_policy_refusals_total"]
    assert refusals == 2


async def test_labels_of_the_namespace_decide(world: World) -> None:
    await world.create(slurm={"partition": "secret"})
    await world.event("SchedulingFailed")
    label = {"metadata": {"labels": {"team": "lab"}}}
    await world.kube.patch("namespaces", world.namespace, label)
    record = await world.placeholder(await world.running())
    assert record.raw["partition"] == world.cluster.partition
    assert "from the lab" in str(record.raw["comment"])
    applied = await world.event("PolicyApplied")
    assert "'secret'" in applied["message"]


async def test_changed_file_counts_and_a_broken_one_does_not(
    world: World, policy: PolicyFile
) -> None:
    await world.create(slurm={"timeout": "7200"})
    await _refused(world)
    policy.write("rules: [{name: stories, allowed: {timeout: {max: 7200}}}]")
    await world.running()

    policy.write("rules: [{name: stories, allowed: {timeout: {max: soon}}}]")
    await world.until("the broken version is counted", lambda: _counted(world, refused=1))
    assert "rule 'stories': allowed.timeout" in world.scheduler.log.read_text()
    await world.create("after", slurm={"timeout": "7201"})
    await _refused(world, "after")
    await world.create("within", slurm={"timeout": "7200"})
    await world.running("within")


async def test_broken_file_ends_the_scheduler_at_its_start(
    world: World, policy: PolicyFile
) -> None:
    world.scheduler.stop()
    policy.write("rules: [{name: stories}]")
    with pytest.raises(AssertionError, match="ended with 2"):
        world.scheduler.start()
    last = world.scheduler.log_tail(1)
    assert last.startswith(f"--policy-file: {policy.path}: rule 'stories': expected ")
    policy.write("rules: []")
    world.scheduler.start()


async def test_root_is_warned_of_where_no_rule_speaks_of_users(
    world: World, policy: PolicyFile
) -> None:
    await world.create("root", slurm={"user-id": "0"})
    event = await world.event("RootRequested", name="root")
    assert event["type"] == "Warning"
    record = await world.placeholder(await world.running("root"))
    assert record.raw["user_name"] == "root"
    assert world.scheduler.metrics()["slurm_pod_scheduler_root_requests_total"] == 1

    policy.write("rules: [{name: stories, allowed: {user-id: [2001]}}]")
    await world.until("the rules are in force", lambda: _taken(world))
    await world.create("silent")
    assert "without it the job would have user 0" in pods.why(await _refused(world, "silent"))
    await world.create("alice", slurm={"user-id": "2001"})
    record = await world.placeholder(await world.running("alice"))
    assert (record.raw["user_name"], record.number("group_id")) == ("alice", 2001)


async def _refused(world: World, name: str = "train") -> Object:
    return await world.pod_that(
        "is refused by rule 'stories'",
        lambda it: "(policy rule 'stories')" in pods.why(it),
        name=name,
    )


async def _taken(world: World) -> bool:
    return "policy taken" in world.scheduler.log.read_text()


async def _counted(world: World, *, refused: int) -> bool:
    found = world.scheduler.metrics()
    return (
        found["slurm_pod_scheduler_policy_outdated"] == 1
        and found["slurm_pod_scheduler_policy_reloads_total"] >= refused
    )
