"""Shells complete the command line that the parser accepts: real shells read the scripts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from scheduler.__main__ import main
from scheduler.commands.every import parser
from scheduler.completion.words import command_line

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs/completion.md").read_text(encoding="utf-8")
LINE: Final = command_line(parser(), first="run")
CALLED: Final = 'COMP_CWORD=$(($# - 1)) COMP_WORDS=("$@"); _slurm_pod_scheduler'
SHOWN: Final = 'printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str]) -> str:
    """The script for bash."""
    return printed("bash", capsys)


def printed(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def in_bash(script: str, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    program = f"{script}\n{CALLED}\n{SHOWN}"
    command = ["bash", "--norc", "-c", program, "bash", "slurm-pod-scheduler", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stderr == ""
    return ended.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["qu"], ["queue"]),
        (["queue", "--na"], ["--namespace"]),
        (["queue", "-A", "--st"], ["--states"]),
        (["queue", "-o", ""], ["table", "wide", "json", "yaml", "name"]),
        (["queue", "-n", "x", "-o", "w"], ["wide"]),
        # bash takes `--output=y` apart.
        (["queue", "--output", "=", "y"], ["yaml"]),
        (["queue", "--output", "="], ["table", "wide", "json", "yaml", "name"]),
        (["queue", "-n", ""], [""]),
        # Flags alone are those of run.
        (["--work"], ["--workers"]),
        (["--workers=3", "--zap-log-level", "w"], ["warn"]),
        (["run", "--grace-policy", ""], ["auto", "strict", "guarded"]),
        (["completion", "f"], ["fish"]),
        (["nonsense", ""], [""]),
    ],
    ids=str,
)
def test_bash_offers_what_fits(script: str, words: list[str], offered: list[str]) -> None:
    assert in_bash(script, *words) == offered


def test_bash_offers_files_where_files_are_named(script: str, tmp_path: Path) -> None:
    (tmp_path / "two words.yaml").touch()
    found = [f"{tmp_path}/two words.yaml"]
    assert in_bash(script, "migrate", f"{tmp_path}/tw") == found
    assert in_bash(script, "queue", "--kubeconfig", f"{tmp_path}/tw") == found


def test_bash_offers_every_command_and_every_flag(script: str) -> None:
    names = {it.name for it in LINE.commands}
    assert names == set(in_bash(script, "")) - {"-h", "--help", "--version"}
    for command in LINE.commands:
        flags = {name for it in command.flags for name in it.names}
        assert flags <= set(in_bash(script, command.name, "-"))


SHELLS: Final = [
    pytest.param(
        shell,
        marks=pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not here"),
    )
    for shell in ("bash", "zsh", "fish")
]


@pytest.mark.parametrize("shell", SHELLS)
def test_script_is_one_that_its_shell_reads(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "script"
    path.write_text(printed(shell, capsys))
    ended = subprocess.run([shell, "-n", path], capture_output=True, timeout=120, check=True)
    assert ended.stderr == b""


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not here")
def test_fish_offers_what_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.fish"
    path.write_text(printed("fish", capsys))
    lines = ["qu", "queue --output=j", "--workers", "completion f"]
    asked = "; ".join(f"complete -C 'slurm-pod-scheduler {it}'" for it in lines)
    command = ["fish", "--no-config", "-c", f"source {path}; {asked}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    offered = [it.partition("\t")[0] for it in ended.stdout.splitlines()]
    assert offered == ["queue", "--output=json", "--workers", "fish"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_script_names_every_flag_with_its_command(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where that shell is not here."""
    text = printed(shell, capsys)
    for command in LINE.commands:
        for flag in command.flags:
            if shell == "fish":
                assert f"from {command.name}' {flag_of_fish(flag.names)}" in text
            else:
                part = text.partition(f"        {command.name})\n")[2].partition(";;")[0]
                assert all(f"'{name}" in part for name in flag.names)


def flag_of_fish(names: tuple[str, ...]) -> str:
    short = [f"-s {it[1:]}" for it in names if not it.startswith("--")]
    return " ".join([*short, *(f"-l {it[2:]}" for it in names if it.startswith("--"))])


def test_line_of_the_page_completes_in_bash() -> None:
    """The page's own line for bash is carried out; the program is the one of this checkout."""
    (line,) = re.findall(r"^(source <\(.* bash\))$", PAGE, re.MULTILINE)
    program = f'slurm-pod-scheduler() {{ {sys.executable} -m scheduler "$@"; }}\n{line}'
    assert in_bash(program, "expl") == ["explain"]


def test_shell_that_is_not_known_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert "SHELL: invalid choice: 'tcsh'" in err
