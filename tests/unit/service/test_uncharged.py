"""An account that Slurm does not check or charge is remarked on, and no reason to refuse a pod."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

pytestmark = pytest.mark.looptime

ACCOUNT = {"sunk.coreweave.com/account": "physics"}


def said(service) -> list[str]:
    return [it.message for it in service.recorder.events if it.reason == "NotCharged"]


async def test_account_that_slurm_does_not_charge_is_remarked_on_once(service, slurm, kube):
    slurm.accounting_storage = ""
    kube.create("uid-1", annotations=ACCOUNT)
    kube.create("uid-2", name="other")
    service.start()
    await asyncio.sleep(120)
    assert said(service) == [
        "Slurm has no accounting database: it does not check what the pod gives as account, and "
        "charges nobody for its job"
    ]
    assert len(slurm.jobs) == 2
    service.unharmed()


@pytest.mark.parametrize("storage", [None, "accounting_storage/slurmdbd"])
async def test_nothing_is_said_of_an_account_that_is_charged_or_may_be(
    service, slurm, kube, storage
):
    slurm.accounting_storage = storage
    kube.create("uid-1", annotations=ACCOUNT)
    service.start()
    await asyncio.sleep(120)
    assert said(service) == []
    assert len(slurm.jobs) == 1


async def test_pod_that_is_edited_in_a_loop_does_not_fill_the_log(service, slurm, kube):
    slurm.accounting_storage = ""
    kube.create("uid-1", annotations=ACCOUNT)
    service.start()
    with capture_logs() as lines:
        for _ in range(1000):
            kube.edit("uid-1", dict.fromkeys(ACCOUNT))
            await asyncio.sleep(0.02)
            kube.edit("uid-1", dict(ACCOUNT))
            await asyncio.sleep(0.02)
    found = [it for it in lines if it["event"] == "request remarked on"]
    assert 0 < len(found) < 200
