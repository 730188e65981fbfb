"""What an operator does with Slurm: native jobs, node states, a look at our placeholders."""

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

# Time limit in minutes for native jobs. A job without one gets a year when the backfill scheduler
# starts it (measured on 26.05.5 and 24.11.5).
UNLIMITED: Final = frozenset({None, 365 * 24 * 60})
# The user by whom tests cancel and change jobs. It has all rights, and is not the scheduler's user,
# so that Slurm's record tells the two apart.
OPERATOR: Final = "slurm"
# Base states of jobs that run or may still run (slurm.h).
LIVE: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
_FEW: Final = 20


@dataclass(frozen=True, slots=True)
class Record:
    """One job as slurmrestd shows it; `raw` is the whole record."""

    job_id: int
    name: str
    states: tuple[str, ...]
    reason: str
    nodes: str
    tag: dict[str, Any]
    raw: dict[str, Any]

    @property
    def live(self) -> bool:
        """Whether it runs or may still run."""
        return self.states[0] in LIVE

    def number(self, field: str) -> int | None:
        """A field of the form {"set", "infinite", "number"}; None if it is not set."""
        value = self.raw[field]
        if isinstance(value, dict):
            return int(value["number"]) if value["set"] else None
        return int(value)


class SlurmHand:
    """Slurm through slurmrestd, with the token of any user; AssertionError if Slurm refuses.

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
        """Whether Slurm has external jobs, which have no process (Slurm >= 25.05)."""
        return self._major != "24.11"

    async def ask(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, user: str = "root"
    ) -> Answer:
        """Send one request; repeat it for at most 30 s while no server answers."""
        rest = SlurmRest(self._url, major=self._major, token=self._token(user))
        async with asyncio.timeout(30):
            while True:
                try:
                    return await asyncio.to_thread(rest.request, method, path, body=body)
                except (OSError, http.client.HTTPException):
                    await asyncio.sleep(0.1)

    async def submit(self, name: str, *, user: str = "root", **fields: Any) -> int:
        """Submit a native job that runs until it is cancelled; returns its id. None leaves out a
        field that such a job usually has.
        """
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
            # Ids repeat after Slurm has lost its state: the default file may be another user's.
            job.setdefault("standard_output", "/dev/null")
        given = {key: value for key, value in job.items() if value is not None}
        answer = await self.ask("POST", "job/submit", body={"job": given}, user=user)
        assert answer.ok, f"submit of {name}: {answer}"
        return int(answer.body["job_id"])

    async def job(self, job_id: int) -> Record | None:
        """One job, or None if Slurm does not know it."""
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
        """Those of them that run or may still run.

        If they are few they are read one by one, because a list would mostly hold ended jobs of
        earlier tests.
        """
        answer = await self.ask("GET", "jobs/state/")
        assert answer.ok, f"jobs/state: {answer}"
        # A component is listed as 10+0, 11+1; the first one has the owner tag for all.
        ids = (str(it["job_id"]).split("+") for it in answer.body["jobs"] if it["state"][0] in LIVE)
        live = [int(job_id) for job_id, *offset in ids if offset in ([], ["0"])]
        if len(live) > _FEW:
            return [it for it in await self.placeholders(namespace) if it.live]
        found = [await self.job(job_id) for job_id in sorted(live)]
        return [it for it in found if it and it.live and it.tag.get("namespace") == namespace]

    async def cancel_all(self, job_ids: Iterable[int]) -> None:
        """Cancel all in one request, under one lock of slurmctld: nobody sees a part of it."""
        body = {"jobs": [str(it) for it in job_ids]}
        answer = await self.ask("DELETE", "jobs/", body=body, user=self.operator)
        assert answer.ok, f"cancel of {body}: {answer}"

    async def cancel(self, job_id: int) -> None:
        """Cancel a job as scancel does; a job that has already ended is fine.

        The request is repeated on EPERM, with which slurmrestd answers if slurmctld goes away in
        the middle of it (measured on both releases).
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
        """Change a job as `scontrol update` does.

        The request is repeated on EAGAIN and EINTR: without slurmdbd slurmctld refuses some changes
        of a partition or an account with such a stale errno (measured on 26.05.5 and 24.11.5).
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
        """The features of a node, which constraints can name."""
        answer = await self.ask("GET", f"node/{node}")
        return tuple(answer.body["nodes"][0]["features"])

    async def set_features(self, node: str, *features: str) -> None:
        """Change the features of a node."""
        body = {"features": list(features), "features_act": list(features)}
        answer = await self.ask("POST", f"node/{node}", body=body)
        assert answer.ok, f"features {features} of {node}: {answer}"

    async def resume_node(self, node: str) -> None:
        """Return a node to service, unless its slurmd has already brought it back."""
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
