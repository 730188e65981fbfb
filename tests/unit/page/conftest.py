"""A page over stores that a test fills, with an API server that a test scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer

from scheduler.core.gang_sources import Membership
from scheduler.core.node_suitability import NodeFacts
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import Pod
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.fit import NodeFit
from scheduler.nodes.neighbourhood import Neighbourhood
from scheduler.nodes.partitions import SlurmPartitions
from scheduler.nodes.records import SlurmNodes
from scheduler.observe.clock import monotonic
from scheduler.page.access import Access, Open, Reviews
from scheduler.page.board import Board
from scheduler.page.partitions import PartitionBoard
from scheduler.page.queue_places import QueuePlaces
from scheduler.page.server import Page, PageServer
from scheduler.page.stream import Streams, StreamTold
from scheduler.page.turns import TurnsInTurn
from scheduler.policy.rulebook import Rulebook
from scheduler.service.shown import Shown
from scheduler.state.gangs import Gangs
from slurmapi import Partition, SlurmClient, SlurmError, SlurmNode
from tests.unit.kube.conftest import _no_outside_settings, session, stub
from tests.unit.view.pods import NAMES, decoded, pod

__all__ = ["_no_outside_settings", "session", "stub"]


@dataclass
class Records:
    """Slurm's nodes as a test has them."""

    listed: list[SlurmNode] = field(default_factory=list)
    listed_at: float = 0.0
    renewed: int = 0

    def record(self, name: str) -> SlurmNode | None:
        return next((it for it in self.listed if it.name == name), None)

    async def renew(self, *, older_than: float) -> None:
        self.renewed += 1


class SameNames:
    """Nodes with the names of Slurm's nodes. `known` are their facts, None while no Node may be
    read; `absent` are nodes without a Node.
    """

    edition = 0

    def __init__(self) -> None:
        self.known: dict[str, NodeFacts] | None = None
        self.absent: set[str] = set()

    @property
    def readable(self) -> bool:
        return self.known is not None

    def kube_node(self, name: str) -> str:
        return name

    def may_serve(self, name: str) -> bool:
        return name not in self.absent

    def facts(self, name: str) -> NodeFacts | None:
        return (self.known or {}).get(name)


class Fit:
    """The pods on Nodes."""

    def __init__(self) -> None:
        self.around = Neighbourhood()
        self.readable = True


class Slurm:
    """Answers about partitions; `asked` counts the requests."""

    def __init__(self) -> None:
        self.told: tuple[Partition, ...] = ()
        self.asked = 0
        self.fails: SlurmError | None = None

    async def partitions(self) -> tuple[Partition, ...]:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return self.told


class Members:
    """Which pods are in gangs."""

    def __init__(self) -> None:
        self.known: dict[str, Membership] = {}

    def of(self, uid: str) -> Membership | None:
        return self.known.get(uid)


class World:
    """What the page shows. `now` is the clock of its board."""

    def __init__(self) -> None:
        self.pods = Joined[Pod]()
        self.store: Store[Pod] = self.pods.new()
        self.records = Records()
        self.members = Members()
        self.now = 1000.0
        self.later = 0.0
        self.nodes = SameNames()
        self.fit = Fit()
        self.slurm = Slurm()
        self.rulebook = Rulebook(prefixes=NAMES.prefixes)
        self.shown = Shown(
            pods=self.pods,
            gangs=cast("Gangs", self.members),
            records=cast("SlurmNodes", self.records),
            nodes=cast("Nodes", self.nodes),
            fit=cast("NodeFit", self.fit),
            partitions=SlurmPartitions(cast("SlurmClient", self.slurm), clock=lambda: self.now),
            rulebook=self.rulebook,
            leads=lambda: True,
            not_ready=list,
            count_streams=lambda _open: None,
        )
        self.board = Board(self.shown, NAMES, clock=lambda: self.now)
        self.answers = TurnsInTurn()
        self.partitions = self.partition_board()
        self.places = self.queue_places()

    def partition_board(self, *, served: tuple[str, ...] = ()) -> PartitionBoard:
        return PartitionBoard(
            self.shown,
            NAMES,
            served=served,
            keeps_gpus_apart=True,
            answers=self.answers,
            clock=lambda: self.now,
        )

    def queue_places(self) -> QueuePlaces:
        return QueuePlaces(self.board, answers=self.answers, clock=lambda: self.now)

    def clock(self) -> float:
        """The clock of the page's routes: it goes as ours does, `later` seconds ahead."""
        return monotonic() + self.later

    def put(self, name: str, *, namespace: str = "default", **more: Any) -> Pod:
        found = decoded(pod(name, meta={"namespace": namespace}, **more))
        self.store.apply(found)
        return found

    async def refresh(self) -> None:
        self.now += 10
        await self.board.refresh()


@pytest.fixture
def world() -> World:
    return World()


@dataclass
class Caller:
    """Asks the page."""

    client: TestClient[Any, Any]
    known: list[object]
    server: PageServer


async def _serve(world: World, session: KubeSession, access: Access) -> AsyncIterator[Caller]:
    known: list[object] = []
    site = StreamTold("slurm-scheduler", lambda: {"leads": True, "notReady": []}, world.clock)
    page = Page(
        access=access,
        board=world.board,
        partitions=world.partitions,
        places=world.places,
        streams=Streams(world.board, site),
        kube=session,
        names=NAMES,
        scheduler_name="slurm-scheduler",
        is_open=isinstance(access, Open),
        stays=known.append,
    )
    server = PageServer(page)
    async with TestClient(TestServer(server.app())) as client:
        yield Caller(client, known, server)


@pytest.fixture
async def open_page(world: World, session: KubeSession) -> AsyncIterator[Caller]:
    async for it in _serve(world, session, Open()):
        yield it


@pytest.fixture
async def closed_page(world: World, session: KubeSession) -> AsyncIterator[Caller]:
    async for it in _serve(world, session, Reviews(session, clock=world.clock)):
        yield it
