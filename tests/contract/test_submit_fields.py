"""Every field of a placeholder has the same effect on the models as on the real servers.

Each annotation that `test_slurmrestd.py` does not cover has a test or a row here.
docs/annotations.md relies on these tests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from slurmapi import BaseState, FileToken, Job, SlurmClient, SlurmRefused
from tests.contract.conftest import COMPLETING_SECONDS, SlurmPeer, is_over, second_of_slurm
from tests.contract.test_slurmrestd import UNKNOWN_ID, Jobs
from tests.rigs.slurm_conf import FEATURE, SPECIAL_FEATURE
from tests.support.slurm_rest import SlurmRest

_UNKNOWN_USER = 54321


class Fields:
    """Jobs of one peer, and the fields of their records that the client does not read."""

    def __init__(self, jobs: Jobs, peer: SlurmPeer) -> None:
        self.jobs = jobs
        self._rest = SlurmRest(peer.url, major=peer.major, token=peer.token("root"))
        self.peer = peer
        self.client = jobs.client

    async def submit(self, **more: Any) -> int:
        return await self.jobs.submit(**more)

    async def running(self, **more: Any) -> Job:
        return await self.jobs.running(await self.submit(**more))

    async def waiting(self, reasons: set[str], **more: Any) -> Job:
        """Submit a job, and return it once it is pending for one of these reasons."""
        job = await self.jobs.reasoned(await self.submit(**more), reasons)
        assert job.state.base is BaseState.PENDING
        return job

    async def refused(self, **more: Any) -> int:
        """Submit a job that must be refused. Returns the error number."""
        with pytest.raises(SlurmRefused) as refused:
            await self.submit(**more)
        return refused.value.error_number

    async def free(self, *names: str) -> None:
        """Wait until no job is COMPLETING on these nodes; Slurm would use other nodes before."""
        async with asyncio.timeout(COMPLETING_SECONDS):
            while True:
                found = [it for it in await self.client.nodes() if it.name in names]
                if not any("COMPLETING" in it.states for it in found):
                    return
                await asyncio.sleep(0.05)

    async def fill(self, node: str) -> Job:
        """Run a job that leaves no CPU of that node free."""
        return await self.running(required_nodes=(node,), cpus=64)

    async def end(self, job: Job) -> None:
        assert await self.client.cancel([job.job_id]) == {}
        await self.jobs.until(job.job_id, is_over)

    async def raw(self, job: Job | int, *, query: str = "") -> dict[str, Any]:
        """The raw job record, with plain numbers instead of {set, infinite, number} objects."""
        job_id = job if isinstance(job, int) else job.job_id
        answer = await asyncio.to_thread(self._rest.request, "GET", f"job/{job_id}{query}")
        return {key: _plain(value) for key, value in answer.body["jobs"][0].items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and "number" in value:
        return value["number"] if value["set"] else None
    return value


@pytest.fixture
async def fields(slurm_peer: SlurmPeer) -> AsyncIterator[Fields]:
    async with SlurmClient(slurm_peer.url, token=FileToken(slurm_peer.token_file)) as client:
        jobs = Jobs(client, slurm_peer)
        yield Fields(jobs, slurm_peer)
        await jobs.cancel_all()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"priority": 55}, {"priority": 55}),
        ({"priority": 55, "nice": 100}, {"priority": 55, "nice": 100}),
        ({"nice": 100}, {"priority": 1, "nice": 100}),
        ({"nice": -100}, {"priority": 100, "nice": -100}),
        ({"wckey": "project"}, {"wckey": "project"}),
        ({"switches": 1}, {"required_switches": 1, "maximum_switch_wait_time": 300}),
        (
            {"switches": 1, "switch_wait_seconds": 60},
            {"required_switches": 1, "maximum_switch_wait_time": 60},
        ),
        ({"requeue": True}, {"requeue": True}),
        ({"threads_per_core": 1}, {"threads_per_core": 1}),
        ({"user_id": 2001, "group_id": 2001}, {"user_name": "alice", "group_name": "alice"}),
        ({"user_id": 2001}, {"user_name": "alice", "group_id": 0}),
        ({"group_id": 2001}, {"user_name": "root", "group_id": 2001}),
        ({"working_directory": "/run"}, {"current_working_directory": "/run"}),
        ({"licenses": "compiler:2"}, {"licenses": "compiler:2"}),
        ({"gres": "gres/gpu:h100:1"}, {"tres_per_node": "gres/gpu:h100:1"}),
        ({"constraints": f"{FEATURE},{SPECIAL_FEATURE}"}, {"features": "standard&special"}),
        ({"partition": "main,high"}, {"partition": "high"}),
    ],
    ids=str,
)
async def test_field_is_taken_and_told_back(
    fields: Fields, asked: dict[str, Any], told: dict[str, Any]
) -> None:
    record = await fields.raw(await fields.running(**asked))
    assert {key: record[key] for key in told} == told


async def test_script_writes_nowhere(fields: Fields) -> None:
    record = await fields.raw(await fields.submit(working_directory="/run"))
    nowhere = "/dev/null" if fields.peer.major == "24.11" else ""
    assert (record["standard_output"], record["standard_error"]) == (nowhere, nowhere)


@pytest.mark.parametrize(
    ("asked", "number"),
    [
        ({"constraints": "nosuch"}, 2029),
        ({"constraints": f"!{FEATURE}"}, 2029),
        ({"constraints": f"({FEATURE}|({SPECIAL_FEATURE}&{FEATURE}))"}, 2029),
        ({"constraints": f"{FEATURE}&&{SPECIAL_FEATURE}"}, 2029),
        ({"constraints": f"[{FEATURE}"}, 2029),
        ({"prefer": "nosuch"}, 2133),
        ({"prefer": f"({FEATURE}|[{SPECIAL_FEATURE}])"}, 2133),
        ({"required_nodes": ("nosuch",)}, 2018),
        ({"excluded_nodes": ("nosuch",)}, 2018),
        ({"licenses": "nosuch:1"}, 2048),
        ({"licenses": "compiler:30"}, 2048),
        ({"dependency": f"afterok:{UNKNOWN_ID}"}, 2038),
        ({"dependency": f"afternotok:{UNKNOWN_ID}"}, 2038),
        ({"dependency": "whatever:1"}, 2038),
        ({"dependency": "expand:1"}, 2036),
        ({"begin": "soon"}, 9202),
        ({"deadline": "soon"}, 9202),
        ({"deadline": "now+5minutes", "time_limit_minutes": 10}, 2051),
        ({"deadline": "now+5minutes", "begin": "now+10minutes"}, 2051),
        ({"threads_per_core": 9}, 2014),
        ({"gres": "gres/gpu:h100:1,gres/gpu:1"}, 2119),
    ],
    ids=str,
)
async def test_field_that_slurm_refuses(fields: Fields, asked: dict[str, Any], number: int) -> None:
    assert await fields.refused(**asked) == number


async def test_node_both_required_and_excluded_is_refused(fields: Fields) -> None:
    node = (fields.peer.nodes[0],)
    assert await fields.refused(required_nodes=node, excluded_nodes=node) == 2018


@pytest.mark.parametrize(
    "constraints",
    [
        SPECIAL_FEATURE,
        f"{FEATURE}&{SPECIAL_FEATURE}",
        f"{SPECIAL_FEATURE}*1",
        f"[{SPECIAL_FEATURE}]",
        f"{FEATURE}|{FEATURE}&{SPECIAL_FEATURE}",
        f"{FEATURE}&({SPECIAL_FEATURE}|{SPECIAL_FEATURE})",
    ],
)
async def test_constraints_pick_the_node(fields: Fields, constraints: str) -> None:
    job = await fields.running(constraints=constraints)
    assert job.nodes == (fields.peer.special_node,)


async def test_preferred_node_is_taken_while_it_is_free_and_else_another(fields: Fields) -> None:
    await fields.free(fields.peer.special_node)
    job = await fields.running(prefer=SPECIAL_FEATURE)
    assert job.nodes == (fields.peer.special_node,)
    await fields.end(job)
    await fields.fill(fields.peer.special_node)
    assert (await fields.running(prefer=SPECIAL_FEATURE)).nodes != job.nodes


async def test_job_of_one_node_gets_any_of_those_required(fields: Fields) -> None:
    first, second = fields.peer.nodes[:2]
    await fields.free(first, second)
    job = await fields.running(required_nodes=(first, second))
    assert job.nodes == (first,)
    await fields.end(job)
    await fields.fill(first)
    assert (await fields.running(required_nodes=(first, second))).nodes == (second,)


async def test_shared_with_none_takes_the_whole_node(fields: Fields) -> None:
    node = (fields.peer.nodes[0],)
    job = await fields.running(required_nodes=node, shared="none")
    assert "cpu=64," in job.tres_allocated
    await fields.waiting({"Resources"}, required_nodes=node)


async def test_shared_with_the_user_takes_what_was_asked_and_keeps_others_away(
    fields: Fields,
) -> None:
    here: dict[str, Any] = {"required_nodes": (fields.peer.nodes[0],)}
    alice = here | {"user_id": 2001, "group_id": 2001}
    job = await fields.running(**alice, shared="user")
    assert "cpu=2," in job.tres_allocated
    assert (await fields.running(**alice)).nodes == job.nodes
    await fields.waiting({"Resources"}, **here)


async def test_job_for_one_user_alone_waits_for_the_others_to_leave(fields: Fields) -> None:
    here: dict[str, Any] = {"required_nodes": (fields.peer.nodes[0],)}
    await fields.running(**here)
    await fields.waiting({"Resources"}, **here, user_id=2001, group_id=2001, shared="user")


@pytest.mark.parametrize("shared", ["oversubscribe", "mcs", "topo"])
async def test_other_ways_to_share_keep_nobody_away_here(fields: Fields, shared: str) -> None:
    """No partition here oversubscribes, and neither MCS labels nor a topology are configured."""
    here: dict[str, Any] = {"required_nodes": (fields.peer.nodes[0],)}
    job = await fields.running(**here, shared=shared, gres="gres/gpu:1")
    assert "cpu=2," in job.tres_allocated
    other = await fields.running(**here, user_id=2001, group_id=2001)
    assert other.nodes == job.nodes


async def test_licenses_are_waited_for(fields: Fields) -> None:
    first = await fields.running(licenses="compiler:3")
    second = await fields.waiting({"Licenses"}, licenses="compiler:3")
    await fields.end(first)
    await fields.jobs.running(second.job_id)


async def test_begin_is_waited_for_in_either_form(fields: Fields) -> None:
    moment = int(time.time()) + 3600
    answer = await fields.raw(await fields.waiting({"BeginTime"}, begin=moment))
    assert answer["eligible_time"] == moment
    before = second_of_slurm()
    answer = await fields.raw(await fields.waiting({"BeginTime"}, begin="now+1hour"))
    assert before <= answer["eligible_time"] - 3600 <= time.time()
    answer = await fields.raw(await fields.waiting({"BeginTime"}, begin="2035-01-01T00:00:00"))
    assert answer["eligible_time"] == 2_051_222_400


async def test_begin_in_the_past_starts_at_once(fields: Fields) -> None:
    await fields.running(begin=int(time.time()) - 3600)


async def test_deadline_is_the_time_limit_of_a_job_without_one(fields: Fields) -> None:
    moment = int(time.time()) + 4000
    record = await fields.raw(await fields.running(deadline=moment))
    assert record["deadline"] == moment
    assert record["time_limit"] in {65, 66}
    before = second_of_slurm()
    record = await fields.raw(await fields.running(deadline="now+2hours", time_limit_minutes=10))
    assert before <= record["deadline"] - 7200 <= time.time()
    assert record["time_limit"] == 10


async def test_job_that_cannot_be_done_by_its_deadline_ends(fields: Fields) -> None:
    job_id = await fields.submit(deadline=int(time.time()) + 30)
    job = await fields.jobs.until(job_id, lambda state: state.ended)
    assert job.state.base is BaseState.DEADLINE
    assert job.state_reason == "DeadLine"


async def test_dependency_and_our_own_singleton_both_hold(fields: Fields) -> None:
    first = await fields.running()
    waits = {"Dependency"}
    name = f"both-{first.job_id}-{id(fields)}"
    dependency = f"afterany:{first.job_id}"
    job = await fields.waiting(waits, name=name, dependency=dependency)
    assert job.dependency == f"{dependency}(unfulfilled)"
    twin = await fields.waiting(waits, name=name, dependency=dependency)
    assert twin.dependency == f"singleton(unfulfilled),{dependency}(unfulfilled)"
    await fields.end(first)
    await fields.jobs.running(job.job_id)
    twin = await fields.client.job(twin.job_id)
    assert twin.dependency == "singleton(unfulfilled)"


async def test_dependency_on_success_is_never_satisfied_by_a_cancelled_job(fields: Fields) -> None:
    first = await fields.running()
    dependency = f"afterok:{first.job_id}"
    job = await fields.waiting({"Dependency"}, dependency=dependency)
    await fields.end(first)
    job = await fields.jobs.reasoned(job.job_id, {"DependencyNeverSatisfied"})
    assert job.dependency == f"{dependency}(failed)"


async def test_several_jobs_and_minutes_are_told_term_by_term(fields: Fields) -> None:
    first, second = await fields.submit(held=True), await fields.submit(held=True)
    job = await fields.waiting({"Dependency"}, dependency=f"afterany:{first}:{second}")
    assert job.dependency == f"afterany:{first}(unfulfilled),afterany:{second}(unfulfilled)"
    job = await fields.waiting({"Dependency"}, dependency=f"after:{first}+1")
    assert job.dependency == f"after:{first}+1(unfulfilled)"


@pytest.mark.parametrize("kind", ["after", "afterany"])
async def test_job_that_is_forgotten_need_not_be_waited_for(fields: Fields, kind: str) -> None:
    await fields.running(dependency=f"{kind}:{UNKNOWN_ID}")


async def test_priority_makes_slurm_forget_a_hold(fields: Fields) -> None:
    assert not (await fields.running(held=True, priority=55)).held
    job = await fields.waiting({"JobHeldUser"}, priority=0)
    assert job.held


async def test_user_unknown_to_slurm_runs_external_jobs_but_no_scripts(fields: Fields) -> None:
    if fields.peer.major == "24.11":
        await fields.waiting({"JobHeldAdmin"}, user_id=_UNKNOWN_USER, group_id=_UNKNOWN_USER)
        return
    record = await fields.raw(await fields.running(user_id=_UNKNOWN_USER, group_id=_UNKNOWN_USER))
    assert (record["user_id"], record["user_name"], record["group_id"]) == (54321, "", 54321)


async def test_how_a_node_is_shared_is_told_by_the_older_release_only(fields: Fields) -> None:
    record = await fields.raw(await fields.running(shared="user"))
    assert record["shared"] == (["user"] if fields.peer.major == "24.11" else [])
