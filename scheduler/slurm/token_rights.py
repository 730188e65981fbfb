"""Whether the token's user may do what this scheduler does, found out before the first pod waits.

Only an administrator of Slurm may write the AdminComment that names a job's owner. Slurm looks at
that right before it looks at what a job asks for (measured on 26.05.5 and 24.11.5). So a job is
submitted that can come to nothing: the answer tells, and there is no job either way. Should a
job_submit plugin make one of it after all, it is held and cancelled; where that fails, or the
answer is lost, a census finds it by its tag and ends it.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import structlog

from scheduler.core.naming import VERSION, Owner, OwnerTag
from scheduler.observe.metrics import Metrics
from scheduler.slurm.ownership import soon
from slurmapi import JobSubmission, SlurmClient, SlurmDenied, SlurmError, SlurmRefused

log = structlog.get_logger(__name__)

_AGAIN_SECONDS: Final = 60.0
_UNANSWERED_SECONDS: Final = 5.0
_NAME: Final = "slurm-pod-scheduler.rights"
_NOWHERE: Final = "slurm-pod-scheduler-no-such-partition"
_ACCESS_DENIED: Final = 2002


def trial(owner: Owner, *, namespace: str) -> JobSubmission:
    """A job that no Slurm can make: there is no such partition, and no such node. Its tag is that
    of a pod in the namespace that never was.
    """
    tag = OwnerTag(
        v=VERSION,
        cluster=owner.cluster,
        scheduler=owner.scheduler,
        namespace=namespace,
        unit=_NAME,
        uids=(f"rights-{secrets.token_hex(8)}",),
    )
    return JobSubmission(
        name=_NAME,
        external=False,
        script="#!/bin/sh\nexit 0\n",
        admin_comment=tag.encode(),
        cpus=1,
        memory_mib=1,
        partition=_NOWHERE,
        required_nodes=(_NOWHERE,),
        held=True,
    )


class TokenRights:
    """`name` is where people find the token, `namespace` one in which a census of the `owner` ends
    what no pod needs.
    """

    def __init__(
        self, slurm: SlurmClient, *, owner: Owner, namespace: str, name: str, metrics: Metrics
    ) -> None:
        self._slurm = slurm
        self._owner = owner
        self._namespace = namespace
        self._name = name
        self._metrics = metrics
        self.missing = ""
        """What the token's user may not do, and what helps; empty where nothing is known of it."""

    async def run(self) -> None:
        """Ask until the right is there; then there is nothing more to do, but to be ended."""
        settled = asyncio.Event()
        while not settled.is_set():
            if await self._try():
                settled.set()
            else:
                await asyncio.sleep(_AGAIN_SECONDS if self.missing else _UNANSWERED_SECONDS)
        await asyncio.Event().wait()

    async def _try(self) -> bool:
        """Whether it is settled that the right is there."""
        try:
            made = await self._slurm.submit(trial(self._owner, namespace=self._namespace))
        except SlurmError as error:
            return self._learn(error)
        if await self._slurm.cancel([made.job_id], send_by=soon()):
            log.warning("trial job is left to the next census", job_id=made.job_id)
        self._settled()
        return True

    def _learn(self, error: SlurmError) -> bool:
        if isinstance(error, SlurmDenied):
            if error.error_number == _ACCESS_DENIED:
                self._lacking(error)
            return False
        if not isinstance(error, SlurmRefused) or not error.error_number:
            return False
        self._settled()
        return True

    def _lacking(self, error: SlurmDenied) -> None:
        self.missing = (
            f"the user of the token of {self._name} may not write AdminComment ({error}), so no "
            "job can be submitted: `sacctmgr modify user NAME set adminlevel=Administrator`, or a "
            "token of SlurmUser or root"
        )
        self._show(1)
        log.warning("the token's user is no administrator of Slurm", why=self.missing)

    def _settled(self) -> None:
        if self.missing:
            self.missing = ""
            self._show(0)
            log.info("the token's user is an administrator of Slurm now")

    def _show(self, value: int) -> None:
        self._metrics.trouble.labels("slurm", "not_an_administrator").set(value)
