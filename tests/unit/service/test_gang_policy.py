"""A policy says which pods form gangs, by namespace: what becomes of groups, old and new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest
from msgspec.structs import replace

from annotations.problems import Problem
from scheduler.core.gang_sources import ALL_SOURCES, MOST_GANG_PODS, Membership, Outsider
from scheduler.core.naming import JOB_ID
from scheduler.facts.memberships import Memberships
from scheduler.kube.wire import Namespace, ObjectMeta, Pod, PodSpec, PodStatus
from scheduler.policy.rulebook import Rulebook
from scheduler.state import gangs as gangs_module
from scheduler.state import single_groups
from scheduler.state.gangs import Gangs
from slurmapi import BaseState
from tests.support.costs import calls, least_cpu_seconds
from tests.unit.policy.policies import policy
from tests.unit.policy.test_policy_costs import rules
from tests.unit.service.test_gangs import FAILED, PREFIX, job, member, of_job, runs, started
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
NO_GANGS = "rules: [{name: alone, namespaces: [ns], gangs: []}]"
ONLY_JOBS = "rules: [{name: jobs, namespaces: [ns], gangs: [job]}]"
FORCED = "rules: [{name: alone, namespaces: [ns], forced: {gang: none}}]"


async def two(service: Service, kube: TinyKube, *, prefix: str = "uid") -> list[int | None]:
    """Two pods that their annotations make a gang. Returns how many nodes each job asks for."""
    service.start()
    for rank in (0, 1):
        member(kube, rank, uid=f"{prefix}-{rank}")
    await asyncio.sleep(3)
    return [it.nodes for it in service.slurm.submissions.values()]


@pytest.mark.parametrize("text", [NO_GANGS, ONLY_JOBS, FORCED])
async def test_rule_has_pods_served_one_by_one_and_each_is_told(kube, service, text):
    service.rulebook.take(policy(text))
    assert await two(service, kube) == [1, 1]
    told = [it for it in service.recorder.events if it.uid == "uid-0"]
    texts = [it.message for it in told if it.reason in {"NotInGang", "PolicyApplied"}]
    assert len(texts) == 1
    assert "'train'" in texts[0]
    assert policy(text).rules[0].name in texts[0]


async def test_rule_about_another_namespace_changes_nothing(kube, service):
    service.rulebook.take(policy("rules: [{name: r, namespaces: [other], gangs: []}]"))
    assert await two(service, kube) == [2]


async def test_first_rule_that_names_sources_decides(kube, service):
    first = "{name: a, namespaces: [ns], gangs: [annotations]}"
    service.rulebook.take(policy(f"rules: [{first}, {{name: b, gangs: []}}]"))
    assert await two(service, kube) == [2]


async def test_batch_job_is_a_gang_only_where_the_rule_says_so(slurm, kube, service):
    service.rulebook.take(policy("rules: [{name: r, namespaces: [ns], gangs: [annotations]}]"))
    kube.groups["train"] = job()
    service.start()
    of_job(kube, 0)
    of_job(kube, 1)
    await asyncio.sleep(3)
    assert [it.nodes for it in slurm.submissions.values()] == [1, 1]


async def test_pod_that_wants_no_gang_is_served_alone_whatever_the_default_is(slurm, kube, service):
    service.rulebook.take(policy("rules: [{name: r, defaults: {gang: all, gang-size: 2}}]"))
    service.start()
    kube.create("uid-0", name="a", annotations={f"{PREFIX}gang": "none"})
    await asyncio.sleep(3)
    kube.create("uid-1", name="b")
    kube.create("uid-2", name="c")
    await asyncio.sleep(3)
    assert [it.nodes for it in slurm.submissions.values()] == [1, 2]


async def test_name_that_is_not_allowed_is_refused_and_served_after_a_new_policy(
    slurm, kube, service
):
    service.rulebook.take(policy("rules: [{name: r, allowed: {gang: [none]}}]"))
    assert await two(service, kube) == []
    assert "gang is 'train'; expected one of 'none'" in kube.condition_of("uid-0").message
    service.rulebook.take(policy("rules: []"))
    await service.memory.news.policy_changed()
    await asyncio.sleep(3)
    assert [it.nodes for it in slurm.submissions.values()] == [2]


async def test_gang_that_exists_goes_on_under_new_rules(slurm, kube, service):
    job_id = await started(slurm, kube, service)
    service.rulebook.take(policy(NO_GANGS))
    await service.memory.news.policy_changed()
    kube.report("uid-1", FAILED)
    await asyncio.sleep(3)
    member(kube, 1, uid="anew")
    await asyncio.sleep(5)
    assert dict(kube.bindings)["anew"] == "n2"
    assert (slurm.calls["submit"], slurm.live(job_id)) == (1, True)


async def test_next_process_knows_the_gang_under_new_rules(slurm, kube):
    first = Service(slurm, kube)
    job_id = await started(slurm, kube, first)
    await first.kill()
    kube.relist()
    second = Service(slurm, kube)
    second.rulebook.take(policy(NO_GANGS))
    second.start()
    await asyncio.sleep(5)
    assert {unit.key for unit in second.units} == {second.memory.gangs.key_of("uid-0")}
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(10)
    assert sorted(kube.deleted) == ["uid-0", "uid-1"]


async def test_half_of_a_group_that_came_before_decides_for_the_other(slurm, kube, service):
    """Else it would wait for ever for pods that have jobs of their own."""
    service.rulebook.take(policy(NO_GANGS))
    service.start()
    member(kube, 0)
    await asyncio.sleep(3)
    service.rulebook.take(policy("rules: []"))
    member(kube, 1)
    await asyncio.sleep(3)
    assert [it.nodes for it in slurm.submissions.values()] == [1, 1]
    for uid in ("uid-0", "uid-1"):
        kube.force_delete(uid)
    await asyncio.sleep(3)
    for rank in (0, 1):
        member(kube, rank, uid=f"next-{rank}")
    await asyncio.sleep(3)
    assert [it.nodes for it in slurm.submissions.values()][2:] == [2]


async def test_pods_wait_for_the_labels_of_their_namespace(slurm, kube, service):
    service.rulebook.take(
        policy("rules: [{name: r, namespaceSelector: {matchLabels: {a: b}}, gangs: []}]")
    )
    assert await two(service, kube) == []
    found = Namespace(ObjectMeta(name="ns", uid="n", labels={"a": "b"}))
    kube.namespaces.apply(found)
    service.memory.news.namespace_changed(None, found)
    await asyncio.sleep(3)
    assert [it.nodes for it in slurm.submissions.values()] == [1, 1]


async def test_only_pods_of_a_namespace_whose_labels_have_changed_get_a_pass(kube, service):
    service.start()
    for uid, namespace in (("uid-0", "a"), ("uid-1", "b")):
        kube.create(uid, name=uid, namespace=namespace)
    await asyncio.sleep(10)
    news = service.memory.news
    former = Namespace(ObjectMeta(name="a", uid="n", labels={"a": "b"}, annotations={"at": "1"}))
    labelled = Namespace(ObjectMeta(name="a", uid="n", labels={"a": "c"}))
    annotated = Namespace(ObjectMeta(name="a", uid="n", labels={"a": "b"}, annotations={"at": "2"}))
    assert await _passes_after(service, partial(news.namespace_changed, former, annotated)) == 0
    assert await _passes_after(service, partial(news.namespace_changed, former, labelled)) == 1
    before = service.metric("workqueue_adds_total")
    await news.policy_changed()
    assert service.metric("workqueue_adds_total") == before + 2


async def _passes_after(service: Service, change: Callable[[], None]) -> float:
    before = service.metric("workqueue_adds_total")
    change()
    await asyncio.sleep(0.5)
    return service.metric("workqueue_adds_total") - before


async def test_job_of_a_gang_runs_beside_rules_about_other_annotations(slurm, kube, service):
    service.rulebook.take(policy("rules: [{name: r, forced: {qos: high}}]"))
    assert await two(service, kube) == [2]
    await runs(slurm, 1)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n2"}


def pod(uid: str, **annotations: str) -> Pod:
    said = {f"{PREFIX}{name.replace('_', '-')}": value for name, value in annotations.items()}
    return Pod(
        ObjectMeta(name=f"p-{uid}", namespace="ns", uid=uid, annotations=said), spec=PodSpec()
    )


def ruled(text: str) -> Memberships:
    found = Memberships(ALL_SOURCES, prefixes=[PREFIX])
    found.judge_by(Rulebook(prefixes=[PREFIX], policy=policy(text)))
    return found


@pytest.mark.parametrize(
    ("annotations", "kind"),
    [
        ({"gang": "train", "gang_size": "2"}, Outsider),
        ({"gang": "train"}, Outsider),
        ({"gang": "none", "gang_size": "2"}, type(None)),
        ({"gang_rank": "1"}, type(None)),
        ({"gang_size": "2"}, Problem),
        ({}, type(None)),
    ],
)
def test_what_a_rule_without_gangs_makes_of_annotations(annotations, kind):
    assert type(ruled(NO_GANGS)(pod("u", **annotations))) is kind


def test_forced_name_counts_in_place_of_the_pods_own():
    found = ruled("rules: [{name: r, forced: {gang: ours}}]")(pod("u", gang="a", gang_size="2"))
    assert isinstance(found, Membership)
    assert found.name == "ours"


class NoPods:
    def get(self, uid: str, /) -> Pod | None:
        return None


def test_groups_that_are_served_singly_are_forgotten(monkeypatch):
    monkeypatch.setattr(single_groups, "MOST_GROUPS", 100)
    gangs = Gangs(ruled(NO_GANGS), NoPods())
    for number in range(300):
        gangs.came(pod(f"u{number}", gang=f"g{number}", gang_size="2"))
    assert len(gangs._singles._groups["ns"]) == len(gangs._singles._keys) == 100
    for number in range(300):
        gangs.went(f"u{number}")
    assert not gangs._singles._groups
    assert not gangs._singles._keys


def test_groups_of_others_push_out_none(monkeypatch):
    """The pods that come later would wait for ever for one that is served singly."""
    monkeypatch.setattr(single_groups, "MOST_GROUPS", 100)
    gangs = Gangs(ruled("rules: [{name: alone, gangs: []}]"), NoPods())
    mine = pod("mine", gang="mine", gang_size="2")
    gangs.came(mine)
    for number in range(300):
        other = pod(f"u{number}", gang=f"g{number}", gang_size="2")
        gangs.came(replace(other, metadata=replace(other.metadata, namespace="crowd")))
    assert list(gangs._singles._groups) == ["ns", "crowd"]
    assert len(gangs._singles._groups["crowd"]) == 100


def test_groups_of_deleted_namespaces_are_forgotten(monkeypatch):
    monkeypatch.setattr(single_groups, "MOST_NAMESPACES", 10)
    gangs = Gangs(ruled("rules: [{name: alone, gangs: []}]"), NoPods())
    for number in range(30):
        other = pod(f"u{number}", gang="g", gang_size="2")
        gangs.came(replace(other, metadata=replace(other.metadata, namespace=f"ns-{number}")))
    assert len(gangs._singles._groups) == len(gangs._singles._keys) == 10


class Ended(NoPods):
    """Pods of which those that were named here have ended, or are being deleted."""

    def __init__(self) -> None:
        self.ended = set[str]()
        self.deleted = set[str]()

    def get(self, uid: str, /) -> Pod | None:
        if uid in self.deleted:
            made = pod(uid)
            return replace(
                made, metadata=replace(made.metadata, deletion_timestamp=datetime.now(UTC))
            )
        phase = "Failed" if uid in self.ended else "Running"
        return replace(pod(uid), status=PodStatus(phase=phase))


def _end(gangs: Gangs, pods: Ended, how: str, letter: str) -> None:
    """Four pods end, or are being deleted, and the watch shows that."""
    uids = [f"{letter}{number}" for number in range(4)]
    getattr(pods, how).update(uids)
    for each in filter(None, map(pods.get, uids)):
        gangs.changed(each)


@pytest.mark.parametrize("how", ["ended", "deleted"])
def test_pods_that_end_or_have_ended_take_nobodys_place_in_a_gang(monkeypatch, how):
    """A batch Job keeps its failed pods beside those that replace them, and replaces those that are
    being deleted at once: of a gang of 600 pods that was preempted, 176 were refused for ever.
    """
    monkeypatch.setattr(gangs_module, "MOST_GANG_PODS", 4)
    monkeypatch.setattr(gangs_module, "MOST_WITH_ENDED", 8)
    pods = Ended()
    gangs = Gangs(ruled("rules: []"), pods)

    def refused(uid: str) -> bool:
        gangs.came(pod(uid, gang="g", gang_size="4"))
        return uid in gangs.flaws

    assert [refused(f"a{number}") for number in range(5)] == [False] * 4 + [True]
    _end(gangs, pods, how, "a")
    assert [refused(f"b{number}") for number in range(5)] == [False] * 4 + [True]
    _end(gangs, pods, how, "b")
    assert refused("c0"), "not more than so many, even if they have ended"


def test_thousand_rules_about_gangs_cost_a_pod_little_more_than_one():
    def cost(count: int) -> float:
        text = rules(count).replace("forced: {qos: q", "gangs: [job], forced: {qos: q")
        read, one = ruled(text), pod("u", gang="g", gang_size="2")
        return least_cpu_seconds(lambda: [read(one) for _ in range(200)])

    assert cost(1000) < 4 * cost(1)


def test_pod_that_comes_to_a_large_gang_costs_the_same_however_many_are_there():
    """1024 pods that replaced others took 450 ms, because each went through all of them."""

    def cost(there: int) -> int:
        gangs = Gangs(ruled("rules: []"), Ended())
        for number in range(there):
            gangs.came(pod(f"a{number}", gang="g", gang_size="1024"))
        late = [pod(f"b{number}", gang="g", gang_size="1024") for number in range(50)]
        with calls() as made:
            for each in late:
                gangs.came(each)
        return made[0]

    assert cost(MOST_GANG_PODS) < 2 * cost(10)


async def test_pods_of_a_namespace_that_becomes_known_meanwhile_are_one_gang(slurm, kube, service):
    """The first was served alone, and the other waited for it for ever."""
    service.rulebook.take(
        policy("rules: [{name: r, namespaceSelector: {matchLabels: {a: b}}, gangs: [annotations]}]")
    )
    service.start()
    await asyncio.sleep(3)
    shown = kube.on_change

    def show(uid: str) -> None:
        shown(uid)
        if uid == "uid-0":  # its Namespace becomes known in the same turn of the loop
            found = Namespace(ObjectMeta(name="ns", uid="ns", labels={"a": "b"}))
            kube.namespaces.apply(found)
            service.memory.news.namespace_changed(None, found)

    kube.on_change = show
    service.memory.news.nodes_changed(None)  # a round is under way
    await asyncio.sleep(0.03)
    member(kube, 0)
    await asyncio.sleep(1)
    member(kube, 1)
    await asyncio.sleep(10)
    (unit,) = service.units
    assert [it.name for it in unit.pods] == ["train-0", "train-1"]
    assert slurm.calls["submit"] == 1


async def test_copy_that_is_listed_first_does_not_dissolve_a_running_gang(slurm, kube):
    former = Service(slurm, kube)
    job_id = await started(slurm, kube, former)
    await former.kill()
    said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": "2", JOB_ID: str(job_id)}
    kube.create("copy", name="a-copy", annotations=said)
    await asyncio.sleep(1)
    pods = sorted(kube.store, key=lambda it: it.metadata.uid != "copy")
    for each in pods:
        kube._mirror.remove(each.metadata.uid)
    for each in pods:
        kube._mirror.apply(each)
    service = Service(slurm, kube)
    service.start()
    await asyncio.sleep(60)
    gang = next(it for it in service.units if it.gang is not None)
    assert [it.name for it in gang.pods] == ["train-0", "train-1"]
    assert slurm.live(job_id)
    await service.kill()
