"""A submit of an impossible job shows whether the token's user has the rights of this scheduler:
Slurm checks the rights before it checks what the job asks for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from scheduler.core.owner_tag import Owner
from scheduler.slurm.token_rights import trial
from slurmapi import FileToken, SlurmClient, SlurmDenied, SlurmRefused, StaticToken, TokenSource
from tests.contract.conftest import SlurmPeer

TRIAL = trial(Owner("contract", "slurm-scheduler"), namespace="space")


@pytest.fixture
async def client_of(slurm_peer: SlurmPeer) -> AsyncIterator[Callable[[TokenSource], SlurmClient]]:
    clients: list[SlurmClient] = []

    def make(token: TokenSource) -> SlurmClient:
        clients.append(SlurmClient(slurm_peer.url, token=token))
        return clients[-1]

    async with AsyncExitStack() as stack:
        yield make
        for client in clients:
            await stack.enter_async_context(client)


async def test_user_without_the_right_is_refused_for_it(
    client_of: Callable[[TokenSource], SlurmClient], slurm_peer: SlurmPeer
) -> None:
    with pytest.raises(SlurmDenied) as denied:
        await client_of(StaticToken(slurm_peer.token("alice"))).submit(TRIAL)
    assert (denied.value.error_number, denied.value.authentication) == (2002, False)


async def test_user_with_the_right_is_refused_for_what_cannot_be(
    client_of: Callable[[TokenSource], SlurmClient], slurm_peer: SlurmPeer
) -> None:
    with pytest.raises(SlurmRefused) as refused:
        await client_of(FileToken(slurm_peer.token_file)).submit(TRIAL)
    assert not isinstance(refused.value, SlurmDenied)
    assert refused.value.error_number in {2000, 2018}
