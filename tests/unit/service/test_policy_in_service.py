"""A policy between pods and Slurm: what is submitted, refused, told, and looked at again."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.kube.wire import Namespace, ObjectMeta
from scheduler.observe.wake import WakeCause
from slurmapi import BaseState
from tests.unit.core.things import tag
from tests.unit.policy.policies import PREFIX, policy
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
UID = "uid-0"
LIMITED = "rules: [{name: limits, namespaces: [ns], allowed: {account: [physics]}}]"
BY_LABEL = """
    rules:
    - {name: lab, namespaceSelector: {matchLabels: {team: lab}}, forced: {account: lab}}
    - {name: others, allowed: {account: []}}
    """


def take(service: Service, text: str) -> None:
    """Another policy is in force from now on."""
    service.rulebook.take(policy(text))
    for uid in service.kube.pods:
        service.queue.add(uid, WakeCause.WATCH)


def label(kube: TinyKube, service: Service, **labels: str) -> None:
    """The namespace comes, or its labels change, and the watch shows it."""
    kube.namespaces.apply(Namespace(ObjectMeta(name="ns", uid="n", labels=labels)))
    for uid in kube.pods:
        service.queue.add(uid, WakeCause.WATCH)


def refusals(service: Service) -> dict[str, float]:
    (family,) = service.metrics.policy_refusals.collect()
    return {
        it.labels["rule"]: it.value for it in family.samples if it.name.endswith("_refusals_total")
    }


async def test_refused_value_is_told_with_all_that_is_wrong_and_counted_once(slurm, kube, service):
    take(service, LIMITED)
    service.start()
    kube.create(UID, annotations={PREFIX + "account": "x", PREFIX + "timeout": "soon"})
    await asyncio.sleep(10)
    service.queue.add(UID, WakeCause.WATCH)
    await asyncio.sleep(10)
    condition = kube.condition_of(UID)
    assert condition.reason == "SchedulingFailed"
    assert "account is 'x'; expected one of 'physics' (policy rule 'limits')" in condition.message
    assert "timeout is 'soon'" in condition.message
    assert slurm.calls["submit"] == 0
    assert refusals(service) == {"limits": 1.0}


async def test_defaults_reach_slurm(slurm, kube, service):
    take(service, "rules: [{name: r, defaults: {account: physics, timeout: 90}}]")
    service.start()
    kube.create(UID)
    await asyncio.sleep(10)
    (submission,) = slurm.submissions.values()
    assert (submission.account, submission.time_limit_minutes) == ("physics", 2)


async def test_waiting_pod_that_a_new_policy_refuses_gives_its_job_back(slurm, kube, service):
    service.start()
    kube.create(UID, annotations={PREFIX + "account": "x"})
    await asyncio.sleep(10)
    assert slurm.live(1)
    take(service, LIMITED)
    await asyncio.sleep(10)
    assert not slurm.live(1)
    assert kube.condition_of(UID).reason == "SchedulingFailed"


async def test_refused_pod_is_served_when_a_new_policy_allows_it(slurm, kube, service):
    take(service, LIMITED)
    service.start()
    kube.create(UID, annotations={PREFIX + "account": "x"})
    await asyncio.sleep(10)
    take(service, "rules: []")
    await asyncio.sleep(10)
    assert [it.account for it in slurm.submissions.values()] == ["x"]


async def test_pod_that_runs_is_left_alone_by_a_new_policy(slurm, kube, service):
    service.start()
    kube.create(UID, annotations={PREFIX + "account": "x"})
    await asyncio.sleep(5)
    slurm.start(1)
    await asyncio.sleep(5)
    assert kube.bindings
    take(service, LIMITED)
    await asyncio.sleep(600)
    assert kube.deleted == []
    assert slurm.live(1)
    slurm.end(1, BaseState.PREEMPTED)
    await asyncio.sleep(10)
    assert kube.deleted == [UID]


async def test_labels_of_the_namespace_decide_and_their_change_is_noticed(slurm, kube, service):
    take(service, BY_LABEL)
    label(kube, service, team="others")
    service.start()
    kube.create(UID, annotations={PREFIX + "account": "mine"})
    await asyncio.sleep(5)
    assert "(policy rule 'others')" in kube.condition_of(UID).message
    label(kube, service, team="lab")
    await asyncio.sleep(5)
    assert [it.account for it in slurm.submissions.values()] == ["lab"]


async def test_pod_of_a_namespace_that_is_not_known_yet_waits(slurm, kube, service):
    """Else whoever is quick enough would escape the rules for a label."""
    take(service, BY_LABEL)
    service.start()
    kube.create(UID)
    await asyncio.sleep(60)
    assert slurm.calls["submit"] == 0
    assert kube.patches == []
    label(kube, service, team="lab")
    await asyncio.sleep(5)
    assert [it.account for it in slurm.submissions.values()] == ["lab"]


async def test_job_found_for_a_pod_of_a_namespace_that_is_not_known_yet_is_kept(
    slurm, kube, service
):
    """A census may know the pod's job before the watch of Namespaces knows whom the rules mean."""
    take(service, BY_LABEL)
    kube.create(UID)
    found = slurm.add(admin_comment=tag(uids=(UID,)))
    await asyncio.sleep(2 * kube.lag)
    service.start()
    await asyncio.sleep(60)
    assert slurm.live(found)
    assert kube.patches == []
    label(kube, service, team="lab")
    slurm.start(found)
    await asyncio.sleep(5)
    assert kube.bindings == [(UID, "n1")]
    assert slurm.calls["submit"] == 0


async def test_forced_value_is_told_once(slurm, kube, service):
    take(service, "rules: [{name: r, forced: {account: site}}]")
    service.start()
    kube.create(UID, annotations={PREFIX + "account": "mine"})
    await asyncio.sleep(5)
    slurm.end(1, BaseState.BOOT_FAIL)
    await asyncio.sleep(60)
    assert slurm.calls["submit"] >= 1
    assert service.recorder.reasons(UID).count("PolicyApplied") == 1


async def test_annotations_of_ours_on_a_pod_put_no_value_into_its_job(slurm, kube, service):
    """A manifest that was copied from a pod brings them along."""
    take(service, LIMITED)
    service.start()
    mine = {JOB_ID: "1", JOB_NODES: "n2", "slurm-pod-scheduler/account": "x"}
    kube.create(UID, annotations=mine)
    await asyncio.sleep(20)
    (submission,) = slurm.submissions.values()
    assert submission.account is None
    assert submission.required_nodes == ()


def lost(service: Service) -> list[str]:
    return [it.message for it in service.recorder.events if it.reason == "PlaceholderLost"]


async def runs(service: Service) -> None:
    """A pod that asked for an account, and got it."""
    service.start()
    await service.bound(UID, annotations={PREFIX + "account": "x"})


async def test_running_pod_that_a_new_policy_refuses_gets_its_lost_job_as_it_was(
    slurm, kube, service
):
    await runs(service)
    take(service, LIMITED)
    slurm.forget(1)
    await asyncio.sleep(30)
    (submission,) = slurm.submissions.values()
    assert (submission.account, submission.required_nodes) == ("x", ("n1",))
    (message,) = lost(service)
    assert "The policy would refuse the pod now" in message
    assert kube.deleted == []


async def test_running_pod_cannot_edit_its_way_around_a_policy(slurm, kube, service):
    await runs(service)
    take(service, LIMITED)
    kube.edit(UID, {PREFIX + "account": "vip"})
    slurm.forget(1)
    await asyncio.sleep(900)
    assert slurm.calls["submit"] == 1
    (message,) = lost(service)
    assert "runs without a Slurm job" in message
    assert "account is 'vip'; expected one of 'physics'" in message
    assert kube.deleted == []

    kube.edit(UID, {PREFIX + "account": "physics"})
    await asyncio.sleep(30)
    assert slurm.submissions[2].account == "physics"
