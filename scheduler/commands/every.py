"""The whole command line: `run` (the default), and commands to look, to examine and to try."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Final

import scheduler
from scheduler.commands.parser import Parser, add_command, run_command
from scheduler.commands.views import add_views
from scheduler.completion import command as completion
from scheduler.config import flags, settings
from scheduler.doctor import command as doctor
from scheduler.doctor import nodes
from scheduler.election.elector import LeaseLostError
from scheduler.kube.errors import went_back
from scheduler.kube.identity import ClusterIdError
from scheduler.kube.session import KubeConfigError, in_cluster
from scheduler.listen import descriptors
from scheduler.migrate import command as migrate
from scheduler.observe import logs
from scheduler.observe.heap import separate_large_blocks
from scheduler.service import startup
from scheduler.service.shown import Showing

# Nobody has to audit in the image what no cluster needs.
_LEFT_OUT: Final = (
    "the container image has no sandbox and no demo; install the Python package, or use a checkout"
)


def run_line(line: Sequence[str]) -> int:
    """Run the command of a line of words; returns the exit status."""
    words = list(line)
    if not words and _only_looks():
        parser().print_help()
        return 0
    if not words or (words[0].startswith("-") and words[0] not in {"-h", "--help", "--version"}):
        words.insert(0, "run")  # SUNK's flags stand alone
    return run_command(parser(), words)


def _only_looks() -> bool:
    """Whether a bare call comes from somebody who wants to know what this is: on a terminal,
    outside of a cluster, without any setting. Containers and services that rely on the bare call
    run as ever.
    """
    configured = any(name.startswith(settings.ENV_PREFIX) for name in os.environ)
    return sys.stdout.isatty() and not configured and not in_cluster()


def parser() -> Parser:
    """The whole command line."""
    root = Parser(
        prog="slurm-pod-scheduler",
        description="A Kubernetes scheduler whose decisions Slurm makes.",
        epilog="Without a command, flags are those of `run`. Without any word it is `run` too, "
        "except on a terminal where nothing is set in the environment: there this help is shown.",
    )
    root.add_argument("--version", action="version", version=scheduler.__version__)
    commands = root.add_subparsers(required=True, metavar="COMMAND")
    add_command(
        commands,
        "run",
        flags.add_arguments,
        _run_scheduler,
        near=flags.near,
        usage="%(prog)s [--FLAG=VALUE ...]",
        help="schedule pods (the default)",
        description="Schedule pods until SIGTERM or SIGINT.",
        epilog="Each flag is also an environment variable (--slurm-api-base is "
        f"{settings.ENV_PREFIX}SLURM_API_BASE) and a key of the --config file.",
    )
    add_views(commands)
    add_command(
        commands,
        "doctor",
        doctor.add_arguments,
        doctor.run,
        near=flags.near,
        usage="%(prog)s [-o text|json] [--strict] [--FLAG=VALUE ...]",
        help="what is wrong with Slurm and Kubernetes, and what helps",
        description="Look at Slurm, at Kubernetes and at both together with the settings of `run`, "
        "and say what is wrong and what helps. Nothing is changed, and no job is submitted. Exit "
        "status: 0 no error, 1 at least one error (with --strict: or warning), 2 wrong settings.",
    )
    add_command(
        commands,
        "nodes",
        nodes.add_arguments,
        nodes.run,
        near=flags.near,
        usage="%(prog)s [-p NAMES] [-o table|json] [--FLAG=VALUE ...]",
        help="each Slurm node, its Node, and who holds what of it",
        description="List Slurm's nodes with their Kubernetes Nodes: the states of both; CPUs, "
        "memory and GPUs held by pods (P), held by other jobs (J), free in Slurm (F) and in total "
        "(T); and why a pod would be refused. Asks both servers with the settings of `run`, and "
        "changes nothing. Exit status: 0; 1 if a server cannot be asked; 2 for wrong settings.",
    )
    add_command(
        commands,
        "migrate",
        migrate.add_arguments,
        migrate.run,
        help="what would change in manifests of SUNK or slurm-bridge",
        description="Print, as a diff, what has to change in manifests that were written for "
        "SUNK's Pod Scheduler or for slurm-bridge, and what people must decide. Exit status: 0 "
        "nothing to change, 1 something to change or to decide, 2 an error.",
    )
    add_command(
        commands,
        "completion",
        completion.add_arguments,
        _completion,
        help="a script that lets bash, zsh or fish complete this command line",
        description="Print a script for a shell, with the commands and flags of this version. "
        "For bash: source <(slurm-pod-scheduler completion bash)",
    )
    if importlib.util.find_spec("scheduler.sandbox") is not None:
        _add_sandbox_and_demo(commands)
    else:
        for name in ("sandbox", "demo"):
            absent = commands.add_parser(name, help=_LEFT_OUT, description=_LEFT_OUT)
            absent.set_defaults(command=_left_out, parser=absent, takes_any_words=True)
    return root


def _add_sandbox_and_demo(commands: argparse._SubParsersAction[Parser]) -> None:
    from scheduler.sandbox import main as sandbox  # noqa: PLC0415 - not in the image

    add_command(
        commands,
        "sandbox",
        sandbox.add_arguments,
        _sandbox,
        help="an embedded Kubernetes and Slurm to try it on",
        description="Run an embedded Kubernetes and Slurm until Ctrl-C; nothing is installed, "
        "only loopback addresses are used.",
    )
    add_command(
        commands,
        "demo",
        lambda _parser: None,  # it has no flags
        _demo,
        help="see pods go through Slurm, in half a minute",
        description="Play a story on the sandbox, with the real scheduler in a process of its "
        "own, and check that every promise is kept (exit status 0).",
    )


def _completion(arguments: argparse.Namespace) -> int:
    return completion.run(arguments.shell, parser(), first="run")


def _run_scheduler(arguments: argparse.Namespace) -> int:
    try:
        given = flags.load_settings(arguments)
        logs.set_up(given.zap_log_level, given.log_format)
        descriptors.raise_limit()
        separate_large_blocks()
        asyncio.run(startup.run(given, showing=_showing(given)))
    except (KubeConfigError, ClusterIdError, LeaseLostError, OSError) as error:
        print(f"slurm-pod-scheduler: {error}", file=sys.stderr)
        return 1
    except ExceptionGroup as failed:
        if went_back(failed) is None:
            raise
        return 1  # the log says why
    return 0


def _showing(given: settings.Settings) -> Showing | None:
    if given.page_bind_address is None:
        return None
    from scheduler.page.serving import serving  # noqa: PLC0415 - most processes have no page

    return serving


def _sandbox(arguments: argparse.Namespace) -> int:
    if sys.stdout is None:
        return _no_output(arguments)
    from scheduler.sandbox import main as sandbox  # noqa: PLC0415 - not in the image

    return asyncio.run(sandbox.run(arguments))


def _demo(arguments: argparse.Namespace) -> int:
    if sys.stdout is None:
        return _no_output(arguments)
    from scheduler.demo import main as demo  # noqa: PLC0415 - not in the image

    return asyncio.run(demo.run())


def _no_output(arguments: argparse.Namespace) -> int:
    print(f"{arguments.parser.prog}: standard output is closed", file=sys.stderr)  # by `>&-`
    return 2


def _left_out(arguments: argparse.Namespace) -> int:
    print(f"{arguments.parser.prog}: {_LEFT_OUT}", file=sys.stderr)
    return 2
