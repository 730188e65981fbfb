"""The commands for people who look at pods, which are also those of `kubectl slurm`.

They load little: a person waits for them.
"""

from __future__ import annotations

import argparse
import sys

import scheduler
from scheduler.commands.parser import Parser, add_command, run_command
from scheduler.view import explain, partitions, queue


def plugin() -> int:
    """Run one command of `kubectl slurm`, which has those for people who look at pods; returns the
    exit status. Without any word it shows the help.
    """
    root = Parser(prog="kubectl slurm", description="What Slurm decides about pods.")
    root.add_argument("--version", action="version", version=scheduler.__version__)
    add_views(root.add_subparsers(required=True, metavar="COMMAND"))
    return run_command(root, sys.argv[1:] or ["--help"])


def add_views(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `queue`, `partitions` and `explain`."""
    add_command(
        commands,
        "queue",
        queue.add_arguments,
        queue.run,
        help="the pods that wait, run and end, as squeue shows jobs",
        description="List the pods of this scheduler's name, from the pods and with your own "
        "rights in Kubernetes. - stands for what the pod does not show. Places in the queue come "
        "from the scheduler's live page, if it is named. Exit status: 0; 1 if the cluster cannot "
        "be asked; 2 for a wrong command line; 130 after Ctrl-C.",
    )
    add_command(
        commands,
        "partitions",
        partitions.add_arguments,
        partitions.run,
        help="what may I ask for: partitions, limits, and what would start now",
        description="List Slurm's partitions as a namespace may use them: state, time limit, "
        "nodes and GPUs, the largest pod and the largest gang that there is room for now. Asks "
        "the live page of the running scheduler with your own token; where none can be reached, "
        "tells what the pods of the namespace show. - stands for what is not known. Exit status: "
        "0; 1 if the cluster or the page refuses; 2 for a wrong command line; 130 after Ctrl-C.",
    )
    add_command(
        commands,
        "explain",
        explain.add_arguments,
        explain.run,
        help="the whole story of one pod, and the command to give next",
        description="Tell what a pod asks for and where each value comes from, its Slurm job, why "
        "it is as it is, what happened in order, what comes next and the command for it. From the "
        "pod, its Events and its controller, with your own rights in Kubernetes, and from the "
        "scheduler's live page, if it is named. Exit status: 0; 1 if there is nothing to tell or "
        "the cluster cannot be asked; 2 for a wrong command line; 130 after Ctrl-C.",
    )
