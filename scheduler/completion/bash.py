"""The script for bash. It needs no other package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scheduler.completion.words import Command, CommandLine, Values

_FRAME: Final = """\
# Completion of {program} for bash: source it, or put it where bash-completion looks.
{function}() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}
    local command=${{COMP_WORDS[1]}} flag= words=
    COMPREPLY=()
    if [[ $command == -* ]]; then
        command={first}
    elif (( COMP_CWORD == 1 )); then
        command=
    fi
    # bash takes --flag=value apart into three words.
    if [[ $cur == = ]]; then
        flag=$prev cur=
    elif [[ $prev == = ]]; then
        flag=${{COMP_WORDS[COMP_CWORD - 2]}}
    elif [[ $prev == -* ]]; then
        flag=$prev
    fi
    case "$command $flag" in
{values}
    esac
    case "$command" in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -F {function} {program}
"""
# Names of files may have blanks.
_FILES: Final = (
    "compopt -o filenames 2>/dev/null; local IFS=$'\\n'; "
    'COMPREPLY=($(compgen -f -- "$cur")); return'
)
_ANYTHING: Final = "return"


def script(line: CommandLine) -> str:
    """The script."""
    return _FRAME.format(
        program=line.program,
        function="_" + re.sub(r"\W", "_", line.program),
        first=line.first or '""',
        values="\n".join(
            f"        {it}" for command in line.commands for it in _value_branches(command)
        ),
        words="\n".join(f"        {it}" for it in _word_branches(line)),
    )


def _value_branches(command: Command) -> Iterator[str]:
    """A branch for each flag that takes a value, which ends the completion with the value."""
    for flag in command.flags:
        if flag.value is not None:
            cases = "|".join(f'"{command.name} {name}"' for name in flag.names)
            yield f"{cases}) {_completion_of(flag.value)} ;;"


def _completion_of(value: Values) -> str:
    if value.words:
        return f'COMPREPLY=($(compgen -W "{" ".join(value.words)}" -- "$cur")); return'
    return _FILES if value.files else _ANYTHING


def _word_branches(line: CommandLine) -> Iterator[str]:
    """A branch for each command: its flags, and what else may stand there."""
    names = " ".join(it.name for it in line.commands)
    yield f'"") words="{names} {_flags(line.bare)}" ;;'
    for command in line.commands:
        flags = _flags(command)
        also = _flags(line.bare) if command.name == line.first else ""
        others = " ".join(command.words.words)
        files = f" [[ $cur != -* ]] && {{ {_FILES}; }};" if command.words.files else ""
        yield f'{command.name}){files} words="{" ".join(filter(None, (others, flags, also)))}" ;;'


def _flags(command: Command) -> str:
    return " ".join(name for it in command.flags for name in it.names)
