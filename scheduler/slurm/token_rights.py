"""Finds out whether the token's user has the rights that we need, before the first pod waits.

Only an administrator of Slurm may write AdminComment, where we note a job's owner. Slurm checks
that right before it checks a job's request (measured on 26.05.5 and 24.11.5). So we submit a job
that cannot exist: the answer shows whether we have the right, and no job results either way. If a
job_submit plugin turns it into a real job, it is held and we cancel it. If that fails, or the
answer is lost, a census finds the job by its tag and cancels it.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import structlog

from scheduler.core.owner_tag import SINGLE, Owner, OwnerTag
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
    """A job that no Slurm can create, because its partition and its node do not exist. Its tag
    names a pod in the namespace that does not exist either.
    """
    tag = OwnerTag(
        v=SINGLE,
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
    """`name` is the source of the token, for people. In `namespace` a census of the `owner` cancels
    jobs without pods.
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
        """Which right the token's user lacks and what to do about it; "" if it is not known to lack
        one.
        """

    async def run(self) -> None:
        """Submit the trial until the right is there, then do nothing until cancelled."""
        settled = asyncio.Event()
        while not settled.is_set():
            if await self._try():
                settled.set()
            else:
                await asyncio.sleep(_AGAIN_SECONDS if self.missing else _UNANSWERED_SECONDS)
        await asyncio.Event().wait()

    async def _try(self) -> bool:
        """Submit the trial job once. True if Slurm's answer shows that the token's user may write
        AdminComment.
        """
        try:
            made = await self._slurm.submit(trial(self._owner, namespace=self._namespace))
        except SlurmError as error:
            return self._learn(error)
        failures = await self._slurm.cancel([made.job_id], send_by=soon())
        if failures:
            log.warning("trial job is left to the next census", job_id=made.job_id)
        self._settled()
        return True

    def _learn(self, error: SlurmError) -> bool:
        """Whether an error shows that the token has the right. Slurm checks the right first, so a
        refusal for any other cause, with Slurm's own error number, shows it.
        """
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
