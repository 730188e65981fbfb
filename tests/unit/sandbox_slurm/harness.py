"""Small clusters, a clock set by hand, and a raw HTTP client that sees every byte of an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from scheduler.sandbox.slurm import (
    Gres,
    NodeConfig,
    PartitionConfig,
    Release,
    SlurmConfig,
    SlurmModel,
    mint_token,
)
from scheduler.sandbox.slurm.errors import SlurmError
from scheduler.sandbox.slurm.records import Job

START = 1_800_000_000.0
SLEEP = "#!/bin/sh\nexec sleep infinity\n"


@dataclass
class Clock:
    now: float = START

    def __call__(self) -> float:
        return self.now


def config(release: Release = Release.V26_05, *, nodes: int = 2, **changes: Any) -> SlurmConfig:
    """Nodes of 16 CPUs, 64000 MiB and 4 GPUs; partitions main, high and one with limits."""
    kinds = tuple(
        NodeConfig(
            name=f"n{index}",
            cpus=16,
            memory_mib=64_000,
            gres=(Gres("gpu", 4, "h100"),),
            features=("fast",) if index == 1 else ("slow",),
            external=release is Release.V26_05,
        )
        for index in range(1, nodes + 1)
    )
    partitions = (
        PartitionConfig(name="main", default=True),
        PartitionConfig(name="high", priority_tier=10),
        PartitionConfig(name="capped", nodes=("n1",), max_time_minutes=60, default_time_minutes=10),
    )
    plain = SlurmConfig(nodes=kinds, partitions=partitions, release=release)
    return replace(plain, **changes)


@dataclass
class Lab:
    """A controller whose time stands still until `pass_time`."""

    config: SlurmConfig = field(default_factory=config)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.model = SlurmModel(self.config, clock=self.clock)

    def submit(self, user: str = "root", script: str | None = None, **fields: Any) -> Job:
        """One task of one CPU on one node; external unless there is a script."""
        plain = {
            "name": "job",
            "flags": [] if script else ["EXTERNAL_JOB"],
            "nodes": "1",
            "tasks": 1,
            "cpus_per_task": 1,
            "memory_per_node": 1000,
            "environment": ["PATH=/bin"],
            "current_working_directory": "/tmp",
        }
        job, _ = self.model.submit({**plain, **fields}, script, user=user)
        return job

    def refusal(self, **fields: Any) -> int:
        """The number a submit is refused with, 0 when it is not."""
        try:
            self.submit(**fields)
        except SlurmError as error:
            return error.number
        return 0

    def pass_time(self, seconds: float = 1.0) -> None:
        """Let time pass and the controller do what is due then."""
        self.clock.now += seconds
        self.model.tick()

    def again(self, job: Job) -> Job:
        """The job's record after a restart of the controller."""
        return self.model.job(job.id)


@dataclass(frozen=True)
class Reply:
    """The answers to one request, as (status, headers, body) each."""

    answers: tuple[tuple[int, Mapping[str, str], bytes], ...]

    @property
    def status(self) -> int:
        return self.answers[0][0]

    @property
    def body(self) -> bytes:
        return self.answers[0][2]

    @property
    def json(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded

    @property
    def errors(self) -> list[int]:
        return [error["error_number"] for error in self.json["errors"]]

    @property
    def warnings(self) -> list[str]:
        return [warning["description"] for warning in self.json["warnings"]]


@dataclass
class Wire:
    """slurmrestd at a port, seen as one user through one version."""

    port: int
    key: bytes
    version: str = "v0.0.45"
    user: str = "root"

    async def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request, close the sending side, read until the end."""
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        target = path if path.startswith("/") else f"/slurm/{self.version}/{path}"
        sent = {
            "Host": "slurm",
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            "X-SLURM-USER-TOKEN": mint_token(self.key, self.user),
            **(headers or {}),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + data)
            writer.write_eof()
            received = await asyncio.wait_for(reader.read(), timeout=10)
        finally:
            writer.close()
            await writer.wait_closed()
        return Reply(tuple(_answers(received)))

    def of(self, *, user: str | None = None, version: str | None = None) -> Wire:
        """The same slurmrestd for another user or through another version."""
        return replace(self, user=user or self.user, version=version or self.version)


def _answers(received: bytes) -> list[tuple[int, Mapping[str, str], bytes]]:
    found: list[tuple[int, Mapping[str, str], bytes]] = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        length = int(headers["Content-Length"])
        found.append((int(first.split(" ")[1]), headers, rest[:length]))
        received = rest[length:]
    return found
