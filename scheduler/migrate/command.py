"""`slurm-pod-scheduler migrate`: reads files, prints what would change in them, or changes them.

The diff goes to standard output, everything else to standard error. The exit status is that of
diff: 0 nothing to change, 1 something to change or to decide, 2 an error.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from groundwork import output
from scheduler.config import flags
from scheduler.config.annotation_rules import rules_of
from scheduler.migrate.diff import unified
from scheduler.migrate.documents import MOST_FILE_BYTES
from scheduler.migrate.examine import Examined, examine
from scheduler.migrate.plan import Site

_STDIN: Final = "-"
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
MOST_FILES: Final = 10_000
_FLAGS_OF_RUN: Final = ("slurm_kill_wait", "termination_offset", "device_resources")
_SETTINGS: Final = ("scheduler_name", *_FLAGS_OF_RUN)
"""Settings of the scheduler on which the answer depends."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the files and the flags."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="manifests and values in YAML or JSON; a folder stands for all such files in it, "
        "- for standard input",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="change the files in place, keeping comments and order; standard input goes to "
        "standard output",
    )
    parser.add_argument(
        "--scheduler-name",
        default=argparse.SUPPRESS,
        metavar="NAME",
        help="the schedulerName of all pods from now on (default: SUNK's pods keep theirs, those "
        "of slurm-bridge get slurm-scheduler)",
    )
    for name in _FLAGS_OF_RUN:
        flags.add_argument(parser, name)
    parser.add_argument(
        "--grace-policy",
        choices=("strict", "guarded"),
        default="strict",
        help="guarded: leave grace periods as they are, because the handover guard or the "
        "namespaces see to them (default: strict)",
    )
    parser.add_argument(
        "--old-scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="the name of the scheduler that is replaced: one of SUNK without slurm or sunk in its "
        "name, or a slurm-bridge of another name than its default; may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command. Raises SettingsError for a flag."""
    # The policy is no setting here: as one it would need the secret of the hooks.
    settings = flags.load_settings(argparse.Namespace(**_given(arguments)), {})
    site = Site(
        rules=replace(rules_of(settings), grace_policy=arguments.grace_policy),
        scheduler_name=_given(arguments).get("scheduler_name"),
        old_names=frozenset(arguments.old_scheduler_name),
    )
    run = _Run(site, write=arguments.write)
    try:
        for path in islice(_expanded(arguments.files), MOST_FILES + 1):
            run.take(path)
    except BrokenPipeError:  # such as `| head`; what is left to print goes nowhere
        output.drop_output()
    except _OutputError as error:
        run.fail(f"slurm-pod-scheduler migrate: {error}")
    return run.status()


def _given(arguments: argparse.Namespace) -> dict[str, str]:
    return {name: it for name, it in vars(arguments).items() if name in _SETTINGS}


def _expanded(names: list[str]) -> Iterator[str]:
    """The files, with those of folders in place of the folders."""
    for name in names:
        if not os.path.isdir(name):
            yield name
            continue
        for folder, below, files in os.walk(name):
            below[:] = sorted(it for it in below if not it.startswith("."))
            yield from (
                os.path.join(folder, it) for it in sorted(files) if Path(it).suffix in _SUFFIXES
            )


@dataclass
class _Run:
    """One call of the command."""

    site: Site
    write: bool
    files: int = 0
    changed: int = 0
    notes: int = 0
    failed: bool = False

    def take(self, name: str) -> None:
        """Look at a file, and print or change it."""
        if self.files == MOST_FILES:
            self.fail(f"more than {MOST_FILES} files: the others were not looked at")
            return
        self.files += 1
        try:
            examined = examine(_read(name), self.site)
            self._tell(name, examined)
        except BrokenPipeError:  # of the diff, not of the file
            raise
        except OSError as error:
            self.fail(f"{name}: {error.strerror or error}")
        except ValueError as error:
            self.fail(f"{name}{error}")

    def _tell(self, name: str, examined: Examined) -> None:
        for it in examined.findings:
            of = f"{it.note.of}: " if it.note.of else ""
            _say(f"{name}:{it.line}: {of}{it.note.problem.text}")
        self.notes += len(examined.findings)
        self.changed += bool(examined.edits)
        if self.write and name == _STDIN:
            _print(examined.new_text)
        elif examined.edits and self.write:
            _replace(Path(name), examined.new_text)
            _say(f"{name}: changed")
        elif examined.edits:
            _print(unified(examined.text, examined.edits, name))

    def fail(self, message: str) -> None:
        """Say what is wrong; the exit status will be 2."""
        _say(message)
        self.failed = True

    def status(self) -> int:
        """Say what came of it all, and return the exit status."""
        if self.failed:
            return 2
        if not self.changed and not self.notes:
            _say("nothing to change")
            return 0
        changed = "changed" if self.write else "to change"
        _say(f"files: {self.files}; {changed}: {self.changed}; to decide: {self.notes}")
        return 1


def _read(name: str) -> bytes:
    """At most one byte more than a file may have."""
    if name == _STDIN:
        return sys.stdin.buffer.read(MOST_FILE_BYTES + 1)
    with open(name, "rb") as file:
        return file.read(MOST_FILE_BYTES + 1)


def _replace(path: Path, text: str) -> None:
    """Give the file a new content, all of it or nothing. A link stays a link."""
    path = path.resolve()
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as new:
        try:
            new.write(text.encode())
            os.fchmod(new.fileno(), path.stat().st_mode & 0o7777)
            os.replace(new.name, path)
        except BaseException:
            os.unlink(new.name)
            raise


class _OutputError(Exception):
    """Standard output cannot be written; the message says why."""


def _print(text: str) -> None:
    """Raises BrokenPipeError and _OutputError."""
    if sys.stdout is None:  # such as by `>&-`
        raise _OutputError("standard output is closed")
    try:
        sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        output.drop_output()
        raise _OutputError(f"the output cannot be written: {error.strerror}") from None


def _say(message: str) -> None:
    """Names of files may hold anything, also what moves a terminal's cursor."""
    shown = (it if it.isprintable() else ascii(it)[1:-1] for it in message)
    sys.stderr.write("".join(shown) + "\n")
