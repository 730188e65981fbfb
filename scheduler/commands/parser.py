"""How words become a command, and a wrong word becomes one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
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


def carried_out(root: Parser, words: Sequence[str]) -> int:
    """Run the command that the words name; returns the exit status.

    Each command's parser sets `command` and `parser`. It may set `near`, which says what a flag
    that does not exist resembles, and `takes_any_words`.
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
    near = arguments.near(word) if "near" in arguments else ""
    return f"there is no {name}{near}"
