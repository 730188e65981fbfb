"""The command line: `run` (the default), `sandbox`, `demo`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import scheduler
from scheduler import app, logs, settings
from scheduler.kube.session import KubeConfigError

COMMANDS = ("run", "sandbox", "demo")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or (words[0] not in COMMANDS and words[0] not in {"-h", "--help", "--version"}):
        words.insert(0, "run")  # SUNK's flags stand alone
    arguments = _parser().parse_args(words)
    try:
        status: int = arguments.command(arguments)
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slurm-pod-scheduler",
        description="A Kubernetes scheduler whose decisions Slurm makes.",
    )
    parser.add_argument("--version", action="version", version=scheduler.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="schedule pods (the default)")
    settings.add_arguments(run)
    run.set_defaults(command=_run)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    try:
        given = settings.load(arguments)
    except settings.SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    logs.set_up(given.zap_log_level, given.log_format)
    try:
        asyncio.run(app.run(given))
    except (KubeConfigError, app.ClusterIdError, OSError) as error:
        print(f"slurm-pod-scheduler: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
