"""The log line that says that the start is over, and with which settings and role we serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

import scheduler
from scheduler.config.settings import Settings
from scheduler.core.owner_tag import Owner
from scheduler.execute.placeholder_mode import Modes
from scheduler.nodes.candidates import Nodes
from slurmapi import SlurmClient

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 0.25


async def announce(
    settings: Settings,
    *,
    owner: Owner,
    slurm: SlurmClient,
    nodes: Nodes,
    modes: Modes,
    not_ready: Callable[[], Sequence[str]],
    role: Callable[[], str],
) -> None:
    """Log the line once we are ready. Raises SlurmError if Slurm no longer answers by then."""
    while not_ready():  # noqa: ASYNC110 - its many parts share no event to wait for
        await asyncio.sleep(_LOOK_SECONDS)
    version = await slurm.negotiate()
    mode = await modes.choose()
    mapped, listed = await nodes.mapped()
    log.info(
        "ready",
        version=scheduler.__version__,
        kubernetes_cluster=owner.cluster,
        scheduler_name=owner.scheduler,
        slurm_cluster=slurm.cluster,
        slurm_api=str(version),
        placeholder_mode=mode.mode,
        mode_because=mode.why,
        nodes_mapped=f"{mapped} of {listed}",
        scope=", ".join(settings.watch_namespace) or "all namespaces",
        role=role() or "leads, without an election",
    )
