"""`TinySlurm` gives the answers that `SlurmClient` gets from the sandbox's Slurm.

Each script plays the same calls on both, and between them the same deeds of Slurm's own. The
sandbox is held to the real servers by the contract tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

import pytest
from msgspec.structs import asdict, replace

from scheduler.sandbox.slurm import (
    AccountConfig,
    NodeConfig,
    PartitionConfig,
    Release,
    SlurmConfig,
    SlurmModel,
    SlurmServer,
    Verdict,
    lifecycle,
    mint_token,
)
from scheduler.sandbox.slurm.records import State
from slurmapi import (
    BaseState,
    Job,
    JobSubmission,
    SlurmClient,
    SlurmError,
    SlurmInvalid,
    SlurmNode,
    StaticToken,
)
from slurmapi import SlurmConfig as Configuration
from tests.unit.service.tiny_slurm import NODES, TinySlurm

UNKNOWN: Final = 99
NO_ID: Final = 2**32 - 3
ACCOUNT: Final = AccountConfig(name="science", users=frozenset({"root"}))
# What the double leaves out of its records, because no test needs it.
UNTOLD_OF_JOBS: Final = {
    *("state_description", "dependency", "priority", "submit_time", "start_time", "end_time"),
    *("time_limit_minutes", "tres_allocated", "answered_at"),
    *("tasks", "cpus_per_task", "tasks_per_node", "cpus_by_node"),
}
UNTOLD_OF_CONFIGURATION: Final = {
    *("kill_wait", "boot_time", "answered_at", "accounting_storage"),
    # only the doctor reads these, and it is tested with the sandbox
    *("scheduler_parameters", "preempt_modes", "slurm_user"),
}
UNTOLD_OF_NODES: Final = {"address", "memory_mib", "allocated_memory_mib"}


class Double:
    """The double, and what its Slurm does by itself."""

    def __init__(self) -> None:
        self.client = TinySlurm()
        self.client.nodes_in = {"main": NODES, "night": ("n1",)}
        self.client.no_ids.add(NO_ID)

    def start(self, *job_ids: int) -> None:
        for job_id in job_ids:
            self.client.start(job_id)

    def end(self, job_id: int, base: BaseState) -> None:
        self.client.end(job_id, base)

    def requeue(self, job_id: int) -> None:
        self.client.requeue(job_id)

    def forget(self, job_id: int) -> None:
        self.client.forget(job_id)

    def refuse(self, number: int) -> None:
        self.client.job_submit = lambda _job: SlurmInvalid("no", error_number=number)

    def crash(self) -> None:
        self.client.responding = False

    def use_accounts(self) -> None:
        self.client.defaults = {"account": ACCOUNT.name, "qos": "normal"}


class Truth:
    """The sandbox's Slurm behind its slurmrestd. It schedules when it is told to."""

    def __init__(self, model: SlurmModel, client: SlurmClient) -> None:
        self._model = model
        self.client = client

    def start(self, *job_ids: int) -> None:
        self._model.tick()
        started = {job.id for job in self._model.jobs() if job.state is State.RUNNING}
        assert started >= set(job_ids)

    def end(self, job_id: int, base: BaseState) -> None:
        self._do(lifecycle.end, job_id, State(base.value))

    def requeue(self, job_id: int) -> None:
        self._do(lifecycle.requeue, job_id)

    def forget(self, job_id: int) -> None:
        self._model.cluster.forget(self._model.job(job_id))

    def refuse(self, number: int) -> None:
        self._model.job_submit = lambda _fields: Verdict(number=number)

    def crash(self) -> None:
        self._model.crash()

    def use_accounts(self) -> None:
        self._model.set_account(ACCOUNT)

    def _do(self, deed: Callable[..., None], job_id: int, *more: Any) -> None:
        deed(self._model.cluster, self._model.job(job_id), *more, now=self._model.clock())


class Play:
    """Makes calls of one of the two, and keeps what can be compared of the answers."""

    def __init__(self, slurm: Double | Truth) -> None:
        self.slurm = slurm
        self.answers: list[tuple[str, Any]] = []

    async def call(self, verb: str, *args: Any, **more: Any) -> Any:
        try:
            answer = await getattr(self.slurm.client, verb)(*args, **more)
        except SlurmError as error:
            self.answers.append((verb, _comparable(error)))
            return None
        self.answers.append((verb, _comparable(answer)))
        return answer

    async def submit(self, name: str, **more: Any) -> int:
        """A job that fills a node."""
        job = JobSubmission(
            name=name, external=True, admin_comment='{"v":1}', cpus=64, memory_mib=512, **more
        )
        submitted = await self.call("submit", job)
        return submitted.job_id if submitted is not None else 0

    async def two_that_run(self) -> tuple[int, int]:
        both = await self.submit("one"), await self.submit("two")
        self.slurm.start(*both)
        return both


Script = Callable[[Play], Awaitable[None]]


async def daemons(play: Play) -> None:
    await play.call("negotiate")
    await play.call("ping")
    await play.call("config")
    play.slurm.crash()
    await play.call("ping")


async def nodes_and_partitions(play: Play) -> None:
    await play.call("nodes")
    await play.call("node", "n2")
    await play.call("counted_node", "n1")
    await play.call("node", "absent")
    await play.call("partitions")


async def jobs_that_run(play: Play) -> None:
    for job_id in await play.two_that_run():
        await play.call("job", job_id)
    await play.call("job_states")


async def job_that_waits_for_a_node(play: Play) -> None:
    await play.two_that_run()
    third = await play.submit("three", partition="night", excluded_nodes=("n2",))
    play.slurm.start()
    await play.call("job", third)
    await play.call("job_states", [third])


async def job_that_keeps_off_a_node(play: Play) -> None:
    job_id = await play.submit("one", excluded_nodes=("n1",))
    play.slurm.start(job_id)
    await play.call("job", job_id)


async def job_that_insists_on_a_node(play: Play) -> None:
    job_id = await play.submit("one", required_nodes=("n2",))
    play.slurm.start(job_id)
    await play.call("job", job_id)


async def second_job_of_a_name(play: Play) -> None:
    first, second = await play.submit("one"), await play.submit("one")
    play.slurm.start(first)
    await play.call("job_states", [first, second])
    play.slurm.end(first, BaseState.COMPLETED)
    play.slurm.start(second)
    await play.call("job_states", [first, second])


async def jobs_that_end(play: Play) -> None:
    for base in (BaseState.COMPLETED, BaseState.FAILED, BaseState.TIMEOUT, BaseState.PREEMPTED):
        job_id = await play.submit(base.value)
        play.slurm.start(job_id)
        play.slurm.end(job_id, base)
        await play.call("job_states", [job_id])
        await play.call("job", job_id)
        await play.call("cancel", [job_id])
        await play.call("update_job", job_id, comment="late")
        await play.call("job_states", [job_id])


async def job_that_is_queued_again(play: Play) -> None:
    job_id, _ = await play.two_that_run()
    play.slurm.requeue(job_id)
    await play.call("job_states", [job_id])
    job = await play.slurm.client.job(job_id)
    play.answers.append(("restarts", (job.restart_count, job.nodes)))


async def jobs_that_are_cancelled(play: Play) -> None:
    first, second = await play.two_that_run()
    waiting = await play.submit("three")
    play.slurm.start()
    await play.call("cancel", [first, waiting, UNKNOWN])
    await play.call("job_states")
    await play.call("job", first)
    await play.call("job", waiting)
    await play.call("cancel", [first, second])
    await play.call("job_states", [first, second, waiting, UNKNOWN])


async def job_that_is_unknown(play: Play) -> None:
    await play.call("job", UNKNOWN)
    await play.call("job_states", [UNKNOWN])
    await play.call("job_states")
    await play.call("cancel", [UNKNOWN])
    await play.call("update_job", UNKNOWN, comment="whose?")


async def id_that_is_none(play: Play) -> None:
    job_id = await play.submit("one")
    await play.call("job", NO_ID)
    await play.call("job_states", [job_id, NO_ID])


async def job_that_is_forgotten(play: Play) -> None:
    job_id, _ = await play.two_that_run()
    await play.call("cancel", [job_id])
    play.slurm.forget(job_id)
    await play.call("job", job_id)
    await play.call("job_states", [job_id])
    await play.call("update_job", job_id, comment="late")
    await play.submit("three")


async def updates_of_a_job_that_waits(play: Play) -> None:
    await play.two_that_run()
    job_id = await play.submit("three")
    play.slurm.start()
    for changes in (
        {"comment": "c", "admin_comment": "a"},
        {"nice": 5},
        {"excluded_nodes": ("n1",)},
        {"excluded_nodes": ()},
        {"held": True},
    ):
        await play.call("update_job", job_id, **changes)
        play.slurm.start()
        job = await play.slurm.client.job(job_id)
        kept = replace(job, state_reason="")  # it may be seen before it is judged anew
        play.answers.append(("now", _comparable(kept)))


async def updates_of_a_job_that_runs(play: Play) -> None:
    job_id, _ = await play.two_that_run()
    await play.call("update_job", job_id, comment="c", admin_comment="a", nice=5)
    await play.call("update_job", job_id, excluded_nodes=("n2",))
    await play.call("update_job", job_id, partition="night")
    job = await play.slurm.client.job(job_id)
    await play.call("update_job", job_id, required_nodes=job.nodes)
    await play.call("job", job_id)


async def accounts(play: Play) -> None:
    play.slurm.use_accounts()
    job_id = await play.submit("one")
    play.slurm.start(job_id)
    await play.call("job", job_id)
    await play.call("update_job", job_id, account=ACCOUNT.name, qos="normal")
    await play.call("job", job_id)


async def submits_that_a_plugin_refuses(play: Play) -> None:
    play.slurm.refuse(2000)
    await play.submit("one")
    await play.call("job_states")


SCRIPTS: Final[tuple[Script, ...]] = (
    *(daemons, nodes_and_partitions, accounts, submits_that_a_plugin_refuses),
    *(jobs_that_run, job_that_waits_for_a_node, job_that_keeps_off_a_node),
    *(job_that_insists_on_a_node, second_job_of_a_name, jobs_that_end),
    *(job_that_is_queued_again, jobs_that_are_cancelled, job_that_is_unknown, id_that_is_none),
    *(job_that_is_forgotten, updates_of_a_job_that_waits, updates_of_a_job_that_runs),
)


@pytest.fixture
async def truth() -> AsyncIterator[Truth]:
    """The newest release, whose nodes have no slurmd."""
    double = Double().client
    model = SlurmModel(
        SlurmConfig(
            release=Release.V26_05,
            nodes=tuple(
                NodeConfig(name=name, cpus=TinySlurm.CPUS, memory_mib=1024, external=True)
                for name in NODES
            ),
            partitions=tuple(
                PartitionConfig(name=name, nodes=nodes, default=name == "main")
                for name, nodes in double.nodes_in.items()
            ),
        )
    )
    server = SlurmServer(model)
    port = await server.start(port=0)
    model.detach()
    token = StaticToken(mint_token(model.key, "root"))
    async with SlurmClient(f"http://127.0.0.1:{port}", token=token) as client:
        yield Truth(model, client)
    await server.stop()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
async def test_double_answers_as_slurm_does(truth: Truth, script: Script) -> None:
    expected, found = Play(truth), Play(Double())
    await script(expected)
    await script(found)
    assert found.answers == expected.answers


def _comparable(answer: Any) -> Any:
    match answer:
        case SlurmError():
            return type(answer).__name__, getattr(answer, "error_number", None)
        case Job():
            return _fields(answer, without=UNTOLD_OF_JOBS) | {
                "nodes": tuple(answer.nodes),
                "excluded_nodes": set(answer.excluded_nodes),
            }
        case Configuration():
            return _fields(answer, without=UNTOLD_OF_CONFIGURATION)
        case SlurmNode():
            return _fields(answer, without=UNTOLD_OF_NODES)
        case tuple():
            return [_comparable(each) for each in answer]
        case Mapping():
            return {key: _comparable(each) for key, each in answer.items()}
        case _:
            return answer


def _fields(record: Any, *, without: set[str]) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if name not in without}
