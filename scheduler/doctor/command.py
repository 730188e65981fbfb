"""`slurm-pod-scheduler doctor`: reads, judges and prints.

The report goes to standard output, progress to standard error. Exit status: 0 no error (with
--strict: no warning either), 1 at least one, 2 wrong settings.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from dataclasses import replace
from typing import Final

import scheduler
from groundwork.output import write
from scheduler.config import flags
from scheduler.config.settings import Settings
from scheduler.doctor import report
from scheduler.doctor.asking import Progress
from scheduler.doctor.checks import run_checks
from scheduler.doctor.facts import NOT_ASKED, Facts, KubeFacts, Pair, PodsOnNodes, Unread
from scheduler.doctor.finding import Severity
from scheduler.doctor.read_kube import KubeReader
from scheduler.doctor.read_nodes import pairs
from scheduler.doctor.read_scheduler import running_scheduler
from scheduler.doctor.read_slurm import SlurmReader
from scheduler.kube.session import KubeConfigError, KubeSession
from scheduler.policy import file as policy_file
from scheduler.policy.rules import NO_POLICY, Policy

# slurmrestd itself waits ten seconds for slurmctld before it says that it does not answer.
_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's own flags, and those of `run`."""
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="form of the report (default: text)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit status 1 for warnings too, not only for errors"
    )
    parser.add_argument(
        "--request-timeout",
        type=request_seconds,
        default=_SECONDS,
        metavar="SECONDS",
        help="how long each question to a server may take (default: 15)",
    )
    flags.add_arguments(parser)


def request_seconds(text: str) -> float:
    """How long a request may take, as the command line says."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_SECONDS:
        expected = f"expected seconds above 0, at most {_LONGEST_SECONDS:g}"
        raise argparse.ArgumentTypeError(f"{text!r}: {expected}")
    return seconds


def run(arguments: argparse.Namespace) -> int:
    """Carry out the command. Raises SettingsError."""
    settings = flags.load_settings(arguments)
    facts = asyncio.run(ask_both(settings, seconds=arguments.request_timeout))
    findings = run_checks(facts)
    write(
        report.findings_as_json(findings) if arguments.output == "json" else report.text(findings)
    )
    accepted = Severity.NOTE if arguments.strict else Severity.WARNING
    return int(report.worst(findings) > accepted)


async def ask_both(settings: Settings, *, seconds: float) -> Facts:
    """Ask both servers. No question takes longer than `seconds`, and none more than is needed."""
    progress = Progress(_say)
    policy, fault = await _policy(settings)
    async with (
        progress.shown(),
        SlurmReader(settings, seconds=seconds, progress=progress) as slurm,
    ):
        try:
            kube = await KubeSession.open(settings.kubeconfig, user_agent=agent("doctor"))
        except KubeConfigError as error:
            unread = Unread(str(error), "kubeconfig")
            facts = Facts(
                settings=settings,
                now=time.time(),
                slurm=await slurm.read(),
                kube=KubeFacts(server="", version=unread),
            )
        else:
            async with kube:
                reader = KubeReader(
                    settings,
                    kube,
                    reads_labels=policy.reads_labels,
                    seconds=seconds,
                    progress=progress,
                )
                facts = await _both(settings, slurm, reader)
        return replace(
            facts,
            slurm_seconds_off=slurm.seconds_off,
            policy=fault,
            running=await running_scheduler(settings.health_probe_bind_address, progress=progress),
        )


async def _both(settings: Settings, slurm: SlurmReader, kube: KubeReader) -> Facts:
    of_slurm, of_kube = await asyncio.gather(slurm.read(), kube.read())
    found: tuple[Pair, ...] | Unread = NOT_ASKED
    crowd: PodsOnNodes | Unread = NOT_ASKED
    if not isinstance(of_kube.version, Unread) and not isinstance(of_slurm.nodes, Unread):
        pods = await kube.slurmd_pods()
        if isinstance(pods, Unread):
            found = pods
        else:
            found = await asyncio.to_thread(
                pairs, settings, of_slurm, of_kube, records=slurm.nodes, pods=pods
            )
        crowd = await kube.crowd()
    return Facts(
        settings=settings,
        now=time.time(),
        slurm=of_slurm,
        kube=of_kube,
        pairs=found,
        crowd=crowd,
    )


async def _policy(settings: Settings) -> tuple[Policy, str]:
    """The policy, and why its file cannot be used; "" if it can, or if there is none."""
    path = settings.policy_file
    if path is None:
        return NO_POLICY, ""
    try:
        return await asyncio.to_thread(policy_file.read_policy, path, gangs=settings.gangs), ""
    except policy_file.PolicyError as error:
        return NO_POLICY, str(error)


def agent(command: str) -> str:
    """The user agent of a command."""
    return f"slurm-pod-scheduler-{command}/{scheduler.__version__}"


def _say(line: str) -> None:
    sys.stderr.write(f"slurm-pod-scheduler doctor: {line}\n")
    sys.stderr.flush()
