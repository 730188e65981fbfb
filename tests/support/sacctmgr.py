"""Accounts and QoS of a real Slurm, changed with sacctmgr."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final

from tests.rigs.slurm import SlurmRig

# The value by which sacctmgr removes a limit.
_NO_LIMIT: Final = -1
_CPUS: Final = "GrpTRES=cpu"
# slurmdbd passes on a change after sacctmgr has returned: slurmctld of 26.05.5 heard of one 8 ms
# later.
_HEARD_SECONDS: Final = 60.0


class RealAccounts:
    """Accounts of a rig with slurmdbd; see `Accounts`."""

    def __init__(self, rig: SlurmRig) -> None:
        self._rig = rig
        self._limits: dict[tuple[str, str], tuple[str, ...]] = {}
        self._mark = f"mark-{secrets.token_hex(4)}"
        self._marks = 0

    async def set_account(
        self, name: str, *, max_jobs: int | None = None, group_cpus: int | None = None
    ) -> None:
        """As in Accounts."""
        if ("account", name) not in self._limits:
            await self._sacctmgr("add", "account", name)
            await self._sacctmgr("add", "user", "root", f"account={name}")
        await self._set("account", name, MaxJobs=max_jobs, **{_CPUS: group_cpus})
        await self._heard()

    async def set_qos(
        self, name: str, *, max_jobs_per_user: int | None = None, group_cpus: int | None = None
    ) -> None:
        """As in Accounts."""
        if ("qos", name) not in self._limits:
            await self._sacctmgr("add", "qos", name)
        await self._set("qos", name, MaxJobsPerUser=max_jobs_per_user, **{_CPUS: group_cpus})
        await self._heard()

    async def allow(self, account: str, qos: str) -> None:
        """As in Accounts."""
        await self._sacctmgr("modify", "account", account, "set", f"qos+={qos}")
        await self._heard()

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

    async def _heard(self) -> None:
        """Wait until slurmctld has heard of all changes. Most cannot be seen in slurmctld, but a
        last one can: another limit of an account that nobody uses.
        """
        if not self._marks:
            await self._sacctmgr("add", "account", self._mark)
        self._marks += 1
        await self._sacctmgr("modify", "account", self._mark, "set", f"GrpJobs={self._marks}")
        await asyncio.to_thread(self._await_mark)

    def _await_mark(self) -> None:
        account = f"accounts={self._mark}"
        shown = ("scontrol", "--oneliner", "show", "assoc_mgr", account, "flags=assoc")
        until = time.monotonic() + _HEARD_SECONDS
        while f" GrpJobs={self._marks}(" not in self._rig.call(*shown):
            if time.monotonic() > until:
                raise RuntimeError(f"slurmctld has not heard of {self._marks} changes")
            time.sleep(0.02)
