"""Shows the pods of a gang as one row of the queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from scheduler.view.gang import InGang
from scheduler.view.row import IN_QUEUE, Row, State

_ORDER: Final = {state: place for place, state in enumerate(State)}


def by_gang(rows: Iterable[Row]) -> list[Row]:
    """A row for each gang, and one for each pod that belongs to none."""
    found = list(rows)
    named = {(it.namespace, it.gang.gang.key) for it in found if it.gang.gang is not None}
    alone: list[Row] = []
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        key = key_of(row, named)
        if key:
            groups.setdefault((row.namespace, key), []).append(row)
        else:
            alone.append(row)
    return [*alone, *(_merged(key, pods) for (_, key), pods in groups.items())]


def key_of(row: Row, named: Collection[tuple[str, str]]) -> str:
    """The key of the pod's gang: the one that the scheduler has named on it, or one of `named`,
    which stand on other pods of its namespace; "" if there is none.
    """
    if row.gang.gang is not None:
        return row.gang.gang.key
    return next((key for key in row.gang.maybe if (row.namespace, key) in named), "")


def _merged(key: str, pods: list[Row]) -> Row:
    """The gang's row. It stands where its last pod stands, whose reason it has."""
    living = [it for it in pods if it.state in IN_QUEUE] or pods
    last = min(living, key=lambda row: (_ORDER[row.state], row.gang.gang is None, row.name))
    gang = what_is_known(key, living)
    return replace(
        last,
        uid="",
        name=gang.name or gang.short_key,
        gang=replace(last.gang, gang=replace(gang, rank=None)),
        created=min((it.created for it in pods if it.created), default=None),
        job=max((it.job for it in living if it.job is not None), default=None),
        cpus=sum(it.cpus for it in living),
        memory_bytes=sum(it.memory_bytes for it in living),
        gpus=sum(it.gpus for it in living),
        node=gang.first_node,
        pods=tuple(sorted(pods, key=by_rank)),
    )


def what_is_known(key: str, pods: Collection[Row]) -> InGang:
    """The gang, put together from what its pods say about it."""
    said = [it.gang.gang for it in pods if it.gang.gang is not None]
    return InGang(
        key=key,
        name=next((it.name for it in said if it.name), ""),
        size=max((it.size for it in said if it.size is not None), default=None),
        first_node=next((it.first_node for it in said if it.first_node), ""),
        missing=next((it.missing for it in said if it.missing), ""),
    )


def by_rank(row: Row) -> tuple[bool, int, str]:
    """The order of a gang's pods; those without a rank come last."""
    rank = None if row.gang.gang is None else row.gang.gang.rank
    return rank is None, rank or 0, row.name
