"""`slurm-pod-scheduler partitions`: what may I ask for, and what would start now?

It asks the live page of the running scheduler with the user's own token; where none can be
reached, it tells what the pods of the namespace show. Exit status: 0, 1 if the cluster or the page
refuses, 2 for a wrong command line, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import partial
from typing import Final

import msgspec

from scheduler.config.settings import Settings
from scheduler.kube.session import KubeSession
from scheduler.view import choice, page_client
from scheduler.view.calling import run_view
from scheduler.view.connection import chosen_namespace, connected
from scheduler.view.listing import Listing, Wanted
from scheduler.view.output import FORMS, TABLES
from scheduler.view.page_address import VARIABLE, add_page_flags, named_page
from scheduler.view.page_client import NotAnswered
from scheduler.view.partition_row import PartitionsTold
from scheduler.view.partition_table import partition_table
from scheduler.view.partitions_of_pods import partitions_of
from scheduler.view.printing import as_json, as_yaml, put
from scheduler.view.row import row_of
from scheduler.view.safe_text import shown
from scheduler.view.site import add_flags, add_namespace, site_names
from scheduler.view.waiting import told_if_slow

_UNNAMED: Final = (
    "the scheduler is not asked, because nothing says where its live page is: set --page-url or "
    f"{VARIABLE} (docs/partitions.md)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    add_namespace(parser)
    parser.add_argument(
        "-p",
        "--partition",
        type=choice.partition_names,
        default=frozenset(),
        metavar="NAMES",
        help="only these Slurm partitions, comma-separated",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMS,
        default="table",
        help="the form; wide has limits and notes too, name is the names alone (default: table)",
    )
    add_page_flags(parser)
    add_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command. Raises SettingsError for a flag."""
    return run_view(arguments, _run)


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    page = named_page(arguments)
    async with connected(settings, arguments.context) as session:
        namespace = await chosen_namespace(arguments.namespace, session, settings)
        found: PartitionsTold | NotAnswered = NotAnswered(_UNNAMED)
        if page is not None:
            token = await page.token(session)
            with told_if_slow(arguments.parser.prog, f"partitions from {page.address.base}"):
                found = await page_client.ask_partitions(
                    page.address, token=token, namespace=namespace
                )
        if isinstance(found, NotAnswered):
            _say(arguments, found.why)
            with told_if_slow(arguments.parser.prog, f"pods from {session.server}"):
                found = await _of_pods(session, settings, namespace)
    _show(arguments, found)


async def _of_pods(session: KubeSession, settings: Settings, namespace: str) -> PartitionsTold:
    wanted = Wanted(settings.scheduler_name, namespace, "")
    listing = Listing(session, wanted, read=partial(row_of, names=site_names(settings)))
    await listing.fill()
    return partitions_of(listing.rows.values(), namespace)


def _show(arguments: argparse.Namespace, found: PartitionsTold) -> None:
    names = arguments.partition
    chosen = [it for it in found.items if not names or it.name in names]
    if arguments.output == "name":
        put("".join(f"{shown(it.name)}\n" for it in chosen))
        return
    if arguments.output in TABLES:
        for said in (*found.limits, *found.notes):
            _say(arguments, said)
        if not chosen:
            what = "none of the partitions asked for" if names else "no partition"
            _say(arguments, f"{what} for namespace {found.namespace}")
            return
        most = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        put(partition_table(chosen, wide=arguments.output == "wide", most=most))
        return
    value = msgspec.to_builtins(msgspec.structs.replace(found, items=tuple(chosen)))
    del value["continue"]
    put(as_json(value, indent=2) if arguments.output == "json" else as_yaml(value))


def _say(arguments: argparse.Namespace, text: str) -> None:
    sys.stderr.write(f"{arguments.parser.prog}: {shown(text)}\n")
