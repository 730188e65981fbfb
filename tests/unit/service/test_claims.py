"""What an author writes on a pod costs its own unit a look, and nobody else anything."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.core.budgets import Budgets
from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.execute.claim_budget import NAMESPACE_CLAIMS as CLAIMED
from scheduler.execute.claim_budget import START_SECONDS
from scheduler.execute.placeholder import CLAIM_PRIORITY
from scheduler.facts import newcomers
from scheduler.facts.claims import BEFORE_US
from scheduler.observe.wake import WakeCause
from scheduler.state.units import Placeholder, Unit
from slurmapi import BaseState, JobState, SlurmDenied, SlurmGarbled, SlurmRefused
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
RUNNING = JobState(BaseState.RUNNING)
NO_ID = 4_000_000_000
FORGER = "forger-uid"
# A request for each would be ten times what all together may cost.
MANY = 250


@pytest.fixture
async def service(slurm: TinySlurm, kube: TinyKube) -> AsyncIterator[Service]:
    """A process that starts when the test says so, as after a restart."""
    slurm.no_ids.add(NO_ID)
    service = Service(slurm, kube)
    yield service
    service.unharmed()
    await service.kill()


def ours(slurm: TinySlurm, uid: str, *, node: str = "n1", state: JobState = RUNNING) -> int:
    """A job that a former process made for the pod of that uid."""
    return slurm.add(
        name=f"ns.train.{uid[:8]}",
        admin_comment=tag_of(owner=OWNER, uids=(uid,)),
        state=state,
        nodes=(node,),
    )


def looks_at(slurm: TinySlurm, job_id: int) -> int:
    return slurm.asked.count(("job", (job_id,)))


async def start(kube: TinyKube, service: Service, *, seconds: float = 10.0) -> None:
    await asyncio.sleep(2 * kube.lag)
    service.start()
    await asyncio.sleep(seconds)


@pytest.mark.parametrize("claim", [NO_ID, 900_000, 1], ids=["no id", "unknown", "another's"])
async def test_claimed_id_stalls_neither_census_nor_its_own_unit(slurm, kube, service, claim):
    """The scheduler had bound the forger too, whose author then wrote another id."""
    assert slurm.add(state=RUNNING, nodes=("n2",)) == 1, "somebody else's"
    held = ours(slurm, FORGER)
    kube.create(FORGER, name="forger", node="n1", annotations={JOB_ID: str(claim)})
    kube.create("new-uid", name="new")
    await start(kube, service)
    assert service.census.completed_at is not None
    assert service.job_of("new-uid") is not None
    assert service.job_of(FORGER) == held
    assert kube.pods[FORGER].metadata.annotations[JOB_ID] == str(held)
    assert looks_at(slurm, claim) <= 2
    assert slurm.calls["submit"] == 1, "for the new pod"
    assert slurm.live(1)
    slurm.end(held, BaseState.TIMEOUT)
    await asyncio.sleep(5)
    assert kube.deleted == [FORGER]


async def test_job_that_another_pod_claims_is_found_for_its_own_by_the_first_census(slurm, service):
    """A claim that nobody has looked at yet hides no job."""
    held = ours(slurm, "victim-uid")
    now = asyncio.get_running_loop().time()
    claim = Placeholder(held, claimed=True)
    service.units.add(Unit(FORGER, "ns", "forger", seen_at=now, job=claim))
    service.units.add(Unit("victim-uid", "ns", "victim", seen_at=now, doubt_since=BEFORE_US))
    census = asyncio.create_task(service.census.run())
    async with asyncio.timeout(10):
        while service.census.completed_at is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
    census.cancel()
    assert service.job_of("victim-uid") == held


async def test_job_that_too_many_claim_is_followed_for_its_own_pod(
    slurm, kube, service, monkeypatch
):
    """Each change of a job concerned all that claim it in one turn of the loop: 130 ms for 10 000
    gated pods that anybody may create.
    """
    monkeypatch.setattr(newcomers, "MOST_CLAIMS", 3)
    held = ours(slurm, "victim-uid")
    claim = {JOB_ID: str(held)}
    for number in range(9):
        kube.create(f"forger-{number}", name=f"f{number}", annotations=claim, gates=["later"])
    kube.create("victim-uid", name="victim", node="n1", annotations=claim)
    await start(kube, service)
    assert len(service.units.by_job(held)) <= 3
    assert service.job_of("victim-uid") == held
    slurm.end(held, BaseState.TIMEOUT)
    await asyncio.sleep(5)
    assert kube.deleted == ["victim-uid"]


async def test_job_is_found_though_its_unit_drops_a_false_claim_while_the_census_looks(
    slurm, service
):
    native = slurm.add(state=RUNNING, nodes=("n2",))
    held = ours(slurm, FORGER)
    now = asyncio.get_running_loop().time()
    unit = Unit(FORGER, "ns", "forger", seen_at=now, job=Placeholder(native, claimed=True))
    service.units.add(unit)
    slurm.seconds["job"] = 1.0
    census = asyncio.create_task(service.census.run())
    async with asyncio.timeout(10):
        while looks_at(slurm, native) < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
        service.units.drop_false_claim(unit, others=native, doubt_since=BEFORE_US)
        while service.census.completed_at is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
    census.cancel()
    assert service.job_of(FORGER) == held
    assert unit.doubt_since is None


async def test_pod_that_names_anothers_job_is_told_whose_it_is(slurm, kube, service):
    native = slurm.add(state=RUNNING, nodes=("n2",))
    kube.create(FORGER, name="forger", node="n1", annotations={JOB_ID: str(native)})
    await start(kube, service)
    messages = [it.message for it in service.recorder.events if it.reason == "PlaceholderLost"]
    assert messages == [
        f"The pod runs on n1 without a Slurm job: id {native} belongs to another job now"
    ]


async def test_jobs_of_others_are_followed_beside_claims_that_are_no_ids(slurm, kube, service):
    jobs = {uid: ours(slurm, uid) for uid in (f"{number:08}-uid" for number in range(20))}
    for uid, job_id in jobs.items():
        kube.create(uid, name=f"train-{uid}", node="n1", annotations={JOB_ID: str(job_id)})
    for number in range(5):
        slurm.no_ids.add(NO_ID - 5 + number)
        kube.create(
            f"forger-{number}",
            name=f"forger-{number}",
            node="n2",
            annotations={JOB_ID: str(NO_ID - 5 + number)},
        )
    await start(kube, service)
    for job_id in jobs.values():
        slurm.end(job_id, BaseState.TIMEOUT)
    await asyncio.sleep(60)
    assert sorted(kube.deleted) == sorted(jobs)
    for number in range(5):
        assert looks_at(slurm, NO_ID - 5 + number) <= 1


async def test_waiting_pod_that_claims_what_is_no_id_gets_a_job_at_once(slurm, kube, service):
    service.start()
    await asyncio.sleep(5)
    censuses = slurm.calls["all_states"]
    kube.create(FORGER, annotations={JOB_ID: str(NO_ID)})
    await asyncio.sleep(2)
    assert slurm.calls["submit"] == 1
    assert slurm.calls["all_states"] == censuses


async def test_claim_that_proves_true_is_taken_without_a_census(slurm, kube, service):
    held = ours(slurm, "true-uid")
    kube.create("true-uid", node="n1", annotations={JOB_ID: str(held)})
    await start(kube, service, seconds=0.1)
    assert service.job_of("true-uid") == held
    assert looks_at(slurm, held) <= 2  # the census looks at it at the same time


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_finished_pods_whose_jobs_are_gone_cost_one_request_for_all(
    slurm, kube, service, phase
):
    for number in range(MANY):
        kube.create(
            f"{number:08}-uid",
            name=f"done-{number}",
            node="n1",
            annotations={JOB_ID: str(100 + number)},
            phase=phase,
        )
    await start(kube, service, seconds=1.0)
    assert len(service.units) == 0
    assert slurm.calls["job"] == 0
    assert slurm.calls["states"] <= 1
    assert slurm.calls.total() <= 8
    for uid in kube.pods:
        service.queue.add(uid, WakeCause.WATCH)  # as when all pods are looked at again
    await asyncio.sleep(5)
    assert len(service.units) == 0
    assert slurm.calls["job"] == 0
    assert slurm.calls["states"] <= 3


async def test_one_bad_id_among_finished_pods_costs_a_few_requests(slurm, kube, service):
    for number in range(MANY):
        bad = NO_ID if number == MANY // 2 else 100 + number
        kube.create(
            f"{number:08}-uid",
            name=f"done-{number}",
            node="n1",
            annotations={JOB_ID: str(bad)},
            phase="Failed",
        )
    await start(kube, service, seconds=5.0)
    assert len(service.units) == 0
    assert slurm.calls["job"] == 0
    assert slurm.calls["states"] <= 25


async def test_more_bad_ids_than_a_pulse_can_find_cost_each_unit_one_look(slurm, kube, service):
    for number in range(400):
        slurm.no_ids.add(1000 + 2 * number)
        kube.create(
            f"{number:08}-uid",
            name=f"done-{number}",
            node="n1",
            annotations={JOB_ID: str(1000 + number)},
            phase="Failed",
        )
    await start(kube, service, seconds=20.0)
    assert len(service.units) == 0
    assert slurm.calls["states"] + slurm.calls["job"] <= 400 + 64 + 20


async def test_finished_pod_whose_job_lives_gives_it_back(slurm, kube, service):
    held = ours(slurm, "done-uid")
    kube.create("done-uid", node="n1", annotations={JOB_ID: str(held)}, phase="Succeeded")
    await start(kube, service)
    assert not slurm.live(held)


@pytest.mark.parametrize("older_is_held", [True, False])
async def test_of_two_jobs_that_wait_the_one_that_can_run_stays(
    slurm, kube, service, older_is_held
):
    pending = JobState(BaseState.PENDING)
    jobs = [ours(slurm, "twin-uid", state=pending, node="") for _ in range(2)]
    held, free = jobs if older_is_held else reversed(jobs)
    slurm.change(held, BaseState.PENDING, held=True, state_reason="JobHeldAdmin", priority=0)
    kube.create("twin-uid", annotations={JOB_ID: str(held)})
    await start(kube, service, seconds=30)
    assert slurm.live(free)
    assert not slurm.live(held)
    assert service.job_of("twin-uid") == free


FORGED = {JOB_NODES: "n1", JOB_ID: "4711"}


@pytest.mark.parametrize("starts", [True, False], ids=["then started there", "then lost"])
async def test_node_that_an_author_wrote_earns_no_priority(slurm, kube, service, starts):
    kube.create(FORGER, node="n1", annotations=FORGED)
    await start(kube, service)
    first = service.job_of(FORGER)
    assert slurm.submissions[first].required_nodes == ("n1",)
    assert slurm.submissions[first].priority is None
    if starts:
        slurm.start(first)  # by its place in the queue: from now on Slurm has given the node
        await asyncio.sleep(10)
    slurm.forget(first)
    await asyncio.sleep(60)
    second = service.job_of(FORGER)
    assert second != first
    assert slurm.submissions[second].priority == (CLAIM_PRIORITY if starts else None)


async def test_pod_that_loses_the_job_it_was_bound_by_comes_first(slurm, kube, service):
    held = ours(slurm, "true-uid")
    kube.create("true-uid", node="n1", annotations={JOB_ID: str(held), JOB_NODES: "n1"})
    await start(kube, service)
    slurm.forget(held)
    await asyncio.sleep(60)
    again = service.job_of("true-uid")
    assert slurm.submissions[again].priority == CLAIM_PRIORITY
    assert slurm.submissions[again].required_nodes == ("n1",)


STRIPPED: dict[str, dict[str, str]] = {
    "both taken away": {},
    "the id taken away": {JOB_NODES: "n1"},
    "another id": {JOB_NODES: "n1", JOB_ID: "900000"},
    "no id": {JOB_NODES: "n1", JOB_ID: str(NO_ID)},
}


@pytest.mark.parametrize("annotations", STRIPPED.values(), ids=STRIPPED)
async def test_pod_that_names_no_job_of_its_own_does_not_outlive_it(
    slurm, kube, service, annotations
):
    """Its job has ended while no scheduler ran, and its author has changed the annotations."""
    for _ in range(50):
        slurm.add(state=JobState(BaseState.COMPLETED))
    ours(slurm, FORGER, state=JobState(BaseState.TIMEOUT))
    for _ in range(50):
        slurm.add(state=JobState(BaseState.COMPLETED))
    kube.create(FORGER, name="forger", node="n1", annotations=annotations)
    kube.create("new-uid", name="new")
    await start(kube, service)
    assert kube.deleted == [FORGER]
    assert service.job_of("new-uid") is not None
    assert [it.uid for it in service.recorder.events if it.reason == "TimeLimit"] == [FORGER]
    assert slurm.calls["submit"] == 1, "for the new pod: the node of the other is not asked for"
    looked = slurm.calls["job"]
    await asyncio.sleep(700)
    assert slurm.calls["job"] - looked < 100, "ended jobs are looked at once"


async def test_live_job_of_a_pod_without_annotations_is_found_and_followed(slurm, kube, service):
    held = ours(slurm, FORGER)
    kube.create(FORGER, name="forger", node="n1")
    await start(kube, service)
    assert kube.pods[FORGER].metadata.annotations[JOB_ID] == str(held)
    slurm.end(held, BaseState.TIMEOUT)
    await asyncio.sleep(5)
    assert kube.deleted == [FORGER]


async def test_pod_that_others_have_placed_is_left_alone_and_holds_up_nobody(slurm, kube, service):
    made = datetime(2026, 1, 2, tzinfo=UTC)
    for _ in range(3000):
        slurm.add(
            state=JobState(BaseState.COMPLETED),
            submit_time=int((made - timedelta(days=1)).timestamp()),
        )
    kube.create("placed-uid", name="placed", node="n1", created=made)
    kube.create("new-uid", name="new", created=made)
    await start(kube, service)
    assert service.job_of("new-uid") is not None
    assert service.job_of("placed-uid") is None
    assert slurm.calls["job"] <= 10, "older jobs than the pod are none of its"
    assert kube.deleted == []


async def test_ended_jobs_are_not_looked_at_where_each_pod_names_its_own(slurm, kube, service):
    for _ in range(1000):
        slurm.add(state=JobState(BaseState.COMPLETED))
    for number in range(20):
        uid = f"{number:08}-uid"
        held = str(ours(slurm, uid))
        kube.create(uid, name=f"train-{uid}", node="n1", annotations={JOB_ID: held})
    await start(kube, service)
    assert slurm.calls["job"] <= 60


NO_WORD = [
    SlurmGarbled("JSON of somebody else"),
    SlurmDenied("a page for people", status=403),
    SlurmRefused("a page for people", status=500),
]


@pytest.mark.parametrize("error", NO_WORD, ids=lambda it: type(it).__name__)
@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "not recorded"])
@pytest.mark.parametrize("times", range(1, 8))
async def test_pod_keeps_its_job_though_a_gateway_answers_the_first_looks(
    slurm, kube, service, error, recorded, times
):
    """Else a second job is asked for on its node, which the first holds: others would seem to."""
    held = ours(slurm, "true-uid")
    recorded_as = {JOB_ID: str(held)} if recorded else {}
    kube.create("true-uid", node="n1", annotations=recorded_as)
    slurm.fail["job"].extend([error] * times)
    await start(kube, service, seconds=60)
    assert service.job_of("true-uid") == held
    assert slurm.calls["submit"] == 0


async def test_namespace_that_names_jobs_without_end_costs_slurm_a_bounded_number_of_looks(
    slurm, kube, service
):
    """What is named beyond the budget is as if it was not: the pods get jobs of their own."""
    await start(kube, service, seconds=START_SECONDS + 10)
    held = ours(slurm, "honest-uid")
    burst, each = CLAIMED
    service.executor._learner._claimed._budgets = Budgets[str](20, each)
    uids = [f"{number:08}-forger" for number in range(300)]
    for number, uid in enumerate(uids):
        kube.create(
            uid, name=f"forger-{number}", namespace="hog", annotations={JOB_ID: str(500 + number)}
        )
    kube.create("honest-uid", name="honest", node="n1", annotations={JOB_ID: str(held)})
    await asyncio.sleep(5)
    looks = sum(looks_at(slurm, 500 + number) for number in range(len(uids)))
    assert burst > 20
    assert 20 <= looks <= 20 + 5 / each
    assert service.job_of("honest-uid") == held, "other namespaces have their own budget"
    jobs = {service.job_of(uid) for uid in uids}
    assert len(jobs) == len(uids)
    assert jobs <= slurm.jobs.keys()


@pytest.mark.parametrize("node", ["", "n1"], ids=["waits", "runs"])
async def test_job_of_a_group_is_left_alone_and_so_is_the_pod_that_names_it(
    slurm, kube, service, node
):
    """This process knows single pods only. The end of the job counts for the pod that runs."""
    job_id = group_job(slurm)
    annotations = {JOB_ID: str(job_id)} | ({JOB_NODES: node} if node else {})
    kube.create("uid-0", node=node, annotations=annotations)
    await start(kube, service, seconds=300.0)
    assert service.job_of("uid-0") == job_id
    assert slurm.live(job_id)
    assert (slurm.calls["submit"], kube.bindings, kube.deleted) == (0, [], [])
    told = kube.condition_of("uid-0")
    assert node or (told is not None and "submitted for a group of pods" in told.message)
    slurm.end(job_id, BaseState.TIMEOUT)
    await asyncio.sleep(5)
    assert kube.deleted == (["uid-0"] if node else [])
    assert slurm.calls["submit"] == int(not node), "the pod that waits gets a job of its own"


async def test_job_of_a_group_outlives_a_pod_of_it(slurm, kube, service):
    job_id = group_job(slurm)
    kube.create("uid-0", node="n1", annotations={JOB_ID: str(job_id), JOB_NODES: "n1"})
    await start(kube, service)
    kube.delete("uid-0")
    kube.end_containers("uid-0")
    await asyncio.sleep(120)
    assert slurm.live(job_id)
    assert slurm.calls["cancel"] == 0
    assert service.units.get("uid-0") is None


def group_job(slurm: TinySlurm) -> int:
    """A running job of two pods, which another version of the scheduler has submitted."""
    comment = tag_of(owner=OWNER, uids=("uid-0", "uid-1"), key="gang")
    return slurm.add(name="ns.train.gang", admin_comment=comment, state=RUNNING, nodes=("n1", "n2"))
