"""The script for fish."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.completion.words import Command, CommandLine, Flag, Values

_HEAD: Final = """\
# Completion of {program} for fish: a file in ~/.config/fish/completions, or source it.
complete -c {program} -f
"""


def script(line: CommandLine) -> str:
    """The script."""
    return "\n".join([_HEAD.format(program=line.program).rstrip("\n"), *_lines(line), ""])


def _lines(line: CommandLine) -> Iterator[str]:
    start = f"complete -c {line.program}"
    names = " ".join(it.name for it in line.commands)
    nothing = _shell_quoted(f"not __fish_seen_subcommand_from {names}")
    for command in line.commands:
        yield f"{start} -n {nothing} -a {command.name} -d {_shell_quoted(command.help)}"
    for flag in (*line.bare.flags, *(line.command(line.first).flags if line.first else ())):
        if flag.names != line.bare.flags[0].names or flag is line.bare.flags[0]:
            yield f"{start} -n {nothing} {_flag(flag)}"
    for command in line.commands:
        seen = _shell_quoted(f"__fish_seen_subcommand_from {command.name}")
        yield from (f"{start} -n {seen} {_flag(it)}" for it in command.flags)
        yield from (f"{start} -n {seen} {it}" for it in _word_options(command))


def _word_options(command: Command) -> Iterator[str]:
    if command.words.words:
        yield f"-a {_shell_quoted(' '.join(command.words.words))}"
    if command.words.files:
        yield "-F"


def _flag(flag: Flag) -> str:
    parts = [f"-s {it}" for it in (flag.short,) if it] + [f"-l {it}" for it in (flag.long,) if it]
    parts += [] if flag.value is None else [_value_options(flag.value)]
    return " ".join([*parts, f"-d {_shell_quoted(flag.help)}"] if flag.help else parts)


def _value_options(value: Values) -> str:
    if value.words:
        return f"-x -a {_shell_quoted(' '.join(value.words))}"
    return "-r -F" if value.files else "-x"


def _shell_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
