"""A gang that waits for what people have to create: its PodGroup, or pods that may never come.

How long a gang without pods keeps its job (`--gang-linger`): `expected_back` in `gang.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.core.actions import Action, Again, ReadGang, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import GangFacts, PodFacts
from scheduler.core.intervals import LONGEST_UNTOLD_SECONDS, UNTOLD_SECONDS

REREAD_SECONDS: Final = 30.0
"""While pods or the object behind a gang are missing, the object is read this often at most: it may
have been scaled, or created.
"""
_SHORTEST_PAUSE: Final = 2.0
NO_MORE_SECONDS: Final = 60.0
"""A gang that no pod has joined for this long may never be complete, and says so."""
_SINGLY: Final = "To have them served one by one, create them anew with the annotation gang: none"


def wait_for_object(
    gang: GangFacts, absent_since: float, pods: Iterable[PodFacts], now: float
) -> tuple[Action, ...]:
    """What to do while the object that says how many pods there are does not exist yet. Nothing is
    submitted: as single jobs, the pods could start without each other.
    """
    message = (
        f"Gang {gang.name} waits because its PodGroup {gang.name} does not exist, which says how "
        f"many pods start together. Create it. {_SINGLY}"
    )
    tell = (Tell(pod, Reason.GANG_INCOMPLETE, message) for pod in pods)
    read_at = absent_since if gang.read_at is None else gang.read_at
    # The pauses double: 2 s, 4 s, 8 s, ... So even many gangs cost few requests.
    pause = min(max(read_at - absent_since, _SHORTEST_PAUSE), REREAD_SECONDS)
    return (*tell, *read_when(read_at + pause, now))


def read_when(due: float, now: float) -> tuple[Action, ...]:
    """Read the object if it is time, otherwise come again when it is."""
    return (ReadGang(),) if now >= due else (Again(due - now),)


def untold_until(*, came_at: float | None, grew_at: float | None) -> float:
    """Until when nothing is said about missing pods. `came_at` is when the first pod of the gang
    came, and `grew_at` when the last one did. Most gangs are complete a moment later: each pod
    would get a condition that is already wrong, and the job would have to wait for these writes.
    """
    if came_at is None or grew_at is None:
        return 0.0
    return min(grew_at + UNTOLD_SECONDS, came_at + LONGEST_UNTOLD_SECONDS)


def may_never_be_complete(gang: GangFacts, now: float) -> str:
    """What to add to the words about missing pods; "" while they may just be on their way."""
    if gang.grew_at is None or now < gang.grew_at + NO_MORE_SECONDS:
        return ""
    return (
        f". No pod has come for {NO_MORE_SECONDS:.0f} s: unless whoever creates them makes "
        f"{gang.minimum} of them, they never start. Then correct that, or the size of the gang. "
        f"{_SINGLY}"
    )


def until_it_may_not(gang: GangFacts, now: float) -> float | None:
    """In how many seconds that will be said; None if it has been, or never is."""
    due = None if gang.grew_at is None else gang.grew_at + NO_MORE_SECONDS
    return None if due is None or now >= due else due - now


def taken_as_a_gang(gang: str, pods: int) -> str:
    """What to add to Slurm's words if the job may be too large as a whole."""
    return (
        f"; the job is for {pods} pods, which are taken as one gang, {gang}, and get their nodes "
        f"at the same time. {_SINGLY}"
    )
