"""One unit whose submits fail does not decide whether others may submit, nor when.

Only Slurm itself, or two units that fail while it answers nothing, keep everybody back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scheduler.core.event_reasons import Reason
from slurmapi import (
    JobSubmission,
    SlurmBusy,
    SlurmError,
    SlurmInterrupted,
    SlurmInvalid,
    SlurmNoToken,
    SlurmRefused,
    SlurmUnreachable,
)
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
WORDS = "Unspecified error: no jobs on a Sunday"


def plugin() -> SlurmError:
    return SlurmRefused(WORDS, error_number=-1, status=500)


def busy() -> SlurmError:
    return SlurmRefused("Requested nodes are busy", error_number=2016, status=422)


def lost() -> SlurmError:
    return SlurmInterrupted("no answer in time")


def for_pods(
    word: str, error: Callable[[], SlurmError]
) -> Callable[[JobSubmission], SlurmError | None]:
    """A Slurm that answers so to the submits of pods with that word in their name."""
    return lambda submission: error() if word in submission.name else None


def silence(slurm: TinySlurm, *, but: str = "") -> None:
    """Slurm answers nothing from now on, but what is asked so."""
    for operation in {"ping", "states", "all_states", "job", "config"} - {but}:
        slurm.fail[operation].extend([SlurmUnreachable("connection refused")] * 10_000)


def submitted(slurm: TinySlurm, name: str) -> bool:
    return any(f".{name}." in job.name for job in slurm.jobs.values())


async def served_within(slurm: TinySlurm, kube: TinyKube, name: str) -> float:
    """Create a pod; the seconds until Slurm has its job."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    kube.create(name, name=name)
    async with asyncio.timeout(120):
        while not submitted(slurm, name):  # noqa: ASYNC110 - virtual time, and a plain dictionary
            await asyncio.sleep(0.01)
    return loop.time() - began


async def begin(service: Service) -> None:
    service.start()
    await asyncio.sleep(3)


@pytest.mark.parametrize("refusal", [plugin, busy])
async def test_refused_pod_delays_no_other_and_says_why(slurm, kube, service, refusal):
    slurm.job_submit = for_pods("refused", refusal)
    await begin(service)
    kube.create("refused", name="refused")
    await asyncio.sleep(1)
    censuses = slurm.calls["all_states"]
    for number in range(10):
        assert await served_within(slurm, kube, f"good-{number}") < 1
        await asyncio.sleep(29.5)
    assert slurm.calls["all_states"] <= censuses + 1, "no census is made anew for an answered no"
    condition = kube.condition_of("refused")
    assert condition.reason == Reason.SLURM_REJECTED
    assert str(refusal()) in condition.message
    assert "SlurmRejected" in service.recorder.reasons("refused")


async def test_refused_pod_tries_with_a_growing_pause(slurm, kube, service):
    slurm.job_submit = for_pods("refused", plugin)
    await begin(service)
    kube.create("refused", name="refused")
    await asyncio.sleep(3600)
    assert 12 <= slurm.calls["submit"] <= 20


async def test_many_refused_pods_do_not_make_slurm_be_asked_for_each(slurm, kube, service):
    slurm.job_submit = for_pods("refused", plugin)
    await begin(service)
    before = slurm.calls["ping"]
    for number in range(200):
        kube.create(f"refused-{number}", name=f"refused-{number}")
    await asyncio.sleep(60)
    # Besides the pulse, which pings while there is no job to ask for.
    assert slurm.calls["ping"] - before <= 60 / 0.75 + 60 / 5.0 + 2
    assert await served_within(slurm, kube, "good") < 1
    assert {kube.condition_of(f"refused-{number}").reason for number in range(200)} == {
        "SlurmRejected"
    }


async def test_two_pods_refused_by_a_slurm_that_answers_nothing_else_keep_others_back(
    slurm, kube, service
):
    await begin(service)
    silence(slurm)
    slurm.job_submit = for_pods("", plugin)
    for number in range(2):
        kube.create(f"pod-{number}", name=f"pod-{number}")
    await asyncio.sleep(0.3)
    kube.create("third", name="third")
    await asyncio.sleep(0.3)
    assert slurm.calls["submit"] == 2
    assert kube.condition_of("third").reason == Reason.SLURM_UNAVAILABLE
    assert kube.condition_of("pod-1").reason == Reason.SLURM_UNAVAILABLE


@pytest.mark.parametrize("answered", ["ping", "states"])
async def test_pods_refused_by_a_slurm_that_answers_one_question_keep_nobody_back(
    slurm, kube, service, answered
):
    await begin(service)
    silence(slurm, but=answered)
    slurm.job_submit = for_pods("refused", plugin)
    for number in range(10):
        kube.create(f"refused-{number}", name=f"refused-{number}")
    await asyncio.sleep(0.5)
    assert {kube.condition_of(f"refused-{number}").reason for number in range(10)} == {
        "SlurmRejected"
    }
    assert await served_within(slurm, kube, "good") < 1
    assert Reason.SLURM_UNAVAILABLE not in service.recorder.reasons()


async def test_pods_refused_for_what_they_ask_for_keep_nobody_back(slurm, kube, service):
    """A reason that only a job can be to blame for is an answer: nothing else need be asked."""
    await begin(service)
    silence(slurm)
    slurm.job_submit = for_pods(
        "refused", lambda: SlurmInvalid("Invalid account", error_number=2045, status=422)
    )
    for number in range(10):
        kube.create(f"refused-{number}", name=f"refused-{number}")
        await asyncio.sleep(1)
    assert await served_within(slurm, kube, "good") < 1
    assert Reason.SLURM_UNAVAILABLE not in service.recorder.reasons()


async def test_job_that_slurm_takes_in_between_clears_it_of_suspicion(slurm, kube, service):
    await begin(service)
    silence(slurm)
    slurm.job_submit = for_pods("refused", plugin)
    for number in range(3):
        kube.create(f"refused-{number}", name=f"refused-{number}")
        await asyncio.sleep(1)
        assert await served_within(slurm, kube, f"good-{number}") < 1
    assert Reason.SLURM_UNAVAILABLE not in service.recorder.reasons()


async def test_refusal_of_the_pod_that_tries_lets_the_next_one_try_at_once(slurm, kube, service):
    slurm.job_submit = for_pods("", lambda: SlurmBusy("full", error_number=2007, status=422))
    await begin(service)
    kube.create("refused", name="refused")
    await asyncio.sleep(60)
    slurm.job_submit = for_pods("refused", plugin)
    tries = slurm.calls["submit"]
    async with asyncio.timeout(30):
        while slurm.calls["submit"] == tries:  # noqa: ASYNC110 - as in served_within
            await asyncio.sleep(0.01)
    assert await served_within(slurm, kube, "good") < 2


async def test_one_pod_refused_by_a_slurm_that_answers_nothing_else_keeps_nobody_back(
    slurm, kube, service
):
    await begin(service)
    silence(slurm)
    slurm.job_submit = for_pods("refused", plugin)
    kube.create("refused", name="refused")
    await asyncio.sleep(600)
    assert await served_within(slurm, kube, "good") < 1


async def test_refused_pod_is_not_the_only_one_to_try_when_slurm_is_back(slurm, kube, service):
    slurm.job_submit = for_pods("", lambda: SlurmBusy("full", error_number=2007, status=422))
    await begin(service)
    for name in ("refused", "good-0", "good-1"):
        kube.create(name, name=name)
    await asyncio.sleep(300)
    slurm.job_submit = for_pods("refused", plugin)
    await asyncio.sleep(20)
    assert submitted(slurm, "good-0")
    assert submitted(slurm, "good-1")


async def test_pod_whose_submits_have_no_outcome_costs_the_others_seconds(slurm, kube, service):
    slurm.job_submit = for_pods("lost", lost)
    await begin(service)
    kube.create("lost", name="lost")
    delays = []
    for number in range(60):
        delays.append(await served_within(slurm, kube, f"good-{number}"))
        await asyncio.sleep(10)
    assert max(delays) <= 17, "the longest pause of the gate, while nobody else tells of Slurm"
    assert sum(delay > 1 for delay in delays) <= 12
    assert slurm.calls["submit"] - len(delays) <= 20, "each try closes the gate for a second"


async def test_pause_that_submits_are_asked_for_holds_up_nothing_else(slurm, kube, service):
    await begin(service)
    kube.create("gone", name="gone")
    kube.create("runs", name="runs")
    await asyncio.sleep(2)
    gone, runs = (next(it for it in slurm.jobs.values() if n in it.name) for n in ("gone", "runs"))
    slurm.fail["submit"].append(SlurmBusy("slow down", retry_after=60.0, status=429))
    kube.create("waits", name="waits")
    await asyncio.sleep(0.5)
    slurm.start(runs.job_id)
    kube.delete("gone")
    await asyncio.sleep(2)
    assert not slurm.live(gone.job_id), "a cancel is another kind of call"
    assert kube.runs("runs"), "so is a look"
    assert not submitted(slurm, "waits")
    await asyncio.sleep(63)
    assert submitted(slurm, "waits")


async def test_pods_are_submitted_within_seconds_after_the_token_is_back(slurm, kube, service):
    missing = "token file /run/token: No such file or directory"
    slurm.job_submit = for_pods("", lambda: SlurmNoToken(missing))
    await begin(service)
    for number in range(100):
        kube.create(f"pod-{number}", name=f"pod-{number}")
    await asyncio.sleep(600)
    assert kube.condition_of("pod-7").reason == Reason.SLURM_UNAVAILABLE
    assert missing in kube.condition_of("pod-7").message
    assert "SlurmRejected" not in service.recorder.reasons()
    slurm.job_submit = for_pods("nobody", plugin)
    # The gate's longest pause, and ten seconds more for those that asked while the first one tried.
    await asyncio.sleep(30)
    assert all(submitted(slurm, f"pod-{number}") for number in range(100))


# --- changes of a job -----------------------------------------------------------------------------


async def waiting(slurm: TinySlurm, kube: TinyKube) -> int:
    kube.create("pod", name="pod", annotations={"sunk.coreweave.com/comment": "one"})
    await asyncio.sleep(3)
    (job_id,) = slurm.jobs
    return job_id


@pytest.mark.parametrize("refused", [{"comment"}, {"comment", "admin_comment"}])
async def test_refused_edit_is_told_and_tried_with_a_growing_pause(slurm, kube, service, refused):
    await begin(service)
    await waiting(slurm, kube)
    slurm.refuses = refused
    updates = slurm.calls["update"]
    kube.edit("pod", {"sunk.coreweave.com/comment": "two"})
    await asyncio.sleep(1800)
    # At 0, 30, 90, 210 s and each five minutes, of three requests at most.
    assert slurm.calls["update"] - updates <= 3 * 10
    assert "UpdateRefused" in service.recorder.reasons("pod")
    assert slurm.live(1)


async def test_expired_token_is_no_refusal_of_an_edit(slurm, kube, service):
    await begin(service)
    await waiting(slurm, kube)
    slurm.fail["update"].extend([SlurmNoToken("no token")] * 3)
    kube.edit("pod", {"sunk.coreweave.com/comment": "two"})
    await asyncio.sleep(20)
    assert slurm.jobs[1].comment == "two"
    assert "UpdateRefused" not in service.recorder.reasons("pod")
