"""The commands, flags and values of a command line, read from its argument parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_FILES: Final = frozenset({"FILE", "PATH", "FOLDER", "KUBECONFIG"})
_CHOICES: Final = re.compile(r"[\w.-]+(?:\|[\w.-]+)+")
_LONGEST: Final = 72


@dataclass(frozen=True, slots=True)
class Values:
    """What may stand where a value is expected: these words, or a file, or anything."""

    words: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag: its spellings, what it means, and its value; None if it takes none."""

    names: tuple[str, ...]
    help: str
    value: Values | None
    metavar: str = ""

    @property
    def long(self) -> str:
        """Its long spelling without the hyphens; "" if there is none."""
        return next((it[2:] for it in self.names if it.startswith("--")), "")

    @property
    def short(self) -> str:
        """Its short spelling without the hyphen; "" if there is none."""
        return next((it[1:] for it in self.names if not it.startswith("--")), "")


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its flags, and what may stand behind it. The name is "" for the program itself."""

    name: str
    help: str
    flags: tuple[Flag, ...]
    words: Values


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A program with its commands. `first` is the command that flags alone belong to, or ""."""

    program: str
    bare: Command
    commands: tuple[Command, ...]
    first: str

    def command(self, name: str) -> Command:
        """The command of that name. Raises StopIteration."""
        return next(it for it in self.commands if it.name == name)


def command_line(parser: argparse.ArgumentParser, *, first: str) -> CommandLine:
    """What this parser accepts."""
    branch = next(it for it in parser._actions if isinstance(it, argparse._SubParsersAction))
    helps = {it.dest: it.help or "" for it in branch._choices_actions}
    commands = (_command(name, helps.get(name, ""), it) for name, it in branch.choices.items())
    return CommandLine(parser.prog, _command("", "", parser), tuple(commands), first)


def _command(name: str, about: str, parser: argparse.ArgumentParser) -> Command:
    others = [it for it in parser._actions if not it.option_strings]
    positional = [it for it in others if not isinstance(it, argparse._SubParsersAction)]
    values = [_values(it) for it in positional]
    words = Values(
        tuple(word for it in values for word in it.words), any(it.files for it in values)
    )
    return Command(name, about, tuple(_flags(parser)), words)


def _flags(parser: argparse.ArgumentParser) -> Iterator[Flag]:
    formatter = parser._get_formatter()
    for action in parser._actions:
        if not action.option_strings or action.help == argparse.SUPPRESS:
            continue
        about = formatter._expand_help(action) if action.help else ""
        # A flag whose value may be left out is written without one.
        value = _values(action) if action.nargs is None else None
        yield Flag(
            tuple(action.option_strings), _first_sentence(about), value, str(action.metavar or "")
        )


def _values(action: argparse.Action) -> Values:
    if action.choices is not None:
        return Values(tuple(map(str, action.choices)))
    metavar = str(action.metavar or action.dest)
    if _CHOICES.fullmatch(metavar):
        return Values(tuple(metavar.split("|")))
    return Values(files=metavar.upper() in _FILES)


def _first_sentence(text: str) -> str:
    """The first sentence, cut: shells show it on one line."""
    first = text.partition(". ")[0].partition(" (")[0].rstrip(".")
    return first if len(first) <= _LONGEST else first[: _LONGEST - 3] + "..."
