"""The script for zsh."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from scheduler.completion.words import Command, CommandLine, Flag, Values

_FRAME: Final = """\
#compdef {program}
# Completion of {program} for zsh: a file named _{program} in a folder of $fpath, or source it.
{function}() {{
    local context state line
    typeset -A opt_args
    local -a commands
    commands=(
{commands}
    )
    if (( CURRENT > 2 )) && [[ -n ${{(M)commands:#${{words[2]}}:*}} ]]; then
        local command=${{words[2]}}
        shift words
        (( CURRENT-- ))
    elif [[ ${{words[2]}} == -* ]]; then
        local command={first}
    else
        _describe command commands
        return
    fi
    case $command in
{cases}
    esac
}}
if [[ $funcstack[1] == _{program} ]]; then
    {function} "$@"
else
    compdef {function} {program}
fi
"""
# What _arguments takes for its own syntax.
_SPECIAL: Final = re.compile(r"([\[\]:\\])")


def script(line: CommandLine) -> str:
    """The script."""
    return _FRAME.format(
        program=line.program,
        function="_" + re.sub(r"\W", "_", line.program) + "_words",
        commands="\n".join(
            f"        {_shell_quoted(f'{it.name}:{_plain(it.help)}')}" for it in line.commands
        ),
        first=line.first or "''",
        cases="\n".join(_case(it, line) for it in line.commands),
    )


def _case(command: Command, line: CommandLine) -> str:
    flags = (*command.flags, *(line.bare.flags if command.name == line.first else ()))
    specs = [spec for flag in flags for spec in _specs(flag)]
    specs += [f"*:value:{_action(command.words)}"] if command.words != Values() else []
    lines = " \\\n".join(f"                {_shell_quoted(it)}" for it in dict.fromkeys(specs))
    return f"        {command.name})\n            _arguments -s \\\n{lines}\n            ;;"


def _specs(flag: Flag) -> Iterator[str]:
    for name in flag.names:
        ending = "=" if flag.value is not None and name.startswith("--") else ""
        about = f"[{_plain(flag.help)}]" if flag.help else ""
        value = "" if flag.value is None else f":value:{_action(flag.value)}"
        yield f"{name}{ending}{about}{value}"


def _action(value: Values) -> str:
    if value.words:
        return f"({' '.join(value.words)})"
    return "_files" if value.files else " "


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _shell_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
