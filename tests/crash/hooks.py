"""Slurm's hooks and the placeholders' scripts, as those in deploy/slurm and scheduler ask, but
within the virtual loop: PrologSlurmctld, EpilogSlurmctld, and a script that was signalled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import aiohttp

from scheduler.sandbox.cluster import Sandbox
from scheduler.sandbox.kube.resources import PODS
from scheduler.sandbox.slurm import lifecycle, prologs
from scheduler.sandbox.slurm.config import SlurmConfig
from scheduler.sandbox.slurm.hostlist import fold
from scheduler.sandbox.slurm.records import STARTED, Job
from tests.support.hooks import SECRET, secret_file
from tests.support.model_jobs import placeholders_of, uids

_ADDRESS: Final = "127.0.0.1:8000"
_AGAIN_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 30
_PATIENCE_SECONDS: Final = 5.0
_FREE: Final = 200
_BUSY: Final = 409
_NO_ANSWER: Final = 0
_TRY_AGAIN: Final = frozenset({_NO_ANSWER, 503})
_OVER: Final = frozenset({"Succeeded", "Failed"})


def hook_flags(folder: Path) -> dict[str, str]:
    """Flags of a scheduler with a hooks API."""
    return {
        "hooks-api-token-file": str(secret_file(folder)),
        "hooks-api-bind-address": _ADDRESS,
        "hooks-api-url": f"http://{_ADDRESS}",
    }


@contextmanager
def hooked(sandbox: Sandbox) -> Iterator[None]:
    """Have that Slurm run its hooks. AssertionError at the end if the handover guard has let a job
    through beside a pod: guards are on no record, so that the auditor cannot tell.
    """
    hooks = _Hooks(sandbox)
    forget = sandbox.slurm.keep(hooks)
    with (
        mock.patch.object(prologs, "run", hooks.prolog),
        mock.patch.object(lifecycle, "_term_seconds", hooks.term_seconds),
    ):
        try:
            yield
        finally:
            forget()
            hooks.close()
    assert not hooks.wrong, "; ".join(hooks.wrong)


class _Hooks:
    """A Journal: jobs that end, or are signalled, have something asked."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.wrong: list[str] = []
        self._slurm = sandbox.slurm
        self._kube = sandbox.kube.model
        self._told: set[tuple[int, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def prolog(self, _config: SlurmConfig, job: Job) -> int:
        """Asks the guard until it says that the nodes are free, however often it is gone."""
        nodes = fold(tuple(share.node for share in job.shares))
        fields = {"job": str(job.id), "nodes": nodes, "wait": str(_WAIT_SECONDS)}
        await _until_free("/v1/guard", fields)
        for share in job.shares:
            if left := self._left_on(share.node, but=uids(job)):
                self.wrong.append(f"job {job.id} was let through to {share.node} beside {left}")
        return 0

    def _left_on(self, node: str, *, but: tuple[str, ...]) -> list[str]:
        """The other pods whose containers may run there, though no job holds the node for them."""
        found = (it for it in self._kube.bodies(PODS) if it["spec"].get("nodeName") == node)
        running = [it["metadata"]["uid"] for it in found if it["status"].get("phase") not in _OVER]
        return [uid for uid in running if uid not in but and not self._holds(uid, node)]

    def _holds(self, uid: str, node: str) -> bool:
        return any(
            (job.state in STARTED or job.completing) and any(it.node == node for it in job.shares)
            for job in placeholders_of(self._slurm, uid)
        )

    def term_seconds(self, _cluster: object, job: Job) -> float:
        """A placeholder asks whether its pod is gone, and stays until it is; others end."""
        if not uids(job):
            return 0.05
        self._begin(job, "gone", self._script(job))
        return float(self._slurm.config.kill_wait)

    async def _script(self, job: Job) -> None:
        (uid,) = uids(job)
        await _until_free(f"/v1/units/{uid}/gone", {"wait": str(_WAIT_SECONDS)})
        if job.completing:
            job.script_ends_at = self._slurm.clock()

    def changed(self, job: Job) -> None:
        """An EpilogSlurmctld gives a hint, once, and does not mind if nobody hears it."""
        if not job.alive and not job.completing:
            fields = {"job": str(job.id), "event": "ended"}
            self._begin(job, "ended", _hint(fields))

    def restored(self, jobs: Mapping[int, Job]) -> None:
        """No hook runs for that."""

    def asked(self, verb: str, job_id: int, *, user: str, since: float) -> None:
        """Nor for that."""

    def _begin(self, job: Job, what: str, work: Coroutine[Any, Any, None]) -> None:
        if (job.id, what) in self._told:
            work.close()
            return
        self._told.add((job.id, what))
        task = asyncio.get_running_loop().create_task(work, name=f"{what} of job {job.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _until_free(path: str, fields: Mapping[str, str]) -> None:
    while (status := await _post(path, fields, seconds=_WAIT_SECONDS + _PATIENCE_SECONDS)) != _FREE:
        assert status == _BUSY or status in _TRY_AGAIN, f"{path} is answered by {status}"
        if status in _TRY_AGAIN:
            await asyncio.sleep(_AGAIN_SECONDS)


async def _hint(fields: Mapping[str, str]) -> None:
    await _post("/v1/hints", fields, seconds=_PATIENCE_SECONDS)


async def _post(path: str, fields: Mapping[str, str], *, seconds: float) -> int:
    """The status, as curl has it."""
    head = {"Authorization": f"Bearer {SECRET}"}
    timeout = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(f"http://{_ADDRESS}{path}", data=fields, headers=head) as answer,
        ):
            return answer.status
    except (aiohttp.ClientError, TimeoutError, OSError):
        return _NO_ANSWER
