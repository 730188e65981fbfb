"""An account that Slurm does not check or charge is remarked on, and no reason to refuse a pod."""

from __future__ import annotations

import asyncio

import pytest

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
