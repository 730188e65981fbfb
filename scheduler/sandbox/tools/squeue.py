"""squeue: the jobs that wait and run."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from scheduler.sandbox.tools import formats
from scheduler.sandbox.tools.rest import Record, Rest, RestError, commas, number
from scheduler.sandbox.tools.times import limit, moment, span

_STATES: Final = {
    "PENDING": "PD",
    "RUNNING": "R",
    "SUSPENDED": "S",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": "TO",
    "NODE_FAIL": "NF",
    "PREEMPTED": "PR",
    "BOOT_FAIL": "BF",
    "DEADLINE": "DL",
    "OUT_OF_MEMORY": "OOM",
    "CONFIGURING": "CF",
    "COMPLETING": "CG",
}
_FLAGS: Final = ("COMPLETING", "CONFIGURING")
_LIVE: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED", *_FLAGS})
_NULL: Final = "(null)"
_WAITS: Final = "PENDING"
_LAYOUT: Final = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
_HEADINGS: Final = {
    "i": "JOBID",
    "P": "PARTITION",
    "j": "NAME",
    "u": "USER",
    "t": "ST",
    "T": "STATE",
    "M": "TIME",
    "l": "TIME_LIMIT",
    "D": "NODES",
    "R": "NODELIST(REASON)",
    "r": "REASON",
    "N": "NODELIST",
    "Q": "PRIORITY",
    "q": "QOS",
    "a": "ACCOUNT",
    "C": "CPUS",
    "S": "START_TIME",
    "e": "END_TIME",
    "V": "SUBMIT_TIME",
}


def state(job: Record) -> str:
    """The state that squeue shows: a flag, if the job has one of those, before the base state."""
    words: list[str] = job["job_state"]
    return next((it for it in _FLAGS if it in words), words[0])


def _elapsed(job: Record) -> int:
    begin, end = number(job["start_time"]) or 0, number(job["end_time"]) or 0
    if state(job) == _WAITS or not begin:
        return 0
    now = int(time.time())
    return (now if state(job) in _LIVE else min(now, end)) - begin


def _where(job: Record) -> str:
    nodes: str = job["nodes"]
    return f"({job['state_reason']})" if state(job) == _WAITS or not nodes else nodes


_CELLS: Final[Mapping[str, Callable[[Record], str]]] = {
    "i": lambda job: str(job["job_id"]),
    "P": lambda job: job["partition"],
    "j": lambda job: job["name"],
    "u": lambda job: job["user_name"],
    "t": lambda job: _STATES.get(state(job), state(job)),
    "T": state,
    "M": lambda job: span(_elapsed(job)),
    "l": lambda job: limit(number(job["time_limit"])),
    "D": lambda job: str(number(job["node_count"]) or 0),
    "R": _where,
    "r": lambda job: job["state_reason"],
    "N": lambda job: job["nodes"],
    "Q": lambda job: str(number(job["priority"]) or 0),
    "q": lambda job: job["qos"] or _NULL,
    "a": lambda job: job["account"] or _NULL,
    "C": lambda job: str(number(job["cpus"]) or 0),
    "S": lambda job: moment(number(job["start_time"])),
    "e": lambda job: moment(number(job["end_time"])),
    "V": lambda job: moment(number(job["submit_time"])),
}
_SORTS: Final[Mapping[str, Callable[[Record], Any]]] = {
    "i": lambda job: job["job_id"],
    "P": lambda job: job["partition"],
    "t": lambda job: list(_STATES).index(job["job_state"][0]),
    "p": lambda job: number(job["priority"]) or 0,
    "u": lambda job: job["user_name"],
    "j": lambda job: job["name"],
}


def run(rest: Rest, words: Sequence[str]) -> int:
    """Carry out the command. Raises RestError and OSError."""
    given = _parser().parse_args(list(_joined(words)))
    try:
        layout = formats.fields(given.format, "".join(_CELLS))
    except formats.FormatError as error:
        raise RestError(str(error)) from error
    jobs = ordered([it for it in rest.records("jobs") if _takes(given, it)], given.sort)
    rows = [[_CELLS[it.letter](job) for it in layout] for job in jobs]
    rows = rows if given.noheader else [[_HEADINGS[it.letter] for it in layout], *rows]
    sys.stdout.write("".join(f"{line}\n" for line in formats.lines(layout, rows)) if rows else "")
    return 0


def _joined(words: Sequence[str]) -> Iterator[str]:
    """The words with `-S -p` as one: argparse would take the second one for an option."""
    rest = iter(words)
    for word in rest:
        yield f"--sort={next(rest, '')}" if word in {"-S", "--sort"} else word


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="squeue", add_help=False, allow_abbrev=False)
    parser.add_argument("--help", action="help")
    parser.add_argument("-j", "--jobs", "--job", type=commas, default=frozenset(), metavar="IDS")
    parser.add_argument("-p", "--partition", type=commas, default=frozenset(), metavar="NAMES")
    parser.add_argument("-u", "--user", type=commas, default=frozenset(), metavar="NAMES")
    parser.add_argument("-n", "--name", type=commas, default=frozenset(), metavar="NAMES")
    parser.add_argument("-t", "--states", type=states, default=_LIVE, metavar="STATES")
    parser.add_argument("-S", "--sort", default="P,t,-p", metavar="FIELDS")
    parser.add_argument("-o", "--format", default=_LAYOUT, metavar="FORMAT")
    parser.add_argument("-h", "--noheader", action="store_true")
    parser.add_argument("-a", "--all", action="store_true", help="has no effect here")
    return parser


def states(text: str) -> frozenset[str]:
    """States by their long or short names; `all` is all of them."""
    longs = {short: name for name, short in _STATES.items()}
    named = frozenset(longs.get(it.upper(), it.upper()) for it in commas(text))
    if "ALL" in named:
        return frozenset(_STATES)
    wrong = sorted(named - set(_STATES))
    if wrong:
        raise argparse.ArgumentTypeError(f"Invalid job state specified: {wrong[0]}")
    return named


def _takes(given: argparse.Namespace, job: Record) -> bool:
    return (
        state(job) in given.states
        and (not given.jobs or str(job["job_id"]) in given.jobs)
        and (not given.partition or not given.partition.isdisjoint(job["partition"].split(",")))
        and (not given.user or job["user_name"] in given.user)
        and (not given.name or job["name"] in given.name)
    )


def ordered(jobs: list[Record], by: str) -> list[Record]:
    """The jobs in the order that a text such as `P,t,-p` names. Raises RestError."""
    found = sorted(jobs, key=_SORTS["i"])
    for part in reversed(by.split(",")):
        letter = part.strip().lstrip("+-")
        if letter not in _SORTS:
            raise RestError(f"sort: {part!r}: expected some of {', '.join(_SORTS)}")
        found = sorted(found, key=_SORTS[letter], reverse=part.strip().startswith("-"))
    return found
