"""Opens the live page, and closes it at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog

import scheduler
from scheduler.config.settings import Settings
from scheduler.kube.session import KubeSession
from scheduler.listen.address_error import address_error
from scheduler.listen.listener import HANDSHAKE_SECONDS, PAGE, STRANGER_SECONDS, Listener
from scheduler.observe.clock import monotonic
from scheduler.page.access import Access, Open, Reviews
from scheduler.page.board import Board
from scheduler.page.partitions import PartitionBoard
from scheduler.page.queue_places import QueuePlaces
from scheduler.page.server import Page, PageServer
from scheduler.page.stream import LIFE_SECONDS, Streams, StreamTold
from scheduler.page.turns import TurnsInTurn
from scheduler.service.shown import Shown
from scheduler.view.site import site_names

log = structlog.get_logger(__name__)

# Not the scheduler's own name, by which audit logs know the scheduler.
_AGENT: Final = f"slurm-pod-scheduler-page/{scheduler.__version__}"
_MOST_REASONS: Final = 8
# A stream ends by itself; this ends one whose end nobody takes.
_KNOWN_SECONDS: Final = LIFE_SECONDS + 30.0
# The page takes no connection from the scheduler, which has a session of its own.
_CONNECTIONS: Final = 16


@asynccontextmanager
async def serving(settings: Settings, shown: Shown) -> AsyncIterator[None]:
    """Serve the page until the context is left. Raises SettingsError if the address cannot be
    bound, and KubeConfigError.
    """
    address = settings.page_bind_address
    if address is None:
        yield
        return
    session = await KubeSession.open(
        settings.kubeconfig, user_agent=_AGENT, max_connections=_CONNECTIONS
    )
    listener = Listener(
        PAGE,
        stranger_seconds=STRANGER_SECONDS,
        handshake_seconds=HANDSHAKE_SECONDS,
        known_seconds=_KNOWN_SECONDS,
    )
    async with session:
        server = PageServer(_new_page(settings, shown, session, listener))
        shown.count_streams(lambda: server.streams)
        try:
            port = await listener.open(server.app(), address)
        except OSError as error:
            raise address_error("--page-bind-address", address, error) from None
        log.info("listening", face="page", port=port)
        try:
            yield
        finally:
            await listener.close()


def _new_page(settings: Settings, shown: Shown, kube: KubeSession, listener: Listener) -> Page:
    names = site_names(settings)
    board = Board(shown, names, clock=monotonic)
    site = StreamTold(settings.scheduler_name, lambda: _process_state(shown), monotonic)
    answers = TurnsInTurn()
    is_open = settings.page_access == "open"
    access: Access = Open() if is_open else Reviews(kube, clock=monotonic)
    return Page(
        access=access,
        board=board,
        partitions=PartitionBoard(
            shown,
            names,
            served=settings.watch_namespace,
            keeps_gpus_apart=settings.gpu_node_sharing != "shared",
            answers=answers,
            clock=monotonic,
        ),
        places=QueuePlaces(board, answers=answers, clock=monotonic),
        streams=Streams(board, site),
        kube=kube,
        names=names,
        scheduler_name=settings.scheduler_name,
        is_open=is_open,
        stays=listener.know,
    )


def _process_state(shown: Shown) -> Mapping[str, Any]:
    """Facts about the process: whether it leads, and why it cannot work now."""
    return {"leads": shown.leads(), "notReady": list(shown.not_ready())[:_MOST_REASONS]}
