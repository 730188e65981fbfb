"""Run the benchmarks of the main path, and compare their ratios and counts with a former run's.

    python -m benchmarks --save figures.json                     # on the sandbox
    python -m benchmarks --on live --save figures.json           # on real servers, as root
    python -m benchmarks --against figures.json                  # what has become better or worse
    python -m benchmarks --plots figures.md                      # pictures: cost against scale

It prints the machine, the versions and a table. Exit status 1 where a benchmark failed, or a ratio
or a count is worse than in the former run by more than --tolerance.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from benchmarks.command import check_folder, write_json
from benchmarks.suite import plots
from benchmarks.suite.machine import Machine, described, this_machine
from benchmarks.suite.rows import READERS, Row, table, worse

# The flags of each benchmark, for a whole run and for a short one that shows that it works.
_WHOLE: Final = {
    "main_path": ("--pods=1000", "--rounds=3"),
    "one_pod": ("--rounds=20",),
    "scale": ("--pods=100,1000,9000",),
}
_SHORT: Final = {
    "main_path": ("--pods=100", "--rounds=1"),
    "one_pod": ("--rounds=2",),
    "scale": ("--pods=50,100", "--watch-seconds=2"),
}


class Suite(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the suite, as it is stored. `benchmarks` are the flags of each one."""

    machine: Machine
    servers: str
    benchmarks: dict[str, list[str]]
    rows: dict[str, Row]


def main() -> int:
    """Run and print; gives the exit status."""
    args = _arguments(sys.argv[1:])
    machine = this_machine()
    print(described(machine), flush=True)
    flags = {
        name: [f"--on={args.on}", *(_SHORT if args.short else _WHOLE)[name]] for name in args.only
    }
    rows = dict[str, Row]()
    for name in args.only:
        found = _figures(name, flags[name])
        if found is None:
            return 1
        rows |= found
    suite = Suite(machine=machine, servers=args.on, benchmarks=flags, rows=rows)
    write_json(suite, args.save)
    if args.plots is not None:
        args.plots.write_text(page(suite), encoding="utf-8")
    return _report(suite, args.against, args.tolerance)


def page(suite: Suite) -> str:
    """The figures that have a course, as a page of pictures."""
    return "\n\n".join((f"# {described(suite.machine)}", *plots.charts(suite.rows))) + "\n"


def _figures(name: str, flags: Sequence[str]) -> dict[str, Row] | None:
    """What one benchmark found, in a process of its own; None if it failed."""
    with TemporaryDirectory(prefix="benchmarks-") as folder:
        path = Path(folder) / "figures.json"
        command = (sys.executable, "-m", f"benchmarks.{name}", *flags, f"--json={path}")
        sys.stderr.write(f"== {name} {' '.join(flags)}\n")
        if status := subprocess.run(command, check=False).returncode:
            sys.stderr.write(f"benchmarks: {name} ended with status {status}\n")
            return None
        return dict(READERS[name](path))


def _report(suite: Suite, former: Suite | None, tolerance: float) -> int:
    before = {} if former is None else former.rows
    print("", *table(suite.rows, before=before), sep="\n")
    if former is None:
        return 0
    print(f"\ncompared with: {described(former.machine)}")
    if former.benchmarks != suite.benchmarks:
        print("its benchmarks had other flags: only figures of the same name are compared")
    found = list(worse(suite.rows, before=before, tolerance=tolerance))
    print(*(f"worse: {line}" for line in found), sep="\n")
    return 1 if found else 0


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--on", choices=("sandbox", "live"), default="sandbox", help="default: sandbox")
    names = ",".join(READERS)
    add("--only", type=_names, default=list(READERS), metavar="NAMES", help=f"default: {names}")
    add("--short", action="store_true", help="a minute that shows that everything works")
    add("--save", type=Path, metavar="FILE", help="store the figures there, as JSON")
    add("--plots", type=Path, metavar="FILE", help="draw them there: Markdown with Mermaid charts")
    add("--against", type=_stored, metavar="FILE", help="compare with a stored run")
    add("--tolerance", type=float, default=0.1, metavar="SHARE", help="default: 0.1")
    args = parser.parse_args(argv)
    if not 0 <= args.tolerance <= 10:
        parser.error(f"--tolerance is {args.tolerance:g}: expected a share from 0 to 10")
    check_folder(parser, "--save", args.save)
    check_folder(parser, "--plots", args.plots)
    return args


def _names(text: str) -> list[str]:
    wanted = text.split(",")
    if unknown := [name for name in wanted if name not in READERS]:
        known = ", ".join(READERS)
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: expected one of {known}")
    return wanted


def _stored(text: str) -> Suite:
    try:
        return msgspec.json.decode(Path(text).read_bytes(), type=Suite)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise argparse.ArgumentTypeError(f"{text} is no stored run: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
