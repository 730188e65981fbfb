"""The behaviour that SlurmClient relies on is that of the models and of the real servers alike.

The fixture `slurm_peer` gives each of them in turn. Tests leave no job behind and share the peer.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from msgspec.structs import replace

from slurmapi import (
    BaseState,
    FileToken,
    HttpTransport,
    Job,
    JobState,
    JobSubmission,
    Request,
    SlurmClient,
    SlurmDenied,
    SlurmInvalid,
    SlurmNoSuchJob,
    SlurmRefused,
    SlurmStranger,
    StaticToken,
)
from slurmapi.cluster_check import ClusterCheck
from tests.contract.conftest import (
    COMPLETING_SECONDS,
    SlurmPeer,
    is_over,
    is_running,
    scripts_run,
    second_of_slurm,
)
from tests.rigs.slurm_conf import GRACE_PARTITION, GRACE_SECONDS
from tests.support.slurm import UNLIMITED

BAD_TOKEN = StaticToken("no.jwt.atall")
SCRIPT = "#!/bin/sh\nexec sleep infinity\n"
UNKNOWN_ID = 3_999_999
FIRST_NO_ID = 2**32 - 3  # NO_VAL of slurm.h is one more
_SECONDS = 60.0
_numbers = itertools.count(1)


class Jobs:
    """Submits placeholders to one peer, waits for them, and cancels them at the end."""

    def __init__(self, client: SlurmClient, peer: SlurmPeer) -> None:
        self.client = client
        self._peer = peer
        self._made: list[int] = []
        # Their scripts have run. They may have ended since, without the end of the job.
        self._begun: set[int] = set()

    def placeholder(self, **more: Any) -> JobSubmission:
        external = self._peer.external
        return replace(
            JobSubmission(
                name=f"contract-{next(_numbers)}-{id(self)}",
                external=external,
                script=None if external else SCRIPT,
                admin_comment='{"v":1}',
                cpus=2,
                memory_mib=512,
                partition=self._peer.partition,
            ),
            **more,
        )

    async def submit(self, **more: Any) -> int:
        submitted = await self.client.submit(self.placeholder(**more))
        return self.keep(submitted.job_id)

    def keep(self, job_id: int) -> int:
        """Have this job cancelled at the end, too; returns its id."""
        self._made.append(job_id)
        return job_id

    async def reasoned(self, job_id: int, reasons: set[str]) -> Job:
        """The job once Slurm has given one of `reasons` for its state."""
        give_up_at = asyncio.get_running_loop().time() + _SECONDS
        while (job := await self.client.job(job_id)).state_reason not in reasons:
            if asyncio.get_running_loop().time() > give_up_at:
                pytest.fail(f"not in time: {job}")
            await asyncio.sleep(0.05)
        return job

    async def until(
        self, job_id: int, condition: Callable[[JobState], bool], *, seconds: float = _SECONDS
    ) -> Job:
        """The job once its state meets `condition`: Slurm schedules once a second."""
        give_up_at = asyncio.get_running_loop().time() + seconds
        while not condition((await self.client.job_states([job_id]))[job_id]):
            if asyncio.get_running_loop().time() > give_up_at:
                pytest.fail(f"not in time: {await self.client.job(job_id)}; {await self._busy()}")
            await asyncio.sleep(0.05)
        return await self.client.job(job_id)

    async def _busy(self) -> str:
        """The nodes that are not idle, for people: a job of an earlier test may hold one."""
        found = await self.client.nodes()
        return ", ".join(
            f"{it.name} is {sorted(it.states)}" for it in found if it.states != {"IDLE"}
        )

    async def running(self, job_id: int) -> Job:
        """The job once it runs, and can be cancelled without harm."""
        # Jobs of earlier tests, also of stories, may still be COMPLETING there.
        job = await self.until(job_id, is_running, seconds=COMPLETING_SECONDS)
        await scripts_run(self.client, self._peer.script_runs, [job_id])
        self._begun.add(job_id)
        return job

    async def cancel_all(self) -> None:
        new = (it for it in self._made if it not in self._begun)
        await scripts_run(self.client, self._peer.script_runs, new)
        assert await self.client.cancel(self._made) == {}
        for job_id in self._made:
            await self.until(job_id, is_over, seconds=COMPLETING_SECONDS)


@pytest.fixture
async def clients(slurm_peer: SlurmPeer) -> AsyncIterator[Callable[..., SlurmClient]]:
    """A function that makes clients of the peer, by default with the operator's token."""
    async with AsyncExitStack() as stack:
        made: list[SlurmClient] = []

        def make(url: str = slurm_peer.url, **more: Any) -> SlurmClient:
            settings: dict[str, Any] = {"token": FileToken(slurm_peer.token_file)} | more
            made.append(SlurmClient(url, **settings))
            return made[-1]

        yield make
        for client in made:
            await stack.enter_async_context(client)


@pytest.fixture
def client(clients: Callable[..., SlurmClient]) -> SlurmClient:
    return clients()


@pytest.fixture
async def jobs(client: SlurmClient, slurm_peer: SlurmPeer) -> AsyncIterator[Jobs]:
    made = Jobs(client, slurm_peer)
    yield made
    await made.cancel_all()


async def test_newest_common_version_is_negotiated(
    client: SlurmClient, slurm_peer: SlurmPeer
) -> None:
    version = await client.negotiate()
    assert version.text == {"26.05": "v0.0.45", "24.11": "v0.0.42"}[slurm_peer.major]
    assert version.supports_external == (slurm_peer.major == "26.05")


async def test_ping_finds_a_responding_controller_and_its_release(
    client: SlurmClient, slurm_peer: SlurmPeer
) -> None:
    ping = await client.ping()
    assert ping.responding
    assert ping.release.startswith(f"{slurm_peer.major}.")


@pytest.mark.parametrize("path", ["ping/", "jobs/state/", f"job/{UNKNOWN_ID}"])
@pytest.mark.parametrize("token", ["good", "bad"])
async def test_answers_and_refusals_name_their_cluster(
    client: SlurmClient, slurm_peer: SlurmPeer, path: str, token: str
) -> None:
    version = await client.negotiate()
    good = slurm_peer.token_file.read_text(encoding="ascii").strip()
    request = Request(
        method="GET",
        target=f"/slurm/{version}/{path}",
        headers={"X-SLURM-USER-TOKEN": good if token == "good" else "no.jwt.atall"},
        body=None,
        repeatable=True,
    )
    transport = HttpTransport(slurm_peer.url)
    try:
        response = await transport.exchange(request)
    finally:
        transport.close()
    with pytest.raises(SlurmStranger) as stranger:
        ClusterCheck("another", clock=time.monotonic).check(response)
    assert stranger.value.found == client.cluster


async def test_config_is_there_in_the_newest_version_only(
    client: SlurmClient, slurm_peer: SlurmPeer
) -> None:
    before = second_of_slurm()
    config = await client.config()
    if slurm_peer.major == "24.11":
        assert config is None
        return
    assert config is not None
    assert config.kill_wait == 30
    assert config.boot_time is not None
    assert config.answered_at is not None
    assert before <= config.answered_at <= time.time(), "it is the time of the answer"
    assert config.accounting_storage == "", "without slurmdbd"
    assert config.accounting_enforce == ()


async def test_config_says_how_slurm_schedules_and_preempts(
    client: SlurmClient, slurm_peer: SlurmPeer
) -> None:
    config = await client.config()
    if slurm_peer.major == "24.11":
        assert config is None
        return
    assert config is not None
    assert {"batch_sched_delay=0", "default_queue_depth=1000"} <= set(config.scheduler_parameters)
    assert config.preempt_type == "preempt/partition_prio"
    assert config.preempt_modes == ("CANCEL",)
    assert config.slurm_user == "slurm"


async def test_nodes_and_partitions_are_listed(client: SlurmClient, slurm_peer: SlurmPeer) -> None:
    nodes = {node.name: node for node in await client.nodes()}
    assert set(slurm_peer.nodes) <= set(nodes)
    first = nodes[slurm_peer.nodes[0]]
    assert first.cpus > 0
    assert first.memory_mib > 0
    assert f":{slurm_peer.gpus_per_node}" in first.gres
    assert slurm_peer.partition in first.partitions
    partitions = {part.name: part for part in await client.partitions()}
    assert {"high", slurm_peer.partition} <= set(partitions)
    told = [part.name for part in partitions.values() if part.is_default]
    assert told == ([slurm_peer.partition] if slurm_peer.major == "26.05" else [])
    main = partitions[slurm_peer.partition]
    assert (main.states, main.max_minutes, main.max_nodes) == (("UP",), None, None)
    assert (main.whole_nodes, main.accounts, main.qos, main.groups) == (False, (), (), ())
    assert (main.flags is None) == (slurm_peer.major == "24.11")
    assert (main.grace_seconds, partitions[GRACE_PARTITION].grace_seconds) == (0, GRACE_SECONDS)
    assert (first.job_cpus, first.specialized_memory_mib) == (first.cpus, 0)


async def test_unix_socket_serves_the_same(
    clients: Callable[..., SlurmClient], slurm_peer: SlurmPeer
) -> None:
    if slurm_peer.socket is None:
        pytest.skip("this peer listens on TCP only")
    assert (await clients(f"unix:{slurm_peer.socket}").ping()).responding


async def test_job_gets_one_node_with_exactly_what_it_asked_for(jobs: Jobs) -> None:
    job = await jobs.running(await jobs.submit(cpus=4, memory_mib=2048, gres="gres/gpu:1"))
    assert len(job.nodes) == 1
    assert {"cpu=4", "mem=2G", "node=1"} <= set(job.tres_allocated.split(","))
    assert job.gres == "gres/gpu:1"


async def test_job_of_several_nodes_gets_the_same_on_each(
    jobs: Jobs, slurm_peer: SlurmPeer
) -> None:
    job = await jobs.running(await jobs.submit(nodes=2, cpus=2, memory_mib=512, gres="gres/gpu:1"))
    assert len(set(job.nodes)) == 2
    assert set(job.nodes) <= set(slurm_peer.nodes)
    assert {"cpu=4", "mem=1G", "node=2"} <= set(job.tres_allocated.split(","))


async def test_what_was_submitted_is_told_back(jobs: Jobs, slurm_peer: SlurmPeer) -> None:
    job_id = await jobs.submit(comment="from a user", admin_comment="x" * 5000, held=True)
    job = await jobs.client.job(job_id)
    assert (job.job_id, job.partition) == (job_id, slurm_peer.partition)
    assert (job.comment, job.admin_comment) == ("from a user", "x" * 5000)
    assert (job.restart_count, job.batch) == (0, not slurm_peer.external)
    assert job.submit_time is not None
    assert (job.preempt_time, job.time_limit_minutes) == (None, None)


async def test_answer_about_a_job_tells_its_own_time(jobs: Jobs) -> None:
    """The time is that of the answer, by Slurm's clock, and not that of the job's last change."""
    job = await jobs.client.job(await jobs.submit(held=True))
    while job.answered_at == job.submit_time:
        before = second_of_slurm()
        job = await jobs.client.job(job.job_id)
        assert job.answered_at is not None
        assert before <= job.answered_at <= time.time()


async def test_required_and_excluded_nodes_are_kept_to(jobs: Jobs, slurm_peer: SlurmPeer) -> None:
    last = slurm_peer.nodes[-1]
    job = await jobs.running(await jobs.submit(required_nodes=(last,)))
    assert job.nodes == (last,)
    others = slurm_peer.nodes[:-1]
    job = await jobs.running(await jobs.submit(excluded_nodes=(*others[:-1], last)))
    assert job.nodes == (others[-1],)


async def test_time_limit_is_in_minutes_and_ends_the_job_in_time(jobs: Jobs) -> None:
    job = await jobs.running(await jobs.submit(time_limit_minutes=7))
    assert job.time_limit_minutes == 7
    assert job.start_time is not None
    assert job.end_time is not None
    # The time that PrologSlurmctld takes is added to the time limit (measured on both releases).
    longest = time.time() - job.start_time
    assert 0 <= job.end_time - (job.start_time + 7 * 60) <= longest


async def test_running_job_without_a_limit_has_no_known_end(jobs: Jobs) -> None:
    job = await jobs.running(await jobs.submit())
    assert job.time_limit_minutes in UNLIMITED
    assert (job.end_time is None) == (job.time_limit_minutes is None)


async def test_limit_of_a_year_is_accepted_and_counts_as_none(jobs: Jobs) -> None:
    job = await jobs.running(await jobs.submit(time_limit_minutes=365 * 24 * 60))
    assert (job.time_limit_minutes, job.end_time) == (None, None)


async def test_twin_of_a_singleton_stays_pending_until_the_first_has_ended(jobs: Jobs) -> None:
    name = f"twins-{id(jobs)}"
    first, second = await jobs.submit(name=name), await jobs.submit(name=name)
    await jobs.running(first)
    twin = await jobs.reasoned(second, {"Dependency"})
    assert twin.state.base is BaseState.PENDING
    assert "singleton" in twin.dependency
    assert await jobs.client.cancel([first]) == {}
    await jobs.running(second)


async def test_same_name_without_singleton_runs_twice(jobs: Jobs) -> None:
    name = f"pair-{id(jobs)}"
    made = [await jobs.submit(name=name, singleton=False) for _ in range(2)]
    for job_id in made:
        await jobs.running(job_id)


async def test_held_job_says_so_and_starts_when_released(jobs: Jobs) -> None:
    job_id = await jobs.submit(held=True)
    job = await jobs.until(job_id, lambda state: state.base is BaseState.PENDING)
    assert (job.held, job.state_reason, job.priority) == (True, "JobHeldUser", 0)
    await jobs.client.update_job(job_id, held=False)
    assert not (await jobs.running(job_id)).held


async def test_job_without_room_is_pending_with_a_reason(jobs: Jobs, slurm_peer: SlurmPeer) -> None:
    node, gpus = slurm_peer.nodes[0], f"gres/gpu:{slurm_peer.gpus_per_node}"
    await jobs.running(await jobs.submit(required_nodes=(node,), gres=gpus))
    waiting = await jobs.submit(required_nodes=(node,), gres=gpus)
    job = await jobs.reasoned(waiting, {"Resources", "Priority"})
    assert job.state.base is BaseState.PENDING
    assert (job.nodes, job.end_time) == ((), None)


async def test_states_of_asked_ids_only_and_unknown_ones_absent(jobs: Jobs) -> None:
    first, second = await jobs.submit(held=True), await jobs.submit(held=True)
    states = await jobs.client.job_states([first, UNKNOWN_ID])
    assert set(states) == {first}
    assert {first, second} <= set(await jobs.client.job_states())


async def test_thousands_of_ids_are_asked_for_at_once(jobs: Jobs) -> None:
    job_id = await jobs.submit(held=True)
    states = await jobs.client.job_states([job_id, *range(UNKNOWN_ID - 2500, UNKNOWN_ID)])
    assert set(states) == {job_id}


async def test_unknown_job_is_error_2017(client: SlurmClient) -> None:
    with pytest.raises(SlurmNoSuchJob) as unknown:
        await client.job(UNKNOWN_ID)
    assert (unknown.value.error_number, unknown.value.status) == (2017, 404)


async def test_number_that_is_no_job_id_is_refused_with_all_that_is_asked_beside_it(
    jobs: Jobs,
) -> None:
    job_id = await jobs.submit(held=True)
    with pytest.raises(SlurmNoSuchJob):
        await jobs.client.job(FIRST_NO_ID - 1)
    assert set(await jobs.client.job_states([job_id, FIRST_NO_ID - 1])) == {job_id}
    for number in (FIRST_NO_ID, FIRST_NO_ID + 1, 2**40):
        with pytest.raises(SlurmInvalid) as refused:
            await jobs.client.job(number)
        assert (refused.value.error_number, refused.value.status) == (9000, 422)
        with pytest.raises(SlurmInvalid) as refused:
            await jobs.client.job_states([job_id, number])
        assert (refused.value.error_number, refused.value.status) == (9000, 422)


async def test_cancel_ends_a_running_job(jobs: Jobs) -> None:
    job_id = await jobs.submit()
    await jobs.running(job_id)
    assert await jobs.client.cancel([job_id]) == {}
    job = await jobs.client.job(job_id)
    assert job.state.base is BaseState.CANCELLED
    assert job.end_time is not None
    # An external job is COMPLETING until EpilogSlurmctld returns.
    await jobs.until(job_id, is_over)


async def test_cancel_of_pending_ended_and_unknown_jobs_succeeds_in_one_batch(jobs: Jobs) -> None:
    pending, running = await jobs.submit(held=True), await jobs.submit()
    await jobs.running(running)
    batch = [pending, running, UNKNOWN_ID]
    assert await jobs.client.cancel(batch) == {}
    assert await jobs.client.cancel(batch) == {}
    states = await jobs.client.job_states(batch)
    assert {state.base for state in states.values()} == {BaseState.CANCELLED}


async def test_update_changes_comments_and_limit(jobs: Jobs) -> None:
    job_id = await jobs.submit()
    await jobs.running(job_id)
    await jobs.client.update_job(job_id, comment="c", admin_comment="a", time_limit_minutes=9)
    job = await jobs.client.job(job_id)
    assert (job.comment, job.admin_comment, job.time_limit_minutes) == ("c", "a", 9)


async def test_excluded_nodes_of_a_job_that_waits_can_be_changed_and_cleared(
    jobs: Jobs, slurm_peer: SlurmPeer
) -> None:
    first, second = slurm_peer.nodes[:2]
    job_id = await jobs.submit(held=True, excluded_nodes=(first,))
    for excluded in ((first, second), (second,), ()):
        await jobs.client.update_job(job_id, excluded_nodes=excluded)
        assert tuple((await jobs.client.job(job_id)).excluded_nodes) == excluded
    with pytest.raises(SlurmRefused) as refused:
        await jobs.client.update_job(job_id, excluded_nodes=("nowhere",))
    assert refused.value.error_number == 2018


async def test_excluded_nodes_of_a_job_that_runs_are_final(
    jobs: Jobs, slurm_peer: SlurmPeer
) -> None:
    job = await jobs.running(await jobs.submit())
    with pytest.raises(SlurmRefused) as refused:
        await jobs.client.update_job(job.job_id, excluded_nodes=(slurm_peer.nodes[0],))
    assert refused.value.error_number == 2073


async def test_job_that_excludes_all_nodes_is_refused(jobs: Jobs, client: SlurmClient) -> None:
    everywhere = tuple(node.name for node in await client.nodes())
    with pytest.raises(SlurmInvalid) as refused:
        await jobs.submit(excluded_nodes=everywhere)
    assert refused.value.error_number == 2014


async def test_one_node_is_told_by_name_and_an_unknown_one_is_none(
    client: SlurmClient, slurm_peer: SlurmPeer
) -> None:
    node = await client.node(slurm_peer.nodes[0])
    assert node is not None
    assert node.name == slurm_peer.nodes[0]
    assert node.address
    assert await client.node("nowhere") is None


async def test_what_is_allocated_on_a_node_is_counted_when_all_nodes_are_asked_about(
    jobs: Jobs, client: SlurmClient, slurm_peer: SlurmPeer
) -> None:
    name = slurm_peer.nodes[0]
    former = await client.counted_node(name)
    await jobs.running(await jobs.submit(required_nodes=(name,)))
    told, counted = await client.node(name), await client.counted_node(name)
    assert former is not None
    assert told is not None
    assert counted is not None
    assert told.allocated_cpus == former.allocated_cpus
    assert (counted.allocated_cpus, counted.allocated_memory_mib) >= (2, 512)


async def test_update_of_an_ended_job_is_refused(jobs: Jobs) -> None:
    job_id = await jobs.submit(held=True)
    await jobs.client.cancel([job_id])
    with pytest.raises(SlurmRefused) as refused:
        await jobs.client.update_job(job_id, comment="late")
    assert refused.value.error_number == 2084


async def test_update_of_an_unknown_job_is_error_2017(client: SlurmClient) -> None:
    with pytest.raises(SlurmNoSuchJob):
        await client.update_job(UNKNOWN_ID, comment="x")


async def test_numeric_user_unknown_to_the_host_is_accepted(jobs: Jobs) -> None:
    job_id = await jobs.submit(user_id=54321, group_id=54321, held=True)
    assert (await jobs.client.job(job_id)).held


async def test_bad_token_is_denied_everywhere_and_never_an_empty_answer(
    clients: Callable[..., SlurmClient], jobs: Jobs
) -> None:
    stranger = clients(token=BAD_TOKEN)
    calls: Iterable[Any] = (
        stranger.job_states(),
        stranger.job_states([1]),
        stranger.job(1),
        stranger.nodes(),
        stranger.submit(jobs.placeholder()),
    )
    for call in calls:
        with pytest.raises(SlurmDenied) as denied:
            await call
        assert (denied.value.error_number, denied.value.status) == (1007, 511)
    failures = await stranger.cancel([1])
    assert isinstance(failures[1], SlurmDenied)


async def test_ping_with_a_bad_token_does_not_respond(clients: Callable[..., SlurmClient]) -> None:
    assert not (await clients(token=BAD_TOKEN).ping()).responding


async def test_ordinary_user_cannot_write_an_admin_comment(
    clients: Callable[..., SlurmClient], jobs: Jobs, slurm_peer: SlurmPeer
) -> None:
    alice = clients(token=StaticToken(slurm_peer.token("alice")))
    with pytest.raises(SlurmDenied) as denied:
        await alice.submit(jobs.placeholder(admin_comment="forged"))
    assert denied.value.error_number == 2002


async def test_ordinary_user_cannot_submit_for_another(
    clients: Callable[..., SlurmClient], jobs: Jobs, slurm_peer: SlurmPeer
) -> None:
    alice = clients(token=StaticToken(slurm_peer.token("alice")))
    with pytest.raises(SlurmDenied) as denied:
        await alice.submit(jobs.placeholder(admin_comment="", user_id=54321))
    assert denied.value.error_number == 2010


async def test_external_job_is_refused_before_an_old_version_hears_of_it(
    jobs: Jobs, slurm_peer: SlurmPeer
) -> None:
    if slurm_peer.major != "24.11":
        pytest.skip("this peer has external jobs")
    with pytest.raises(SlurmInvalid, match="EXTERNAL_JOB"):
        await jobs.client.submit(jobs.placeholder(external=True, script=None))
