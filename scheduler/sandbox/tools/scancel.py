"""scancel: ends jobs by id, or those of a name, user, partition or state."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from scheduler.sandbox.tools.rest import Record, Rest, RestError, commas
from scheduler.sandbox.tools.squeue import state, states


def run(rest: Rest, words: Sequence[str]) -> int:
    """Carry out the command. Raises RestError and OSError."""
    given = _parser().parse_args(words)
    if not (given.ids or given.name or given.user or given.partition or given.state):
        raise RestError("No job identification provided")
    chosen = given.ids
    if given.name or given.user or given.partition or given.state:
        found = (it for it in rest.records("jobs") if _takes(given, it))
        chosen = [str(it["job_id"]) for it in found]
    return max((_cancel(rest, it) for it in chosen), default=0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scancel", allow_abbrev=False)
    parser.add_argument("ids", nargs="*", type=_job_id, metavar="JOB_ID")
    parser.add_argument("-n", "--name", "--jobname", type=commas, metavar="NAMES")
    parser.add_argument("-u", "--user", type=commas, metavar="NAMES")
    parser.add_argument("-p", "--partition", type=commas, metavar="NAMES")
    parser.add_argument("-t", "--state", type=states, metavar="STATES")
    return parser


def _job_id(text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"Invalid job id {text}")
    return text


def _takes(given: argparse.Namespace, job: Record) -> bool:
    return (
        state(job) in (given.state or {"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING"})
        and (not given.ids or str(job["job_id"]) in given.ids)
        and (not given.name or job["name"] in given.name)
        and (not given.user or job["user_name"] in given.user)
        and (not given.partition or job["partition"] in given.partition)
    )


def _cancel(rest: Rest, job_id: str) -> int:
    try:
        rest.ask("DELETE", f"job/{job_id}")
    except RestError as error:
        sys.stderr.write(f"scancel: error: Kill job error on job id {job_id}: {error}\n")
        return 1
    return 0
