"""Which fault is played on which call: every fault on every call where it makes sense."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from tests.faults import faults
from tests.faults.calls import CALLS, Call, Reads, Server
from tests.faults.play import Fault


def _any(_call: Call) -> bool:
    return True


def _answers(call: Call) -> bool:
    return call.reads is not Reads.WATCH


def _lists(call: Call) -> bool:
    return call.reads is Reads.LIST


def _watches(call: Call) -> bool:
    return call.reads is Reads.WATCH


@dataclass(frozen=True, slots=True)
class Row:
    """One fault, and the calls that it is played on."""

    name: str
    fault: Fault
    fits: Callable[[Call], bool]


def _row(fault: Fault, fits: Callable[[Call], bool]) -> Row:
    return Row(getattr(fault, "__name__", ""), fault, fits)


_ANY: Final = (
    faults.latency,
    faults.jitter,
    faults.refused,
    faults.reset_before,
    faults.reset_after,
    faults.silence_before,
    faults.silence_after,
    faults.slow_drip,
    faults.truncated,
    faults.garbage,
    faults.garbled_body,
    faults.wrong_type,
    faults.other_json,
    *(faults.status(code) for code in (401, 403, 404, 409, 410, 429, 500, 502, 503, 504, 511)),
    *(faults.status(code, retry_after=True) for code in (429, 500, 503)),
)
_ANSWERS: Final = (faults.delivered_twice, faults.answered_twice)
_LISTS: Final = (faults.stale, faults.empty)
_WATCHES: Final = (
    faults.ends_at_once,
    faults.goes_silent,
    faults.events_twice,
    faults.events_out_of_order,
    faults.expired,
)
FAULTS: Final = (
    *(_row(fault, _any) for fault in _ANY),
    *(_row(fault, _answers) for fault in _ANSWERS),
    *(_row(fault, _lists) for fault in _LISTS),
    *(_row(fault, _watches) for fault in _WATCHES),
)

# Faults that only a deadline ends. Live tests play them on writes only, whose deadlines are short.
_SILENT: Final = (faults.silence_before, faults.silence_after, faults.goes_silent)

# Calls of the table that the scheduler does not make, and why.
UNUSED: Final = {"partitions": "nothing is decided by partitions"}


def chosen(which: int, *, of: Collection[Call]) -> list[tuple[Row, Call]]:
    """A part of the matrix: two cells for each fault, spread so that each of these calls has some.

    Each value of `which` gives another part.
    """
    part = []
    for number, row in enumerate(FAULTS):
        fitting = [it for it in of if row.fits(it) and (row.fault not in _SILENT or it.writes)]
        spread = (2 * number + which, 2 * number + which + 1)
        part += [(row, fitting[at % len(fitting)]) for at in spread if fitting]
    return part


def rounds(row: Row) -> Iterator[tuple[Call, ...]]:
    """The calls of a row, in groups that are played together.

    A setting decides whether pods are evicted or deleted, so the call to evict has its own group.
    """
    played = [call for call in CALLS if call.name not in UNUSED and row.fits(call)]
    kube = [call for call in played if call.server is Server.KUBE]
    yield tuple(call for call in played if call.server is Server.SLURM)
    yield tuple(call for call in kube if not call.writes)
    yield tuple(call for call in kube if call.writes and call.name != "evict_pod")
    yield tuple(call for call in kube if call.name == "evict_pod")
