"""A guard between a tiny Slurm and pods that tests put on Nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import msgspec
import pytest

from scheduler.core.naming import JOB_NODES
from scheduler.core.owner_tag import SEVERAL, SINGLE, Owner, OwnerTag
from scheduler.hooks.guard import Guard
from scheduler.hooks.job_states import FreshStates
from scheduler.hooks.secrets import Secrets
from scheduler.kube.wire import ObjectMeta, Pod, PodSpec, PodStatus
from scheduler.nodes.presence import Presence
from scheduler.observe.metrics import Metrics
from scheduler.slurm.pulse import Pulse
from scheduler.state.member import Member, by_uid
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState, SlurmClient
from tests.unit.service.tiny_slurm import TinySlurm, running_looks

OWNER = Owner("cluster-1", "slurm-scheduler")
SECRET = "a-secret-of-the-site"


def pod_on(node: str, *, uid: str, phase: str = "Running", ours: bool = True) -> Pod:
    """A pod on that Node; `ours` as a binding of ours leaves it."""
    meta = ObjectMeta(
        name=uid, namespace="ns", uid=uid, annotations={JOB_NODES: node} if ours and node else {}
    )
    return Pod(meta, PodSpec(node_name=node), PodStatus(phase=phase))


class Scene:
    """Units with placeholders in a tiny Slurm, pods on Nodes, and the guard that sees both."""

    def __init__(self) -> None:
        self.slurm = TinySlurm()
        self.units = Units()
        self.metrics = Metrics()
        self.synced = asyncio.Event()
        self.synced.set()
        self.behind: dict[str, str] = {}
        client = cast("SlurmClient", self.slurm)
        clock = asyncio.get_running_loop().time
        self.changed: list[str] = []
        self.hurries = 0
        self.gangs: dict[str, set[str]] = {}
        self.pulse = Pulse(
            client,
            units=self.units,
            on_change=lambda key, _cause: self.changed.append(key),
            clock=clock,
            fast_seconds=0.25,
            idle_seconds=2.0,
            metrics=self.metrics,
            running_looks=running_looks(self.slurm),
        )
        self.presence = Presence(binding=self.units.binding, clock=clock)
        self.fresh = FreshStates(self.pulse.look_now)
        self.guard = self.make_guard()

    def make_guard(
        self, *, keeps_suspended: bool = False, kube_node: Callable[[str], str] | None = None
    ) -> Guard:
        """The guard of a site that lets the pods of suspended jobs go, or keeps them."""
        return Guard(
            cast("SlurmClient", self.slurm),
            units=self.units,
            presence=self.presence,
            gang_pods=lambda key: self.gangs.get(key, ()),
            fresh=self.fresh,
            ask_sooner=self._ask_sooner,
            on_change=self.changed.append,
            owner=OWNER,
            synced=self._until_synced,
            kube_node=kube_node or (lambda node: self.behind.get(node, node)),
            clock=asyncio.get_running_loop().time,
            keeps_suspended=keeps_suspended,
        )

    def _ask_sooner(self) -> None:
        self.hurries += 1

    async def _until_synced(self) -> None:
        await self.synced.wait()

    def placeholder(self, uid: str, *, node: str | None, owner: Owner = OWNER) -> int:
        """A job for that pod: pending, or running on `node`."""
        tag = OwnerTag(SINGLE, owner.cluster, owner.scheduler, "ns", uid, (uid,))
        job_id = self.slurm.add(admin_comment=tag.encode())
        if node is not None:
            self.slurm.start(job_id, node=node)
        return job_id

    def running_pod(self, uid: str, *, node: str = "n1") -> int:
        """A pod whose containers run on the node its placeholder holds; returns the job's id."""
        job_id = self.placeholder(uid, node=node)
        self.units.add(Unit(uid, "ns", uid, seen_at=0.0, job=Placeholder(job_id)))
        self.presence.changed(None, pod_on(node, uid=uid))
        return job_id

    def gang_on(self, key: str, **node_of: str) -> int:
        """The pods of a gang with these uids, in the order of their ranks, whose containers run on
        these nodes; returns the id of their running job.
        """
        uids = tuple(node_of)
        names = tuple(f"train-{rank}" for rank in range(len(uids)))
        tag = OwnerTag(
            SEVERAL,
            OWNER.cluster,
            OWNER.scheduler,
            "ns",
            "train",
            uids,
            unit_key=key,
            group="group",
            ranks=tuple(range(len(uids))),
            names=names,
        )
        job_id = self.slurm.add(admin_comment=tag.encode())
        self.slurm.change(job_id, BaseState.RUNNING, nodes=tuple(node_of.values()))
        members = by_uid(tuple(map(Member, uids, names)))
        self.units.add(Unit(key, "ns", "train", 0.0, Placeholder(job_id), members=members))
        self.gangs[key] = set(uids)
        for uid, node in node_of.items():
            self.presence.changed(None, pod_on(node, uid=uid))
        return job_id

    def departing_pod(self, uid: str, *, node: str = "n1") -> int:
        """As running_pod, but its placeholder was cancelled an instant ago."""
        job_id = self.running_pod(uid, node=node)
        self.slurm.end(job_id, BaseState.CANCELLED)
        return job_id

    def goes(self, uid: str, *, node: str = "n1") -> None:
        """The pod is being deleted, and its containers still run."""
        before = pod_on(node, uid=uid)
        meta = msgspec.structs.replace(before.metadata, deletion_timestamp=datetime.now(UTC))
        self.presence.changed(before, msgspec.structs.replace(before, metadata=meta))

    def stop(self, uid: str) -> None:
        """The pod's containers have ended, and it is gone."""
        self.presence.changed(pod_on("n1", uid=uid, phase="Succeeded"), None)

    def force_delete(self, uid: str) -> None:
        """The pod is gone without a word of its kubelet."""
        self.presence.changed(pod_on("n1", uid=uid), None)

    def finish(self, uid: str, *, node: str = "n1") -> None:
        """The pod's containers have ended."""
        before = pod_on(node, uid=uid)
        after = msgspec.structs.replace(before, status=PodStatus(phase="Succeeded"))
        self.presence.changed(before, after)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    serving = asyncio.create_task(scene.fresh.run())
    yield scene
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    path = tmp_path / "hooks-token"
    path.write_text(SECRET + "\n")
    return path


@pytest.fixture
async def secrets(secret_file: Path) -> Secrets:
    secrets = Secrets(secret_file)
    await secrets.load()
    return secrets
