"""The other pods of a pod's gang: how many there are, and which are missing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from scheduler.core.incomplete import a_few
from scheduler.kube.session import KubeSession
from scheduler.view.connection import ViewError
from scheduler.view.gang import InGang
from scheduler.view.gang_rows import by_rank, key_of, what_is_known
from scheduler.view.listing import Listing, Wanted
from scheduler.view.row import IN_QUEUE, Names, Row, State, row_of

MAY_NOT_LIST: Final = (
    "you may not list pods there (the right `list` on `pods`), so not the pods of its gang"
)
_THERE = IN_QUEUE | {State.COMPLETED}


@dataclass(frozen=True, slots=True)
class Company:
    """The gang of a pod. `pods` are those that exist, in the order of their ranks; None if they
    could not be read.
    """

    gang: InGang
    pods: tuple[Row, ...] | None

    @property
    def there(self) -> tuple[Row, ...]:
        """The pods that count: those that have not failed."""
        return tuple(it for it in self.pods or () if it.state in _THERE)

    @property
    def placed(self) -> tuple[Row, ...]:
        """Those that have a Node."""
        return tuple(it for it in self.there if it.node)

    @property
    def missing(self) -> str:
        """The pods that do not exist: in the scheduler's words, else by their ranks. "" if none is
        missing, and if the pods do not show it.
        """
        ranks = {it.gang.gang and it.gang.gang.rank for it in self.there}
        if self.gang.missing or self.gang.size is None or None in ranks or not self.pods:
            return self.gang.missing
        return a_few([f"rank {it}" for it in range(self.gang.size) if it not in ranks])


async def company(
    session: KubeSession, row: Row, *, scheduler: str, names: Names
) -> tuple[Company | None, str]:
    """The gang of this pod, None if it has none; and why its other pods could not be read. Raises
    KubeError.
    """
    gang = row.gang.gang
    if gang is None:
        return None, ""
    wanted = Wanted(scheduler, row.namespace, gang.selector)
    listing = Listing(session, wanted, read=partial(row_of, names=names))
    try:
        await listing.fill()
    except ViewError:
        return Company(gang, None), MAY_NOT_LIST
    return company_among(gang, listing.rows.values()), ""


def company_among(gang: InGang, rows: Collection[Row]) -> Company:
    """The gang with those of its pods that are among these rows."""
    pods = _gang_members(gang.key, rows)
    known = what_is_known(gang.key, pods)
    whole = replace(
        gang,
        name=gang.name or known.name,
        size=known.size if gang.size is None else gang.size,
        first_node=gang.first_node or known.first_node,
        missing=gang.missing or known.missing,
    )
    return Company(whole, pods)


def _gang_members(key: str, rows: Collection[Row]) -> tuple[Row, ...]:
    named = {(it.namespace, key) for it in rows}
    return tuple(sorted((it for it in rows if key_of(it, named) == key), key=by_rank))
