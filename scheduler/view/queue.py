"""`slurm-pod-scheduler queue`: the pods of one scheduler name, as squeue shows jobs.

Exit status: 0, 1 if the cluster cannot be asked, 2 for a wrong command line, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from scheduler.config.settings import Settings
from scheduler.view import choice, page_client
from scheduler.view.calling import run_view
from scheduler.view.choice import Choice, ordered
from scheduler.view.connection import ViewError, chosen_namespace, connected
from scheduler.view.gang_rows import by_gang
from scheduler.view.listing import Listing, Wanted
from scheduler.view.output import FORMS, Output, repaints
from scheduler.view.page_address import PageAddress, add_page_flags, named_page
from scheduler.view.page_client import NotAnswered
from scheduler.view.printing import put
from scheduler.view.queue_place import QueuePlace, with_places
from scheduler.view.row import IN_QUEUE, Row, row_of
from scheduler.view.safe_text import shown
from scheduler.view.site import SLURM_FLAGS, add_flags, add_namespace, add_slurm_flags, site_names
from scheduler.view.waiting import told_if_slow
from scheduler.view.watching import print_changes, repaint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    where = parser.add_mutually_exclusive_group()
    add_namespace(where)
    where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    _add_choice(parser)
    parser.add_argument(
        "--gangs",
        action="store_true",
        help="one line for all pods of a gang, with the state of the pod that is furthest behind",
    )
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
    add_page_flags(parser)
    add_flags(parser)
    _add_jobs(parser)


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    slurm = parser.add_argument_group("jobs of Slurm")
    slurm.add_argument(
        "--jobs",
        action="store_true",
        help="also the jobs that are no pods', with the rights of your own token of Slurm",
    )
    add_slurm_flags(slurm)


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
        type=choice.partition_names,
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
    _refuse_contradictions(arguments)
    return run_view(arguments, _run)


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    """End with status 2 if some of the flags do not go together."""
    if arguments.watch and _shows_gangs(arguments) and not repaints(arguments.output):
        arguments.parser.error("--gangs with --watch needs a terminal, and a table as the form")
    if not arguments.jobs:
        given = sorted(SLURM_FLAGS & vars(arguments).keys())
        if given:
            arguments.parser.error(f"--{given[0].replace('_', '-')} is only for --jobs")
        return
    for given, name, why in (
        (arguments.watch, "--watch", "Slurm does not tell changes, and each look costs it work"),
        (arguments.selector, "--selector", "jobs of Slurm have no labels"),
        (arguments.output == "name", "--output=name", "these names are for kubectl"),
    ):
        if given:
            arguments.parser.error(f"--jobs does not go with {name}: {why}")


def _shows_gangs(arguments: argparse.Namespace) -> bool:
    """Whether a row stands for a gang. Names are for kubectl, which knows pods alone."""
    return bool(arguments.gangs) and arguments.output != "name"


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    page = named_page(arguments)
    async with connected(settings, arguments.context) as session:
        namespace = ""
        if not arguments.all_namespaces:
            namespace = await chosen_namespace(arguments.namespace, session, settings)
        wanted = Wanted(settings.scheduler_name, namespace, arguments.selector)
        listing = Listing(session, wanted, read=partial(row_of, names=site_names(settings)))
        waited_for = f"pods from {session.server}"
        with told_if_slow(arguments.parser.prog, waited_for, lambda: listing.come):
            await listing.fill()
        places = None
        if page is not None and not arguments.watch and arguments.output != "name":
            token = await page.token(session)
            places = await _places(arguments, page.address, token, namespace)
        jobs = await _jobs(arguments, settings, listing) if arguments.jobs else ()
        await _show(arguments, listing, wanted, places, jobs)


async def _jobs(
    arguments: argparse.Namespace, settings: Settings, listing: Listing
) -> Sequence[Row]:
    """The jobs of Slurm that are no pods'. Standard error says how many are left out."""
    # It loads the client of Slurm, which nobody else waits for.
    from scheduler.view.native_jobs import MOST_JOBS, native_jobs  # noqa: PLC0415

    program = arguments.parser.prog
    pods = [row.job for row in listing.rows.values()]
    found = await native_jobs(settings, states=arguments.states, pods=pods, program=program)
    if found.left_out:
        sys.stderr.write(
            f"{program}: {found.left_out} of Slurm's jobs could not be listed (one call asks about "
            f"{MOST_JOBS} at most): choose states with -t, or use squeue\n"
        )
    return found.rows


async def _places(
    arguments: argparse.Namespace, page: PageAddress, token: str, namespace: str
) -> Mapping[str, QueuePlace] | None:
    """The places of waiting pods by uid. If the page does not tell them, standard error says why,
    and the queue is shown without them.
    """
    try:
        with told_if_slow(arguments.parser.prog, f"places from {page.base}"):
            found = await page_client.ask_places(page, token=token, namespace=namespace)
    except ViewError as error:
        found = NotAnswered(str(error))
    if not isinstance(found, NotAnswered):
        return {it.uid: it for it in found.items}
    sys.stderr.write(f"{arguments.parser.prog}: without places: {shown(found.why)}\n")
    return None


async def _show(
    arguments: argparse.Namespace,
    listing: Listing,
    wanted: Wanted,
    places: Mapping[str, QueuePlace] | None,
    jobs: Sequence[Row],
) -> None:
    """Show all rows, with the `jobs` of Slurm, and then each change if the user wants to see them.
    Places change all the time, so a watch has none.
    """
    gangs = _shows_gangs(arguments)
    output = Output(
        arguments.output,
        namespaces=not wanted.namespace,
        gangs=gangs,
        places=places is not None,
        users=arguments.jobs,
    )
    chosen = Choice(arguments.states, arguments.partition)

    def rows() -> Sequence[Row]:
        found = list(with_places(listing.rows.values(), places or {}))
        found = by_gang(found) if gangs else found
        return ordered(filter(chosen.takes, [*found, *jobs]), arguments.sort)

    if arguments.watch and repaints(arguments.output):
        await repaint(listing, lambda: output.painting(rows()))
    elif arguments.watch:
        put(output.each(rows(), heading=True))
        await print_changes(listing, takes=chosen.takes, text=lambda row: output.each([row]))
    else:
        put(output.whole(found := rows()))
        if not found:
            more = "; of Slurm's jobs, none" if arguments.jobs else ""
            sys.stderr.write(f"{_nothing(wanted, listing, chosen)}{more}\n")


def _nothing(wanted: Wanted, listing: Listing, chosen: Choice) -> str:
    where = f"in namespace {wanted.namespace}" if wanted.namespace else "in any namespace"
    name = f"schedulerName {shown(wanted.scheduler_name)}"
    rows = listing.rows.values()
    if not rows:
        return f"no pods with {name} {where}"
    if chosen.states.isdisjoint(it.state for it in rows):
        states = ", ".join(sorted({it.state for it in rows}))
        counted = "1 pod" if len(rows) == 1 else f"{len(rows)} pods"
        return f"{counted} with {name} {where}, but only in other states ({states}): see -t all"
    return f"none of the {len(rows)} pods with {name} {where} is one of those asked for"
