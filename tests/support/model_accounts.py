"""Accounts and QoS of a modelled Slurm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from scheduler.sandbox.slurm import AccountConfig, QosConfig, SlurmModel

# The same as in the rigs at their start.
FIRST_ACCOUNTS: Final = (
    AccountConfig(name="root", users=frozenset({"root"})),
    AccountConfig(name="staff", users=frozenset({"alice", "bob"})),
)


class ModelAccounts:
    """As in `Accounts`; `do` runs a function in the thread of the model."""

    def __init__(self, do: Callable[[Callable[[SlurmModel], None]], Awaitable[None]]) -> None:
        self._do = do
        self._made: dict[str, AccountConfig] = {}

    async def set_account(
        self, name: str, *, max_jobs: int | None = None, group_cpus: int | None = None
    ) -> None:
        """As in Accounts."""
        found = self._made.get(name, AccountConfig(name=name, users=frozenset({"root"})))
        await self._set(replace(found, max_jobs=max_jobs, group_cpus=group_cpus))

    async def set_qos(
        self, name: str, *, max_jobs_per_user: int | None = None, group_cpus: int | None = None
    ) -> None:
        """As in Accounts."""
        qos = QosConfig(name=name, max_jobs_per_user=max_jobs_per_user, group_cpus=group_cpus)
        await self._do(lambda slurm: slurm.set_qos(qos))

    async def allow(self, account: str, qos: str) -> None:
        """As in Accounts."""
        found = self._made[account]
        await self._set(replace(found, qos=found.qos | {qos}))

    async def _set(self, account: AccountConfig) -> None:
        self._made[account.name] = account
        await self._do(lambda slurm: slurm.set_account(account))
