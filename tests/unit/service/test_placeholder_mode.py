"""Which form a pod's job gets by itself, and when external jobs are without a guard."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

import pytest
from msgspec.structs import replace

from annotations import PREFIX
from scheduler.core.actions import Submit
from scheduler.core.slot_choice import Seat
from scheduler.execute.placeholder_mode import ModeSetting
from scheduler.hooks.heartbeat import HEARD_SECONDS, Heartbeat
from scheduler.nodes.node_kinds import Kinds, NodeKinds
from scheduler.nodes.records import SlurmNodes
from scheduler.state.units import Unit
from slurmapi import KNOWN_VERSIONS, JobSubmission, SlurmClient, SlurmInvalid
from tests.unit.core.things import REQUEST
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import NODES, TinySlurm

pytestmark = pytest.mark.looptime

OURS = "/etc/slurm/slurm-pod-scheduler/prolog-slurmctld.sh"


UID = "01234567-89ab"
ONE = (Seat(0, UID),)


@pytest.fixture
async def service(slurm: TinySlurm, kube: TinyKube) -> Service:
    kube.create(UID)
    return Service(slurm, kube)


@pytest.fixture
def unit(service: Service) -> Unit:
    return service.units.add(Unit(UID, "ns", "train", seen_at=0.0))


async def mode(service: Service, partition: str | None = None, *nodes: str) -> str:
    return (await service.modes.choose(partition, nodes)).mode


async def jobs_of(service: Service, unit) -> list[bool]:
    """Whether each job that came of it is external."""
    await service.executor.do(unit, Submit(REQUEST, ONE))
    return [it.external for it in service.slurm.submissions.values()]


@pytest.mark.parametrize("version", KNOWN_VERSIONS, ids=str)
async def test_external_jobs_need_a_server_that_offers_them(service, slurm, version):
    slurm.version = version
    assert await mode(service) == ("external" if version.number >= 43 else "script")


@pytest.mark.parametrize("setting", ["external", "script"])
async def test_setting_counts_whatever_the_nodes_are(slurm, kube, setting):
    for slurm.with_slurmd in (set(), set(NODES)):
        choice = await Service(slurm, kube, mode=setting).modes.choose()
        assert (choice.mode, choice.why) == (setting, f"--placeholder-mode={setting}")


async def test_nodes_without_a_slurmd_need_no_guard(service):
    assert await mode(service) == "external"


async def test_nodes_with_a_slurmd_get_scripts_until_the_guard_has_asked(service, slurm):
    slurm.with_slurmd, slurm.prolog_slurmctld = set(NODES), "/opt/site.sh"
    assert await mode(service) == "script"
    service.heartbeat.beat()
    assert await mode(service) == "external"
    await asyncio.sleep(HEARD_SECONDS)
    assert await mode(service) == "script"


async def test_prolog_at_the_documented_path_is_known_before_it_asks(service, slurm):
    """So that a restart changes nothing."""
    slurm.with_slurmd, slurm.prolog_slurmctld = set(NODES), f"/opt/site.sh,{OURS}"
    assert await mode(service) == "external"


async def test_guard_that_slurm_runs_no_more_counts_no_more(service, slurm):
    slurm.with_slurmd, slurm.prolog_slurmctld = set(NODES), "/opt/site.sh"
    service.heartbeat.beat()
    assert await mode(service) == "external"
    slurm.prolog_slurmctld = ""
    await asyncio.sleep(60)
    await service.slurmctld.ask()
    assert await mode(service) == "script"


async def test_each_partition_counts_by_its_own_nodes(service, slurm):
    slurm.with_slurmd = {"n2"}
    slurm.nodes_in = {"main": ("n1",), "native": ("n2",), "both": NODES}
    asked = {None: "external", "main": "external", "native": "script", "both": "script"}
    asked |= {"main,native": "script", "nowhere": "script"}
    assert {it: await mode(service, it) for it in asked} == asked
    assert await mode(service, "both", "n1") == "external"
    assert await mode(service, "main", "n2") == "script"
    assert slurm.calls["nodes"] == slurm.calls["partitions"] == 1


async def test_slurmd_of_a_node_that_serves_no_pods_does_not_matter(service, slurm, kube):
    slurm.with_slurmd = {"n2"}
    kube.nodes.remove("node-n2")
    assert await mode(service) == "external"


async def test_script_that_only_nodes_without_slurmd_could_take_becomes_external(
    service, slurm, unit
):
    slurm.with_slurmd = {"n2"}
    slurm.job_submit = lambda job: (
        None if job.external else SlurmInvalid("not available", error_number=2014, status=422)
    )
    assert await jobs_of(service, unit) == [True]
    assert slurm.calls["submit"] == 2


@pytest.mark.parametrize(("with_slurmd", "number"), [(set(NODES), 2014), ({"n2"}, 2000)])
async def test_other_refusals_are_as_they_are(service, slurm, unit, with_slurmd, number):
    slurm.with_slurmd = with_slurmd
    slurm.job_submit = lambda _: SlurmInvalid("no", error_number=number, status=422)
    assert await jobs_of(service, unit) == []
    assert slurm.calls["submit"] == 1


async def test_job_that_is_pinned_goes_by_its_node(service, slurm, unit):
    slurm.with_slurmd = {"n2"}
    await service.executor.do(unit, Submit(replace(REQUEST, partition=None), ONE, nodes=("n1",)))
    assert slurm.submissions[unit.job.job_id].external


async def moved(
    slurm: TinySlurm, kube: TinyKube, partition: str, *, gpus: int = 0, mode: ModeSetting = "auto"
) -> list[JobSubmission]:
    """What is live in Slurm once a pod that waits in `main` was edited."""
    slurm.with_slurmd = {"n2"}
    slurm.nodes_in = {"main": ("n1",), "native": ("n2",), "other": ("n1",)}
    service = Service(slurm, kube, mode=mode)
    service.start()
    kube.create(UID, annotations={f"{PREFIX}partition": "main"}, gpus=gpus)
    await asyncio.sleep(5)
    kube.edit(UID, {f"{PREFIX}partition": partition})
    await asyncio.sleep(20)
    await service.kill()
    return [slurm.submissions[it] for it in slurm.jobs if slurm.live(it)]


async def test_pod_moved_to_nodes_of_the_other_kind_gets_a_job_of_the_other_form(slurm, kube):
    (job,) = await moved(slurm, kube, "native")
    assert (job.external, job.partition) == (False, "native")


@pytest.mark.parametrize("partition", ["other", "nowhere"])
async def test_pod_moved_to_nodes_of_its_kind_or_none_keeps_its_job(slurm, kube, partition):
    (job,) = await moved(slurm, kube, partition)
    assert (job.external, job.partition) == (True, "main")
    assert slurm.calls["submit"] == 1


async def test_pod_with_gpus_moved_to_where_native_jobs_run_gets_a_job_that_does_not_share(
    slurm, kube
):
    (job,) = await moved(slurm, kube, "native", gpus=2, mode="external")
    assert (job.shared, job.partition) == ("user", "native")


async def test_external_jobs_without_a_guard_are_counted_by_the_nodes_they_may_get(slurm, kube):
    slurm.with_slurmd = {"n2"}
    slurm.prolog_slurmctld = "/opt/site.sh"
    service = Service(slurm, kube, mode="external")
    service.start()
    await asyncio.sleep(5)
    assert service.modes.unguarded() == 1
    service.heartbeat.beat()
    assert service.modes.unguarded() == 0
    await service.kill()
    for setting in ("auto", "script"):
        other = Service(slurm, kube, mode=setting)
        other.start()
        await asyncio.sleep(5)
        assert other.modes.unguarded() == 0
        await other.kill()


async def test_nodes_that_get_a_slurmd_are_counted_within_a_minute(slurm, kube):
    service = Service(slurm, kube, mode="external")
    service.start()
    await asyncio.sleep(5)
    assert service.modes.unguarded() == 0
    slurm.with_slurmd = set(NODES)
    await service.slurm_nodes.renew(older_than=0)
    await asyncio.sleep(60)
    assert service.modes.unguarded() == 2
    await service.kill()


async def test_kubernetes_node_that_joins_is_counted_within_seconds(slurm, kube):
    slurm.with_slurmd = set(NODES)
    kube.nodes.remove("node-n2")
    service = Service(slurm, kube, mode="external")
    service.start()
    await asyncio.sleep(10)
    assert service.modes.unguarded() == 1
    kube.set_node("n2")
    await asyncio.sleep(1)
    assert service.modes.unguarded() == 2
    await service.kill()


async def test_mapping_that_changes_all_the_time_costs_a_count_each_five_seconds(slurm):
    slurm.with_slurmd = set(NODES)
    kinds, asked = counted(slurm)
    await kinds.of("main")
    asked.clear()
    running = asyncio.create_task(kinds.run())
    for _ in range(60):
        await asyncio.sleep(0.4)
        kinds.mapping_changed()
    running.cancel()
    assert asked == dict.fromkeys(NODES, 5)


async def test_submits_that_come_at_once_count_the_nodes_once(slurm):
    """Each count of 10 000 nodes takes a tenth of a second."""
    for number in range(200):  # more than are counted without a pause
        slurm.add_node(f"more-{number}")
    slurm.with_slurmd = {*NODES, *(f"more-{number}" for number in range(200))}
    kinds, asked = counted(slurm)
    found = await asyncio.gather(*(kinds.of("main") for _ in range(5)))
    assert found == [Kinds(with_slurmd=202)] * 5
    assert len(asked) == asked.total() == 202


def counted(slurm: TinySlurm) -> tuple[NodeKinds, Counter[str]]:
    """The kinds of its nodes, and how often each node was counted."""
    client, clock = cast("SlurmClient", slurm), asyncio.get_running_loop().time
    asked = Counter[str]()

    def may_serve(node: str) -> bool:
        asked[node] += 1
        return True

    nodes = SlurmNodes(client, clock=clock, on_change=lambda: None)
    kinds = NodeKinds(client, nodes, may_serve=may_serve, clock=clock)
    return kinds, asked


def test_guard_that_nobody_answers_is_none() -> None:
    """The prolog is there, and the hooks API is off."""
    path = "/etc/slurm/slurm-pod-scheduler/prolog-slurmctld.sh"
    found = {
        listens: Heartbeat(listens=listens, prolog=lambda: path, clock=lambda: 0.0).installed
        for listens in (True, False)
    }
    assert found == {True: f"PrologSlurmctld is {path}", False: ""}
