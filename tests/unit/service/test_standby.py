"""What a process does while another one leads: it knows, and changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, cast

import aiohttp
import pytest

from annotations import PREFIX
from scheduler.config.settings import Address, Settings, SettingsError
from scheduler.core.naming import JOB_ID
from scheduler.election.elector import Alone, LeaseLostError
from scheduler.election.setup import election_of
from scheduler.observe.metrics import Metrics
from scheduler.reconcile.standby import Standby
from scheduler.service import probes, startup
from scheduler.service.app import App
from scheduler.slurm.pulse import Pulse
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import SlurmClient
from tests.support.costs import calls
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm, running_looks

# Calls of functions for each pod that comes or changes.
_CALLS_FOR_EACH: Final = 150


@pytest.fixture
async def standby(service: Service) -> Standby:
    return Standby(service.newcomers, units=service.units, pods=service.memory.pods)


@pytest.mark.looptime
async def test_units_are_what_the_pods_say(
    service: Service, kube: TinyKube, standby: Standby
) -> None:
    kube.on_change = standby.follow
    kube.create("u", annotations={JOB_ID: "7"})
    await asyncio.sleep(1)
    assert service.job_of("u") == 7
    kube.edit("u", {JOB_ID: "8"})
    await asyncio.sleep(1)
    assert service.job_of("u") == 8
    assert not service.units.by_job(7)
    kube.edit("u", {JOB_ID: None})
    await asyncio.sleep(1)
    assert service.units.get("u") is not None
    assert service.job_of("u") is None
    kube.delete("u")
    await asyncio.sleep(1)
    assert len(service.units) == 0


@pytest.mark.looptime
@pytest.mark.parametrize("size", [32, 256])
async def test_pod_of_a_gang_that_comes_or_changes_costs_the_same_in_gangs_of_any_size(
    service: Service, kube: TinyKube, standby: Standby, size: int
) -> None:
    """Each went through all pods of the gang."""
    said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": str(size)}
    gangs = service.memory.gangs
    uids = [f"uid-{rank}" for rank in range(size)]
    for rank, uid in enumerate(uids):
        kube.create(uid, name=f"train-{rank}", annotations=said)
    await asyncio.sleep(1)
    pods = list(kube.store)
    with calls() as made:
        for pod in pods:
            gangs.came(pod)
            standby.follow(gangs.key_of(pod.metadata.uid), pod.metadata.uid)
    (unit,) = service.units
    assert list(unit.uids) == uids
    assert made[0] < _CALLS_FOR_EACH * size
    with calls() as made:
        for uid in uids:
            standby.follow(unit.key, uid)
    assert made[0] < _CALLS_FOR_EACH * size
    assert service.units.get(unit.key) is unit


@pytest.mark.looptime
async def test_gang_of_which_a_pod_names_another_job_is_made_anew(
    service: Service, kube: TinyKube, standby: Standby
) -> None:
    gangs = service.memory.gangs
    said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": "3"}
    for rank in range(3):
        kube.create(f"uid-{rank}", name=f"train-{rank}", annotations=said)
    await asyncio.sleep(1)
    for pod in kube.store:
        gangs.came(pod)
        standby.follow(gangs.key_of(pod.metadata.uid), pod.metadata.uid)
    (unit,) = service.units
    assert unit.job is None
    kube.edit("uid-1", {JOB_ID: "7"})
    await asyncio.sleep(1)
    standby.follow(unit.key, "uid-1")
    (unit,) = service.units
    assert unit.job is not None
    assert unit.job.job_id == 7
    kube.delete("uid-1")
    await asyncio.sleep(1)
    standby.follow(unit.key, "uid-1")
    gangs.went("uid-1")
    standby.follow(unit.key)
    (unit,) = service.units
    assert list(unit.uids) == ["uid-0", "uid-2"]


@pytest.mark.looptime
async def test_slurm_is_only_asked_whether_it_is_there(slurm: TinySlurm) -> None:
    leads = False
    units = Units()
    pulse = Pulse(
        cast("SlurmClient", slurm),
        units=units,
        on_change=lambda _key, _cause: None,
        clock=asyncio.get_running_loop().time,
        fast_seconds=0.25,
        idle_seconds=2.0,
        metrics=Metrics(),
        running_looks=running_looks(slurm),
        leads=lambda: leads,
    )
    job_id = slurm.add(admin_comment="{}")
    unit = units.add(_unit(job_id))
    task = asyncio.create_task(pulse.run())
    await asyncio.sleep(10)
    assert pulse.last_answer_at is not None
    assert unit.job is not None
    assert unit.job.state is None
    leads = True
    pulse.come_sooner()
    await asyncio.sleep(3)
    assert unit.job.state is not None
    task.cancel()


def _unit(job_id: int) -> Unit:
    return Unit("u", "ns", "train", seen_at=0.0, job=Placeholder(job_id))


async def test_readiness_says_who_leads() -> None:
    listeners = probes.Listeners()
    here = Address(host="127.0.0.1", port=0)
    port = await listeners.open(here, probes.probes(list, lambda: "stands by, one leads"))
    async with aiohttp.ClientSession() as session:
        answer = await session.get(f"http://127.0.0.1:{port}/readyz")
        assert (answer.status, await answer.text()) == (200, "ok\nstands by, one leads\n")
    await listeners.close()


async def test_without_the_setting_there_is_no_election() -> None:
    settings = Settings.model_validate({})
    async with election_of(settings, user_agent="test", observe=lambda *_: None) as election:
        assert isinstance(election, Alone)


async def test_election_needs_a_namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("scheduler.kube.identity._NAMESPACE_FILE", tmp_path / "nothing")
    settings = Settings.model_validate({"leader-elect": True})
    with pytest.raises(SettingsError, match="expected the namespace of the Lease"):
        async with election_of(settings, user_agent="test", observe=lambda *_: None):
            pass


async def test_lost_lease_is_the_one_error_that_is_left_of_all() -> None:
    class Losing:
        async def run(self) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(_raised(ZeroDivisionError("torn down with it")))
                group.create_task(_raised(LeaseLostError("lease a/b is held by c now")))

    with pytest.raises(LeaseLostError, match="held by c now"):
        await startup._run_app(cast("App", Losing()))


async def _raised(error: Exception) -> None:
    raise error
