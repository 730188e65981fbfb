"""Runs a command about pods, and turns what goes wrong into one line and an exit status."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine

from groundwork.output import drop_output
from scheduler.config.settings import Settings
from scheduler.observe import logs
from scheduler.view.connection import ViewError
from scheduler.view.safe_text import shown
from scheduler.view.site import settings_of

ViewCommand = Callable[[argparse.Namespace, Settings], Coroutine[None, None, None]]
"""Carries the command out. May raise ViewError and OSError."""


def run_view(arguments: argparse.Namespace, command: ViewCommand) -> int:
    """Returns the exit status. Raises SettingsError for a flag."""
    settings = settings_of(arguments)
    logs.set_up("error", "console")
    if sys.stdout is None:  # it was closed, such as by `>&-`
        return _report_failure(arguments, "standard output is closed")
    try:
        asyncio.run(command(arguments, settings))
    except BrokenPipeError:
        drop_output()
    except (ViewError, OSError) as error:
        return _report_failure(arguments, str(error))
    return 0


def _report_failure(arguments: argparse.Namespace, why: str) -> int:
    sys.stderr.write(f"{arguments.parser.prog}: {shown(why)}\n")
    return 1
