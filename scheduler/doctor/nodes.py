"""`slurm-pod-scheduler nodes`: each Slurm node, its Node, and who holds what of it.

It asks both servers with the settings of `run`, as the doctor does, and changes nothing. Exit
status: 0, 1 if a server cannot be asked, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Final

from groundwork.output import write
from scheduler.config import flags
from scheduler.config.settings import Settings
from scheduler.doctor.asking import Progress
from scheduler.doctor.command import agent, request_seconds
from scheduler.doctor.facts import KubeFacts, SlurmFacts, Unread
from scheduler.doctor.finding import plain
from scheduler.doctor.node_rows import NodeRow, node_as_object, rows
from scheduler.doctor.node_table import node_table
from scheduler.doctor.read_kube import KubeReader
from scheduler.doctor.read_nodes import pairs
from scheduler.doctor.read_slurm import SlurmReader
from scheduler.kube.session import KubeConfigError, KubeSession

_MOST_NAMED: Final = 50
_SECONDS: Final = 15.0


class _NotAskedError(Exception):
    """A server cannot be asked; the message says why."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's own flags, and those of `run`."""
    parser.add_argument(
        "-p",
        "--partition",
        default="",
        metavar="NAMES",
        help="only nodes of these Slurm partitions, comma-separated",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="the form (default: table)",
    )
    parser.add_argument(
        "--request-timeout",
        type=request_seconds,
        default=_SECONDS,
        metavar="SECONDS",
        help="how long each question to a server may take (default: 15)",
    )
    flags.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command. Raises SettingsError."""
    settings = flags.load_settings(arguments)
    try:
        found, unread = asyncio.run(_read(settings, seconds=arguments.request_timeout))
    except _NotAskedError as error:
        sys.stderr.write(f"{arguments.parser.prog}: {plain(str(error))}\n")
        return 1
    wanted = set(filter(None, arguments.partition.split(",")))
    chosen = [it for it in found if not wanted or wanted & set(it.partitions)]
    if wanted and not chosen:
        names = sorted({name for it in found for name in it.partitions})
        known = ", ".join(names[:_MOST_NAMED]) or "none"
        unread = [*unread, f"-p: no node is in such a partition; there are {known}"]
    for why in unread:
        sys.stderr.write(f"{arguments.parser.prog}: {plain(why)}\n")
    if arguments.output == "json":
        write(json.dumps({"items": [node_as_object(it) for it in chosen]}, indent=2) + "\n")
    else:
        write(node_table(chosen))
    return 0


async def _read(settings: Settings, *, seconds: float) -> tuple[list[NodeRow], Sequence[str]]:
    """The rows, and what could not be read. Raises _NotAskedError."""
    progress = Progress(_say)
    async with (
        progress.shown(),
        SlurmReader(settings, seconds=seconds, progress=progress) as slurm,
    ):
        facts = await slurm.read()
        for answer in (facts.version, facts.nodes):
            if isinstance(answer, Unread):
                raise _NotAskedError(answer.why)
        try:
            kube = await KubeSession.open(settings.kubeconfig, user_agent=agent("nodes"))
        except KubeConfigError as error:
            raise _NotAskedError(str(error)) from None
        async with kube:
            reader = KubeReader(
                settings, kube, reads_labels=False, seconds=seconds, progress=progress
            )
            return await _together(settings, facts, slurm, reader)


async def _together(
    settings: Settings, facts: SlurmFacts, slurm: SlurmReader, reader: KubeReader
) -> tuple[list[NodeRow], Sequence[str]]:
    nodes, tenants, slurmd = await asyncio.gather(
        reader.nodes(), reader.tenants(), reader.slurmd_pods()
    )
    if isinstance(slurmd, Unread):
        raise _NotAskedError(slurmd.why)
    unread = [f"Nodes could not be read: {nodes.why}"] if isinstance(nodes, Unread) else []
    ours, others = (tenants, tenants) if isinstance(tenants, Unread) else tenants
    if isinstance(tenants, Unread):
        unread.append(f"pods could not be read, so none is counted: {tenants.why}")
    elif not tenants[0].whole:
        unread.append("there are more pods than were counted")
    kube = KubeFacts(server="", nodes=nodes)
    found = await asyncio.to_thread(pairs, settings, facts, kube, records=slurm.nodes, pods=slurmd)
    if isinstance(found, Unread):
        raise _NotAskedError(found.why)
    resources = settings.device_resources
    return rows(found, ours=ours, others=others, resources=resources), unread


def _say(line: str) -> None:
    sys.stderr.write(f"slurm-pod-scheduler nodes: {line}\n")
    sys.stderr.flush()
