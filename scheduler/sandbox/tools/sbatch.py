"""sbatch: submits a batch job.

`sandbox/slurm/scripts.py` says what the sandbox plays of its script.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scheduler.sandbox.tools.rest import Record, Rest, RestError
from scheduler.sandbox.tools.times import minutes

_DIRECTIVE: Final = "#SBATCH "
_SIZE: Final = re.compile(r"(\d+)([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_NODES: Final = re.compile(r"\d+(-\d+)?", re.ASCII)
_MIB: Final = {"K": 1 / 1024, "M": 1, "": 1, "G": 1024, "T": 1024 * 1024}


def run(rest: Rest, words: Sequence[str]) -> int:
    """Carry out the command. Raises RestError and OSError."""
    given = _parser().parse_args(words)
    if given.wrap:
        script = f"#!/bin/sh\n{given.wrap}\n"
    else:
        script = sys.stdin.read() if given.script is None else Path(given.script).read_text()
    if not script.startswith("#!"):
        raise RestError(
            "This does not look like a batch script: it needs a first line such as #!/bin/sh"
        )
    given = _parser().parse_args([*_directives(script), *words])
    try:
        answer = rest.ask("POST", "job/submit", {"script": script, "job": _job(given)})
    except RestError as error:
        raise RestError(f"Batch job submission failed: {error}") from error
    job_id = answer["job_id"]
    sys.stdout.write(f"{job_id}\n" if given.parsable else f"Submitted batch job {job_id}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sbatch", allow_abbrev=False)
    parser.add_argument("script", nargs="?", metavar="SCRIPT")
    parser.add_argument("args", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--wrap", metavar="COMMAND", help="run this instead of a script")
    parser.add_argument("-J", "--job-name", metavar="NAME")
    parser.add_argument("-p", "--partition", metavar="NAME")
    parser.add_argument("-A", "--account", metavar="NAME")
    parser.add_argument("-q", "--qos", metavar="NAME")
    parser.add_argument("-N", "--nodes", type=_node_count, metavar="COUNT")
    parser.add_argument("-n", "--ntasks", type=int, metavar="COUNT")
    parser.add_argument("-c", "--cpus-per-task", type=int, metavar="COUNT")
    parser.add_argument("--mem", type=_mebibytes, metavar="SIZE", help="memory per node")
    parser.add_argument("--gres", metavar="LIST", help="per node, such as gpu:2")
    parser.add_argument("-t", "--time", type=_minutes, metavar="TIME")
    parser.add_argument("-H", "--hold", action="store_true")
    parser.add_argument("--parsable", action="store_true", help="print the job's id alone")
    return parser


def _node_count(text: str) -> str:
    if not _NODES.fullmatch(text):
        raise argparse.ArgumentTypeError(f"Invalid --nodes specification {text!r}")
    return text


def _mebibytes(text: str) -> int:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"Invalid --mem specification {text!r}")
    return max(1, int(int(found[1]) * _MIB[found[2].upper()]))


def _minutes(text: str) -> int:
    try:
        return minutes(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"Invalid --time specification {text!r}") from None


def _directives(script: str) -> list[str]:
    """The options in the comments before the first command."""
    found: list[str] = []
    for line in script.splitlines():
        if line.startswith(_DIRECTIVE):
            found += shlex.split(line.removeprefix(_DIRECTIVE), comments=True)
        elif line.strip() and not line.startswith("#"):
            break
    return found


def _job(given: argparse.Namespace) -> Record:
    """The description of the job, without what is not given."""
    name = given.job_name or ("wrap" if given.wrap or not given.script else Path(given.script).name)
    low, _, high = (given.nodes or "").partition("-")
    found = {
        "name": name,
        "environment": ["PATH=/usr/bin:/bin"],
        "current_working_directory": str(Path.cwd()),
        "partition": given.partition,
        "account": given.account,
        "qos": given.qos,
        "minimum_nodes": int(low) if low.isdigit() else None,
        "maximum_nodes": int(high or low) if (high or low).isdigit() else None,
        "tasks": given.ntasks,
        "cpus_per_task": given.cpus_per_task,
        "memory_per_node": None if given.mem is None else _number(given.mem),
        "tres_per_node": f"gres/{given.gres}" if given.gres else None,
        "time_limit": None if given.time is None else _number(given.time),
        "hold": given.hold or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _number(value: int) -> Record:
    return {"set": True, "infinite": False, "number": value}
