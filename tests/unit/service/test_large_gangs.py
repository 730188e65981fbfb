"""Gangs of many pods: neither reading nor writing each of them holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import thread_time
from typing import Any, Final

import pytest

from annotations import PREFIX, JobRequest
from scheduler.core.event_reasons import Reason
from scheduler.core.intervals import LONGEST_UNTOLD_SECONDS, UNTOLD_SECONDS
from scheduler.facts.gather import Gatherer
from scheduler.facts.read_ahead import ReadAhead
from scheduler.facts.reader import _Parser
from scheduler.kube.api import Refused
from scheduler.kube.errors import KubeUnreachable
from scheduler.kube.wire import Container, PodSpec, PodStatus, ResourceRequirements
from scheduler.state.units import Unit
from slurmapi import BaseState
from tests.support.costs import calls
from tests.unit.service.test_gangs import member, run_on_nodes
from tests.unit.service.tiny_kube import TinyKube

pytestmark = pytest.mark.looptime
_SIZE: Final = 64
# How long the API server takes over a write on a pod.
_SLOW_SECONDS: Final = 0.1
# How long reading one pod takes.
_DEAR_SECONDS: Final = 0.003
# Calls of functions that a look at a running gang may make for each pod.
_CALLS_FOR_EACH: Final = 200
_CALLS_FOR_EACH_WAITING: Final = 80


async def _come(kube: TinyKube, *, apart_seconds: float, size: int = _SIZE) -> None:
    """The pods of the gang, one after the other."""
    for rank in range(size):
        member(kube, rank, size=_SIZE)
        await asyncio.sleep(apart_seconds)


async def test_job_of_a_gang_whose_pods_come_quickly_is_submitted_without_a_word(
    slurm, kube, service
):
    kube.seconds["ns", "patch"] = _SLOW_SECONDS
    service.start()
    await _come(kube, apart_seconds=UNTOLD_SECONDS / _SIZE)
    await asyncio.sleep(_SLOW_SECONDS)
    assert slurm.calls["submit"] == 1
    assert kube.asked["patch"] == 0


async def test_pods_are_told_who_is_missing_once_none_has_come_for_a_moment(slurm, kube, service):
    service.start()
    await _come(kube, apart_seconds=0.01, size=_SIZE - 1)
    await asyncio.sleep(UNTOLD_SECONDS + 1)
    said = kube.condition_of("uid-0")
    assert said is not None
    assert said.message.startswith("Gang train (63 of 64 pods exist): waiting for train-63")
    assert kube.asked["patch"] == _SIZE - 1
    assert slurm.calls["submit"] == 0


async def test_pods_that_come_one_by_one_for_long_are_told_all_the_same(slurm, kube, service):
    service.start()
    size = int(LONGEST_UNTOLD_SECONDS) + 2
    await _come(kube, apart_seconds=1.0, size=size)
    assert kube.condition_of("uid-0") is not None
    assert slurm.calls["submit"] == 0


async def test_words_about_a_waiting_job_are_written_on_many_pods_at_once(slurm, kube, service):
    """The pods get their nodes only after that: written one by one, it would take 6.4 s."""
    kube.seconds["ns", "patch"] = _SLOW_SECONDS
    service.start()
    await _come(kube, apart_seconds=0)
    await asyncio.sleep(UNTOLD_SECONDS + 1)
    assert kube.asked["patch"] == _SIZE
    assert kube.condition_of("uid-63") is not None
    slurm.change(1, BaseState.RUNNING, nodes=("n1",), start_time=1)
    looked = slurm.calls["job"]
    await asyncio.sleep(1)
    assert slurm.calls["job"] > looked, "the start was not noticed"


async def test_writes_that_are_refused_together_count_as_one_refusal(slurm, kube, service):
    """So the next try comes after 5 s, and not after 5 min."""
    kube.refuses["patch"] = "a webhook says no"
    service.start()
    await _come(kube, apart_seconds=0)
    await asyncio.sleep(UNTOLD_SECONDS + 2)
    del kube.refuses["patch"]
    assert 0 < kube.asked["patch"] <= 16
    await asyncio.sleep(8)
    assert kube.condition_of("uid-0") is not None
    assert kube.condition_of("uid-63") is not None


class Turns:
    """Makes each call take some CPU time, and counts how many of them share a turn of the loop."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._now = 0
        self.calls = self.most = 0

    @property
    def counted(self) -> Callable[..., Any]:
        """What to put in the place of a method."""

        def method(*args: Any) -> Any:
            return self(*args)

        return method

    def __call__(self, *args: Any) -> Any:
        if not self._now:
            asyncio.get_running_loop().call_soon(self._next)
        self._now, self.calls = self._now + 1, self.calls + 1
        self.most = max(self.most, self._now)
        until = thread_time() + _DEAR_SECONDS
        while thread_time() < until:
            pass
        return self._function(*args)

    def _next(self) -> None:
        self._now = 0


async def test_pods_of_a_gang_are_read_in_many_turns_also_when_all_are_read_anew(
    slurm, kube, service, monkeypatch
):
    """A pod may have two lists of 4096 nodes: 256 of them in one turn took 2 s."""
    turns = Turns(_Parser.__call__)
    monkeypatch.setattr(_Parser, "__call__", turns.counted)
    service.start()
    await _come(kube, apart_seconds=0.0)
    await asyncio.sleep(LONGEST_UNTOLD_SECONDS)
    assert (turns.calls, slurm.calls["submit"]) == (_SIZE, 1)
    service.reader.use_kill_wait(60)  # all that was read is void
    await asyncio.sleep(2 * LONGEST_UNTOLD_SECONDS)
    assert turns.calls == 2 * _SIZE
    assert turns.most <= 4


@pytest.mark.parametrize("size", [32, 128])
async def test_look_at_a_running_gang_costs_as_much_as_it_has_pods(slurm, kube, service, size):
    """A thousand pods on as many nodes took 1.3 s, because each pod went through all nodes."""
    await run_on_nodes(slurm, kube, service, size)
    await asyncio.sleep(10)
    assert len(kube.bindings) == size
    (unit,) = service.units
    with calls() as made:
        service.gatherer.facts(unit)
    assert made[0] < _CALLS_FOR_EACH * size


def _dear_pod(rank: int) -> dict[str, Any]:
    """A pod whose many containers make it dear to find out that it has not changed."""
    amounts = ResourceRequirements(requests={"cpu": "10m", "memory": "1Mi"})
    containers = tuple(Container(name=f"c{number}", resources=amounts) for number in range(60))
    return {"spec": PodSpec(termination_grace_period_seconds=20, containers=containers)}


def _pod_of_own_size(rank: int) -> dict[str, Any]:
    return {"cpu": str(rank + 1)}


@pytest.mark.parametrize("pod", [lambda _: {}, _dear_pod, _pod_of_own_size])
async def test_last_step_of_a_look_at_a_waiting_gang_costs_the_same_for_all_pods(
    kube, service, pod
):
    """With 60 containers in each of 1024 pods it took 280 ms, and 90 ms if each had a size of its
    own.
    """
    service.start()
    said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": str(_SIZE + 1)}
    for rank in range(_SIZE):
        kube.create(f"uid-{rank}", name=f"train-{rank}", annotations=said, **pod(rank))
    await asyncio.sleep(5)
    (unit,) = service.units
    ahead = await service.gatherer.read_ahead(unit)
    with calls() as made:
        service.gatherer.facts(unit, ahead)
    assert made[0] < _CALLS_FOR_EACH_WAITING * _SIZE


async def test_facts_of_large_gangs_are_gathered_one_gang_at_a_time(kube, service, monkeypatch):
    """Eight gangs of 1024 pods that were woken together took 750 ms."""
    turns = Turns(Gatherer.facts)
    monkeypatch.setattr(Gatherer, "facts", turns.counted)
    service.start()
    for gang in range(4):
        said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": str(_SIZE + 1)}
        for rank in range(_SIZE):
            kube.create(
                f"uid-{gang}-{rank}", name=f"t-{rank}", namespace=f"ns{gang}", annotations=said
            )
    await asyncio.sleep(5)
    before = turns.calls
    for gang in range(4):
        kube.edit(f"uid-{gang}-0", {f"{PREFIX}partition": "gpu"})
    await asyncio.sleep(5)
    assert turns.calls >= before + 4
    assert turns.most == 1


async def test_pod_that_changes_after_it_was_read_ahead_is_read_again(kube, service):
    service.start()
    await _come(kube, apart_seconds=0)
    await asyncio.sleep(5)
    (unit,) = service.units
    ahead = await service.gatherer.read_ahead(unit)
    for rank in range(_SIZE):
        kube.edit(f"uid-{rank}", {f"{PREFIX}partition": "gpu"})
    await asyncio.sleep(1)
    assert service.gatherer.facts(unit, ahead).request.partition == "gpu"


async def test_pods_of_a_gang_are_never_judged_by_different_rules(kube, service):
    service.start()
    await _come(kube, apart_seconds=0, size=_SIZE - 1)
    await asyncio.sleep(5)
    (unit,) = service.units
    ahead = ReadAhead(service.reader, unit)
    pods = [kube.store.get(uid) for uid in unit.uids]
    for pod in pods[:-1]:
        ahead.add(pod)
    service.reader.use_kill_wait(20)
    ahead.add(pods[-1])
    read = [ahead.checked().read(pod, unit).request for pod in pods]
    assert all(not isinstance(it, JobRequest) for it in read)


async def test_pods_of_a_gang_that_change_one_after_the_other_share_passes(
    slurm, kube, service, monkeypatch
):
    """Each pod of 1024 that ended took 80 ms: more than a minute, for which others waited."""
    await run_on_nodes(slurm, kube, service, _SIZE)
    await asyncio.sleep(20)
    assert len(kube.bindings) == _SIZE
    turns = Turns(Gatherer.facts)
    monkeypatch.setattr(Gatherer, "facts", turns.counted)
    for rank in range(_SIZE):
        kube.report(f"uid-{rank}", PodStatus(phase="Succeeded"))
        await asyncio.sleep(0.005)
    await asyncio.sleep(5)
    assert 0 < turns.calls <= 20
    assert not slurm.live(1)


async def test_many_pods_that_are_gone_are_forgotten_at_once(kube, service, monkeypatch):
    """Each of 2046 had those that were left counted anew, which took 109 ms in one turn."""
    service.start()
    await _come(kube, apart_seconds=0, size=_SIZE - 1)
    await asyncio.sleep(5)
    (unit,) = service.units
    counted = Turns(Unit.set_apart)
    monkeypatch.setattr(Unit, "set_apart", counted.counted)
    for rank in range(_SIZE - 2):
        kube.delete(f"uid-{rank}")
    await asyncio.sleep(5)
    assert [it.uid for it in unit.pods] == [f"uid-{_SIZE - 2}"]
    assert counted.calls <= 2
    assert kube.asked["get"] == 0


async def test_refused_bind_is_told_though_another_fails(slurm, kube, service, monkeypatch):
    bind = kube.bind

    async def failing(namespace, name, uid, **more):
        if uid == "uid-0":
            return Refused("a webhook says no")
        if uid == "uid-9":
            raise KubeUnreachable("no answer")
        return await bind(namespace, name, uid, **more)

    monkeypatch.setattr(kube, "bind", failing)
    await run_on_nodes(slurm, kube, service, _SIZE)
    await asyncio.sleep(5)
    assert Reason.BIND_REFUSED in service.recorder.reasons("uid-0")
    monkeypatch.undo()
    await asyncio.sleep(60)
    assert len(kube.bindings) == _SIZE


async def test_binds_of_a_gang_that_are_refused_are_told_once(slurm, kube, service):
    """Each refusal was told on all pods: a million Events for 1024 pods, at each try."""
    kube.refuses["bind"] = "a webhook says no"
    await run_on_nodes(slurm, kube, service, _SIZE)
    await asyncio.sleep(1)
    told = service.recorder.reasons().count(Reason.BIND_REFUSED)
    assert told == _SIZE
    assert 0 < kube.asked["bind"] <= 31
    assert "refuses to bind" in kube.condition_of("uid-63").message
    del kube.refuses["bind"]
    await asyncio.sleep(30)
    assert len(kube.bindings) == _SIZE
