"""`slurm-pod-scheduler queue`: the pods of one scheduler name, as squeue shows jobs.

Exit status: 0, 1 if the cluster cannot be asked, 2 for wrong words, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from annotations import PREFIX
from scheduler.config import flags
from scheduler.config.settings import ENV_PREFIX, Settings
from scheduler.observe import logs
from scheduler.view import choice
from scheduler.view.choice import Choice, ordered
from scheduler.view.connection import ViewError, chosen_namespace, connected, variables
from scheduler.view.listing import Listing, Wanted
from scheduler.view.output import FORMS, Output
from scheduler.view.printing import drop_output, put
from scheduler.view.row import IN_QUEUE, Names, Row, row_of
from scheduler.view.safe_text import shown
from scheduler.view.watching import print_changes, repaint

_FLAGS_OF_RUN: Final = ("kubeconfig", "annotation_prefix", "device_resources")
_SETTINGS: Final = ("scheduler_name", *_FLAGS_OF_RUN)
"""Settings of the service that count here too; their environment variables do as well."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="the namespace (default: that of the kubeconfig's context)",
    )
    where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    _add_choice(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=FORMS,
        default="table",
        help="the form; wide has more columns, name is for kubectl (default: table)",
    )
    parser.add_argument(
        "-w",
        "--watch",
        action="store_true",
        help="go on until Ctrl-C: a terminal is repainted; elsewhere each change is a line",
    )
    parser.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    parser.add_argument(
        "--scheduler-name",
        default=argparse.SUPPRESS,
        metavar="NAME",
        help="the schedulerName of the pods (default: slurm-scheduler)",
    )
    for name in _FLAGS_OF_RUN:
        flags.add_argument(parser, name)


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-t",
        "--states",
        type=choice.states,
        default=IN_QUEUE,
        metavar="STATES",
        help="only these states, comma-separated, such as PENDING or PD; all: also of pods that "
        "have ended (default: those that have not)",
    )
    parser.add_argument(
        "-p",
        "--partition",
        type=choice.partitions,
        default=frozenset(),
        metavar="NAMES",
        help="only pods of these Slurm partitions, comma-separated",
    )
    parser.add_argument(
        "-l", "--selector", default="", metavar="LABELS", help="only pods with these labels"
    )
    parser.add_argument(
        "--sort",
        type=choice.order,
        default=choice.FIRST_ORDER,
        metavar="COLUMNS",
        help=f"comma-separated, a minus in front means descending: {choice.SORT_NAMES} (default: "
        f"{choice.FIRST_ORDER})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command. Raises SettingsError for a flag."""
    given = {name: it for name, it in vars(arguments).items() if name in _SETTINGS}
    settings = flags.load(argparse.Namespace(**given), variables(os.environ, ENV_PREFIX, _SETTINGS))
    logs.set_up("error", "console")
    if sys.stdout is None:  # it was closed, such as by `>&-`
        return _failed(arguments, "standard output is closed")
    try:
        asyncio.run(_run(arguments, settings))
    except BrokenPipeError:
        drop_output()
    except (ViewError, OSError) as error:
        return _failed(arguments, str(error))
    return 0


def _failed(arguments: argparse.Namespace, why: str) -> int:
    sys.stderr.write(f"{arguments.parser.prog}: {shown(why)}\n")
    return 1


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    async with connected(settings, arguments.context) as session:
        namespace = ""
        if not arguments.all_namespaces:
            namespace = await chosen_namespace(arguments.namespace, session, settings)
        wanted = Wanted(settings.scheduler_name, namespace, arguments.selector)
        listing = Listing(session, wanted, read=partial(row_of, names=_names(settings)))
        await listing.fill()
        await _show(arguments, listing, wanted)


def _names(settings: Settings) -> Names:
    gpus = (name for name, gres in settings.device_resources.items() if _is_gpu(gres))
    prefixes = filter(None, (PREFIX, settings.annotation_prefix))
    return Names(prefixes=tuple(prefixes), gpus=frozenset(gpus))


def _is_gpu(gres: str) -> bool:
    return gres.partition(":")[0] == "gpu"


async def _show(arguments: argparse.Namespace, listing: Listing, wanted: Wanted) -> None:
    """Show all rows, and then each change if the user wants to see them."""
    output = Output(arguments.output, namespaces=not wanted.namespace)
    chosen = Choice(arguments.states, arguments.partition)

    def rows() -> Sequence[Row]:
        return ordered(filter(chosen.takes, listing.rows.values()), arguments.sort)

    if arguments.watch and output.repaints:
        await repaint(listing, lambda: output.painting(rows()))
    elif arguments.watch:
        put(output.each(rows(), heading=True))
        await print_changes(listing, takes=chosen.takes, text=lambda row: output.each([row]))
    else:
        put(output.whole(found := rows()))
        if not found:
            sys.stderr.write(f"{_nothing(wanted, listing)}\n")


def _nothing(wanted: Wanted, listing: Listing) -> str:
    where = f"in namespace {wanted.namespace}" if wanted.namespace else "in any namespace"
    name = f"schedulerName {shown(wanted.scheduler_name)}"
    if listing.rows:
        return f"none of the {len(listing.rows)} pods with {name} {where} is one of those asked for"
    return f"no pods with {name} {where}"
