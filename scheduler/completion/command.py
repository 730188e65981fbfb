"""`slurm-pod-scheduler completion SHELL`: prints the completion script for that shell.

Exit status: 0; 2 if the command line is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Final

from groundwork.output import write
from scheduler.completion import bash, fish, zsh
from scheduler.completion.words import CommandLine, command_line

SHELLS: Final[Mapping[str, Callable[[CommandLine], str]]] = {
    "bash": bash.script,
    "zsh": zsh.script,
    "fish": fish.script,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the word that names the shell."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def run(shell: str, parser: argparse.ArgumentParser, *, first: str) -> int:
    """Print the script for this shell and this command line. `first` is the command
    that is meant if only flags are typed.
    """
    write(SHELLS[shell](command_line(parser, first=first)))
    return 0
