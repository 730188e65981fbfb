"""An operator's hand on Slurm: native jobs, node states, a look at our placeholders."""

from __future__ import annotations

import asyncio
import errno
import http.client
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from tests.support.slurm_rest import Answer, SlurmRest

# The minutes of a job that asks for no limit: one that the backfill scheduler starts gets a year
# (measured on 26.05.5 and 24.11.5).
UNLIMITED: Final = frozenset({None, 365 * 24 * 60})
# Who cancels and changes jobs by a test's hand: a user with all rights, and another than the
# scheduler comes as, so that Slurm's record tells the two apart.
OPERATOR: Final = "slurm"
# Base states of jobs that may still run or run (slurm.h).
LIVE: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
_FEW: Final = 20


@dataclass(frozen=True, slots=True)
class Record:
    """One job as slurmrestd shows it; `raw` has the rest."""

    job_id: int
    name: str
    states: tuple[str, ...]
    reason: str
    nodes: str
    tag: dict[str, Any]
    raw: dict[str, Any]

    @property
    def live(self) -> bool:
        """Whether it may still run."""
        return self.states[0] in LIVE

    def number(self, field: str) -> int | None:
        """A numeric field of Slurm's set/infinite/number kind, or None where it is not set."""
        value = self.raw[field]
        if isinstance(value, dict):
            return int(value["number"]) if value["set"] else None
        return int(value)


class SlurmHand:
    """Slurm through slurmrestd, with any user's token; AssertionError where it refuses.

    `operator` is the user who cancels and changes jobs.
    """

    def __init__(
        self, url: str, *, major: str, token: Callable[[str], str], operator: str = OPERATOR
    ) -> None:
        self.operator = operator
        self._url = url
        self._major = major
        self._token = token

    @property
    def external(self) -> bool:
        """Whether jobs can be without a process (Slurm >= 25.05)."""
        return self._major != "24.11"

    async def ask(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, user: str = "root"
    ) -> Answer:
        """One request; repeated while nothing answers, for at most 30 s."""
        rest = SlurmRest(self._url, major=self._major, token=self._token(user))
        async with asyncio.timeout(30):
            while True:
                try:
                    return await asyncio.to_thread(rest.request, method, path, body=body)
                except (OSError, http.client.HTTPException):
                    await asyncio.sleep(0.1)

    async def submit(self, name: str, *, user: str = "root", **fields: Any) -> int:
        """Submit a native job that runs until it is cancelled; returns its id."""
        job: dict[str, Any] = {
            "name": name,
            "current_working_directory": "/tmp",
            "environment": ["PATH=/usr/bin:/bin"],
            "nodes": "1",
            "tasks": 1,
            "cpus_per_task": 1,
            "memory_per_node": {"set": True, "number": 100},
        }
        if self.external:
            job["flags"] = ["EXTERNAL_JOB"]
        else:
            job["script"] = "#!/bin/sh\nexec sleep 3600\n"
        job |= fields
        if "script" in job:
            # Ids come again after Slurm has lost its state: the default may be another user's file.
            job.setdefault("standard_output", "/dev/null")
        answer = await self.ask("POST", "job/submit", body={"job": job}, user=user)
        assert answer.ok, f"submit of {name}: {answer}"
        return int(answer.body["job_id"])

    async def job(self, job_id: int) -> Record | None:
        """One job, or None when Slurm does not know it."""
        answer = await self.ask("GET", f"job/{job_id}")
        if any(error.get("error_number") == 2017 for error in answer.body.get("errors", ())):
            return None
        assert answer.ok, f"job {job_id}: {answer}"
        return _record(answer.body["jobs"][0])

    async def jobs(self) -> list[Record]:
        """All jobs."""
        answer = await self.ask("GET", "jobs/")
        assert answer.ok, f"jobs: {answer}"
        return [_record(raw) for raw in answer.body["jobs"]]

    async def placeholders(self, namespace: str) -> list[Record]:
        """The jobs whose owner tag names `namespace`, ended ones included, by id."""
        mine = [it for it in await self.jobs() if it.tag.get("namespace") == namespace]
        return sorted(mine, key=lambda it: it.job_id)

    async def live_placeholders(self, namespace: str) -> list[Record]:
        """Those of them that may still run. Where these are few they are looked at one by one:
        what has ended of former tests would be most of a list.
        """
        answer = await self.ask("GET", "jobs/state/")
        assert answer.ok, f"jobs/state: {answer}"
        live = [it["job_id"] for it in answer.body["jobs"] if it["state"][0] in LIVE]
        if len(live) > _FEW:
            return [it for it in await self.placeholders(namespace) if it.live]
        found = [await self.job(job_id) for job_id in sorted(live)]
        return [it for it in found if it and it.live and it.tag.get("namespace") == namespace]

    async def cancel_all(self, job_ids: Iterable[int]) -> None:
        """As one scancel: slurmctld ends them under one lock, so that no look sees a part."""
        body = {"jobs": [str(it) for it in job_ids]}
        answer = await self.ask("DELETE", "jobs/", body=body, user=self.operator)
        assert answer.ok, f"cancel of {body}: {answer}"

    async def cancel(self, job_id: int) -> None:
        """What scancel does; a job that has ended already is fine.

        Where slurmctld goes away amid it, slurmrestd tells of EPERM (measured on both releases):
        repeated.
        """
        gone = {0, 2017, 2021}
        cancel = partial(self.ask, "DELETE", f"job/{job_id}", user=self.operator)
        answer = await cancel()
        for _ in range(20):
            if all(it["error_number"] != errno.EPERM for it in answer.body.get("errors", ())):
                break
            await asyncio.sleep(0.5)
            answer = await cancel()
        errors = [it for it in answer.body.get("errors", ()) if it["error_number"] not in gone]
        assert not errors, f"cancel of {job_id}: {answer}"

    async def update(self, job_id: int, **fields: Any) -> None:
        """Change a job as an operator would with scontrol update.

        Without slurmdbd slurmctld refuses some changes of a partition or an account with a stale
        errno, EAGAIN or EINTR (measured on 26.05.5 and 24.11.5): repeated.
        """
        update = partial(self.ask, "POST", f"job/{job_id}", body=fields, user=self.operator)
        answer = await update()
        for _ in range(20):
            if all(it["error_number"] not in {4, 11} for it in answer.body.get("errors") or ()):
                break
            answer = await update()
        assert answer.ok, f"update of {job_id} with {fields}: {answer}"

    async def set_node(self, node: str, state: str) -> None:
        """Set a node DOWN, DRAIN or RESUME."""
        body = {"state": [state], "reason": "a test"}
        answer = await self.ask("POST", f"node/{node}", body=body)
        assert answer.ok, f"node {node} to {state}: {answer}"

    async def features(self, node: str) -> tuple[str, ...]:
        """What a node has for constraints to name."""
        answer = await self.ask("GET", f"node/{node}")
        return tuple(answer.body["nodes"][0]["features"])

    async def set_features(self, node: str, *features: str) -> None:
        """Change that."""
        body = {"features": list(features), "features_act": list(features)}
        answer = await self.ask("POST", f"node/{node}", body=body)
        assert answer.ok, f"features {features} of {node}: {answer}"

    async def resume_node(self, node: str) -> None:
        """Have a node in service; one whose slurmd has come back by itself is, and stays so."""
        answer = await self.ask("POST", f"node/{node}", body={"state": ["RESUME"]})
        if not answer.ok:
            found = await self.ask("GET", f"node/{node}")
            states = set(found.body["nodes"][0]["state"])
            assert not states & {"DOWN", "DRAIN"}, f"node {node} to RESUME: {answer}; {states}"


def _record(raw: dict[str, Any]) -> Record:
    return Record(
        job_id=int(raw["job_id"]),
        name=raw["name"],
        states=tuple(raw["job_state"]),
        reason=raw["state_reason"],
        nodes=raw["nodes"],
        tag=_tag(raw["admin_comment"]),
        raw=raw,
    )


def _tag(text: str) -> dict[str, Any]:
    try:
        tag = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return tag if isinstance(tag, dict) else {}
