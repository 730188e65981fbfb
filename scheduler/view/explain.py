"""`slurm-pod-scheduler explain POD`: the whole story of one pod.

Exit status: 0, 1 if there is nothing to tell or the cluster cannot be asked, 2 for a wrong command
line, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from scheduler.config.settings import Settings
from scheduler.view.calling import run_view
from scheduler.view.connection import ViewError, chosen_namespace, connected
from scheduler.view.page_address import add_page_flags, named_page
from scheduler.view.peers import company
from scheduler.view.printing import as_json, as_yaml, put
from scheduler.view.row import State
from scheduler.view.safe_text import shown
from scheduler.view.seen import see
from scheduler.view.site import add_flags, add_namespace, site_names
from scheduler.view.story import Story, among, story
from scheduler.view.surroundings import surroundings
from scheduler.view.telling import object_of, text_of
from scheduler.view.waiting import told_if_slow

_POD: Final = re.compile(r"(?:pods?/)?(?P<name>[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)", re.ASCII)
_LONGEST: Final = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words and flags."""
    parser.add_argument("pod", type=_pod, metavar="POD", help="the pod's name, or pod/NAME")
    add_namespace(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json", "yaml"),
        default="text",
        help="the form (default: text)",
    )
    add_page_flags(parser)
    add_flags(parser)


def _pod(word: str) -> str:
    found = _POD.fullmatch(word)
    if found is None:
        raise argparse.ArgumentTypeError(f"'{shown(word)[:_LONGEST]}': expected the name of a pod")
    return found["name"]


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command. Raises SettingsError for a flag."""
    return run_view(arguments, _run)


async def _run(arguments: argparse.Namespace, settings: Settings) -> None:
    page = named_page(arguments)
    async with connected(settings, arguments.context) as session:
        namespace = await chosen_namespace(arguments.namespace, session, settings)
        program, names, ours = arguments.parser.prog, site_names(settings), settings.scheduler_name
        with told_if_slow(program, f"the pod and its Events from {session.server}"):
            seen = await see(session, namespace, arguments.pod)
        whole = story(seen, names, ours)
        row = whole.row
        if row is not None:
            with told_if_slow(program, f"the pods of its gang from {session.server}"):
                found, unread = await company(session, row, scheduler=ours, names=names)
            whole = replace(whole, company=found, unread=(unread,) if unread else ())
            if page is not None and row.state is State.PENDING:
                token = await page.token(session)
                with told_if_slow(program, f"what else there is from {page.address.base}"):
                    whole = among(whole, await surroundings(page.address, row, token=token))
    other = "" if seen.pod is None else seen.pod.spec.scheduler_name
    if other not in {"", settings.scheduler_name}:
        raise ViewError(
            f"pod {arguments.pod} is for the scheduler {other!r}, so Slurm has no part in it; if "
            "that is another name of this scheduler, give it with --scheduler-name"
        )
    put(_story_text(whole, arguments.output))


def _story_text(whole: Story, form: str) -> str:
    match form:
        case "json":
            return as_json(object_of(whole), indent=2)
        case "yaml":
            return as_yaml(object_of(whole))
        case _:
            return text_of(whole, datetime.now(UTC))
