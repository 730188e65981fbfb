"""Accounts and QoS of a real Slurm, changed with sacctmgr."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.rigs.slurm import SlurmRig

# The value by which sacctmgr removes a limit.
_NO_LIMIT: Final = -1
_CPUS: Final = "GrpTRES=cpu"


class RealAccounts:
    """Accounts of a rig with slurmdbd; see `Accounts`."""

    def __init__(self, rig: SlurmRig) -> None:
        self._rig = rig
        self._limits: dict[tuple[str, str], tuple[str, ...]] = {}

    async def set_account(
        self, name: str, *, max_jobs: int | None = None, group_cpus: int | None = None
    ) -> None:
        """As in Accounts."""
        if ("account", name) not in self._limits:
            await self._sacctmgr("add", "account", name)
            await self._sacctmgr("add", "user", "root", f"account={name}")
        await self._set("account", name, MaxJobs=max_jobs, **{_CPUS: group_cpus})

    async def set_qos(
        self, name: str, *, max_jobs_per_user: int | None = None, group_cpus: int | None = None
    ) -> None:
        """As in Accounts."""
        if ("qos", name) not in self._limits:
            await self._sacctmgr("add", "qos", name)
        await self._set("qos", name, MaxJobsPerUser=max_jobs_per_user, **{_CPUS: group_cpus})

    async def allow(self, account: str, qos: str) -> None:
        """As in Accounts."""
        await self._sacctmgr("modify", "account", account, "set", f"qos+={qos}")

    async def _set(self, kind: str, name: str, **limits: int | None) -> None:
        """Set limits, if they differ from the present ones: sacctmgr fails when nothing changes."""
        wanted = tuple(
            f"{limit}={_NO_LIMIT if value is None else value}" for limit, value in limits.items()
        )
        none = tuple(f"{limit}={_NO_LIMIT}" for limit in limits)
        if wanted != self._limits.get((kind, name), none):
            await self._sacctmgr("modify", kind, name, "set", *wanted)
        self._limits[kind, name] = wanted

    async def _sacctmgr(self, *arguments: str) -> None:
        await asyncio.to_thread(self._rig.call, "sacctmgr", "--immediate", *arguments)
