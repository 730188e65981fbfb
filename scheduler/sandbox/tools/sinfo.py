"""sinfo: nodes by partition and state."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from scheduler.sandbox.slurm.hostlist import expand, fold, order
from scheduler.sandbox.tools import formats
from scheduler.sandbox.tools.rest import Record, Rest, RestError, commas, number
from scheduler.sandbox.tools.times import limit, moment

_BY_PARTITION: Final = "%#P %.5a %.10l %.6D %.6t %N"
_BY_NODE: Final = "%#N %.6D %#P %6t"
_REASONS: Final = "%20E %9u %19H %N"
_HEADINGS: Final = {
    "P": "PARTITION",
    "a": "AVAIL",
    "l": "TIMELIMIT",
    "D": "NODES",
    "t": "STATE",
    "T": "STATE",
    "N": "NODELIST",
    "C": "CPUS(A/I/O/T)",
    "c": "CPUS",
    "m": "MEMORY",
    "e": "FREE_MEM",
    "G": "GRES",
    "f": "AVAIL_FEATURES",
    "E": "REASON",
    "u": "USER",
    "H": "TIMESTAMP",
}
# Of all nodes of a line together; all other fields must be equal in it.
_SUMMED: Final = frozenset("DNC")
_SHORT: Final = {"ALLOCATED": "alloc", "MIXED": "mix", "COMPLETING": "comp", "PLANNED": "plnd"}
_SHORT_ENDS: Final = {"DRAINED": "drain", "DRAINING": "drng", "RESERVED": "resv"}
_BUSY: Final = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
_PLACES: Final = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")

_Pair = tuple[Record | None, Record]
"""A partition, or none where the format has no field of it, and one of its nodes."""


def state(node: Record) -> str:
    """The state of a node, as sinfo shows it with %T but in upper case."""
    words = set(node["state"])
    base = node["state"][0]
    if "DRAIN" in words:
        return "DRAINING" if words & _BUSY else "DRAINED"
    shown = next((it for it in ("COMPLETING", "RESERVED", "MAINT", "PLANNED") if it in words), base)
    return "COMPLETING" if "COMPLETING" in words else shown if base == "IDLE" else base


def _compact(node: Record) -> str:
    word = state(node)
    short = {**_SHORT, **_SHORT_ENDS}.get(word, word.lower())
    return short + ("*" if "NOT_RESPONDING" in node["state"] else "")


_CELLS: Final[Mapping[str, Callable[[Record, Record], str]]] = {
    "P": lambda partition, _: partition["name"],
    "a": lambda partition, _: partition["partition"]["state"][0].lower(),
    "l": lambda partition, _: limit(number(partition["maximums"]["time"]), none="infinite"),
    "t": lambda _, node: _compact(node),
    "T": lambda _, node: state(node).lower(),
    "c": lambda _, node: str(node["cpus"]),
    "m": lambda _, node: str(node["real_memory"]),
    "e": lambda _, node: str(number(node["free_mem"])) if number(node["free_mem"]) else "N/A",
    "G": lambda _, node: node["gres"] or "(null)",
    "f": lambda _, node: ",".join(node["features"]) or "(null)",
    "E": lambda _, node: node["reason"] or "none",
    "u": lambda _, node: node["reason_set_by_user"] or "Unknown",
    "H": lambda _, node: moment(number(node["reason_changed_at"])).replace("N/A", "Unknown"),
}


def run(rest: Rest, words: Sequence[str]) -> int:
    """Carry out the command. Raises RestError and OSError."""
    given = _parser().parse_args(words)
    default = _REASONS if given.list_reasons else _BY_NODE if given.Node else _BY_PARTITION
    try:
        layout = formats.fields(given.format or default, "".join(_HEADINGS))
    except formats.FormatError as error:
        raise RestError(str(error)) from error
    letters = [it.letter for it in layout]
    pairs = _pairs(rest, given, by_partition=bool({"P", "a", "l"} & set(letters)))
    rows = list(_rows(pairs, letters, each=given.Node))
    rows = rows if given.noheader else [[_HEADINGS[it] for it in letters], *rows]
    sys.stdout.write("".join(f"{line}\n" for line in formats.lines(layout, rows)) if rows else "")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sinfo", add_help=False, allow_abbrev=False)
    parser.add_argument("--help", action="help")
    parser.add_argument("-p", "--partition", type=commas, default=frozenset(), metavar="NAMES")
    parser.add_argument("-n", "--nodes", default="", metavar="NAMES")
    parser.add_argument("-N", "--Node", action="store_true", help="a line for each node")
    parser.add_argument("-R", "--list-reasons", action="store_true", help="why nodes are down")
    parser.add_argument("-o", "--format", default="", metavar="FORMAT")
    parser.add_argument("-h", "--noheader", action="store_true")
    return parser


def _pairs(rest: Rest, given: argparse.Namespace, *, by_partition: bool) -> list[_Pair]:
    wanted = frozenset(expand(given.nodes)) if given.nodes else frozenset()
    nodes = [
        it
        for it in rest.records("nodes")
        if (not wanted or it["name"] in wanted)
        and (not given.partition or given.partition & set(it["partitions"]))
        and (not given.list_reasons or it["reason"])
    ]
    if given.Node:
        nodes.sort(key=lambda it: order(it["name"]))
    if not by_partition:
        return [(None, it) for it in nodes]
    partitions = [
        it
        for it in rest.records("partitions")
        if not given.partition or it["name"] in given.partition
    ]
    if given.Node:
        return [(of, it) for it in nodes for of in partitions if of["name"] in it["partitions"]]
    return [
        (of, it)
        for of in partitions
        for it in sorted(nodes, key=_place, reverse=True)
        if of["name"] in it["partitions"]
    ]


def _place(node: Record) -> tuple[int, int]:
    base = node["state"][0]
    return len(node["state"]), _PLACES.index(base) if base in _PLACES else 0


def _rows(pairs: list[_Pair], letters: list[str], *, each: bool) -> Iterator[list[str]]:
    """A row for all nodes that are equal in every field but those that sum up."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for partition, node in pairs:
        own = (node["name"],) if each else ()
        equal = (_CELLS[it](partition or {}, node) for it in letters if it not in _SUMMED)
        groups.setdefault((*own, *equal), []).append(node)
    for key, nodes in groups.items():
        cells = iter(key[1:] if each else key)
        yield [_summed(it, nodes) if it in _SUMMED else next(cells) for it in letters]


def _summed(letter: str, nodes: list[Record]) -> str:
    if letter == "D":
        return str(len(nodes))
    if letter == "N":
        return fold(sorted((it["name"] for it in nodes), key=order))
    total = sum(it["cpus"] for it in nodes)
    used = sum(it["alloc_cpus"] for it in nodes)
    other = sum(it["cpus"] - it["alloc_cpus"] for it in nodes if _takes_no_jobs(it))
    return f"{used}/{total - used - other}/{other}/{total}"


def _takes_no_jobs(node: Record) -> bool:
    return node["state"][0] in {"DOWN", "ERROR", "UNKNOWN"} or "DRAIN" in node["state"]
