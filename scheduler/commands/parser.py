"""How words become a command, and a wrong word becomes one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from scheduler.config.settings import SettingsError
from scheduler.observe.redacted import redacted


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without repeating all flags. Flags are never abbreviated."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int],
    *,
    near: Callable[[str], str] | None = None,
    **texts: Any,
) -> None:
    """Add a command, which `run` carries out. `near` says what a flag that does not exist
    resembles. `texts` are those of argparse, such as `help` and `description`.
    """
    parser = commands.add_parser(name, **texts)
    add_arguments(parser)
    parser.set_defaults(command=run, parser=parser, near=near)


def run_command(root: Parser, words: Sequence[str]) -> int:
    """Run the command that the words name; returns the exit status.

    A command of `add_command` may set `takes_any_words`.
    """
    arguments, unknown = root.parse_known_args(words)
    if unknown and not getattr(arguments, "takes_any_words", False):
        arguments.parser.error(_unexpected(unknown[0], arguments))
    try:
        status: int = arguments.command(arguments)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    return status


def _unexpected(word: str, arguments: argparse.Namespace) -> str:
    # What stands behind it may be a secret, such as the value of a flag that is misspelt.
    name = redacted(word.partition("=")[0])
    if not word.startswith("-"):
        return f"unexpected argument {name}"
    near = "" if arguments.near is None else arguments.near(word)
    return f"there is no {name}{near}"
