"""What slurmctld's log tells of jobs: who ended or changed one, and when it began and ended.

To the millisecond, with `SlurmctldDebug=debug2` (measured on 26.05.5 and 24.11.5). slurmctld writes
most lines while it holds its lock on the jobs, so nobody sees what they tell of before they are
there; an update's is written after its answer was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from tests.audit.history import By, When
from tests.audit.records import JobAsked, JobNoted

OUR_UID: Final = "0"
_ASKED: Final = re.compile(
    r"\[(?P<time>[\d\-T:.]+)\] (?:"
    r"debug2: Processing RPC: (?P<rpc>REQUEST_KILL_JOBS?) from UID=(?P<uid>\d+)"
    r"|job_signal: (?P<signal>\d+) of \w+ JobId=(?P<killed>\d+) successful"
    r"|_slurm_rpc_update_job: complete JobId=(?P<updated>\d+) uid=(?P<updater>\d+)"
    r"|_slurm_rpc_requeue: Requeue of JobId=(?P<stuck>\d+) returned an error"
    r")"
)
_NOTED: Final = re.compile(
    r"\[(?P<time>[\d\-T:.]+)\] (?:"
    r"sched: Allocate JobId=(?P<allocated>\d+) NodeList=(?P<nodes>\S+)"
    r"|sched/backfill: _start_job: Started JobId=(?P<filled>\d+) in \S+ on (?P<there>\S+)"
    r"|debug:  Aborting JobId=(?P<smaller>\d+)\S* on nodes (?P<lost>\S+)"
    r"|prolog_running_decr: Configuration for JobId=(?P<ready>\d+) is complete"
    r"|(?:job_signal: 9 of \w+ |Time limit exhausted for |Killing |preempted )"
    r"JobId=(?P<ended>\d+)(?: successful| on failed node| has been killed|$)"
    r"|_job_complete: JobId=(?P<done>\d+) done"
    r"|_schedule: JobId=(?P<late>\d+) .*exceeded deadline"
    r"|(?:Requeuing |_job_complete: requeue |requeue job |preempted )"
    r"JobId=(?P<requeued>\d+)(?: per | due to | has been requeued|$)"
    r"|_slurm_rpc_suspend\(suspend\) for (?P<suspended>\d+) usec="
    r"|_update_job: setting admin_comment to (?P<tag>.*) for JobId=(?P<tagged>\d+)$"
    r")"
)
_ENDS: Final = ("ended", "done", "late")
_KILLING: Final = frozenset({"9"})
# A request waits for slurmctld's lock between the line that names its user and its effect.
_LOCK_SECONDS: Final = 2.0
_LATE_SECONDS: Final = 0.05


def asked(lines: Iterable[str]) -> Iterator[JobAsked]:
    """What was asked of jobs. Where two users' kills were under way at once, their effects cannot
    be told apart, and nobody is named.

    A slurmd is root, like the scheduler on the rigs. If it cannot start a script, it asks for a
    requeue, and kills a job that must not be requeued. The scheduler never asks for a requeue.
    """
    under_way: list[tuple[float, str]] = []
    stuck: dict[int, float] = {}
    for line in lines:
        found = _ASKED.match(line)
        if found is None:
            continue
        moment = _moment(found)
        if found["rpc"]:
            under_way = [it for it in under_way if it[0] > moment - _LOCK_SECONDS]
            under_way.append((moment, found["uid"]))
        elif found["killed"] and found["signal"] in _KILLING:
            recent = [it for it in under_way if it[0] >= moment - _LOCK_SECONDS]
            users = {uid for _, uid in recent}
            by = _by(users.pop()) if len(users) == 1 else By.UNKNOWN
            job_id = int(found["killed"])
            if stuck.pop(job_id, 0.0) >= moment - _LOCK_SECONDS:
                by = By.OTHER
            yield JobAsked(_when(moment), by, "kill", job_id)
        elif found["updated"]:
            by = _by(found["updater"])
            yield JobAsked(_when(moment), by, "update", int(found["updated"]))
        elif found["stuck"]:
            stuck[int(found["stuck"])] = moment


def noted(lines: Iterable[str]) -> Iterator[JobNoted]:
    """When jobs began, were ready, suspended or requeued, gave nodes back, got another tag, and
    ended. Not every end has a line.
    """
    for line in lines:
        found = _NOTED.match(line)
        if found is None:
            continue
        when = _when(_moment(found))
        if started := found["allocated"] or found["filled"]:
            nodes = frozenset(expanded(found["nodes"] or found["there"]))
            yield JobNoted(when, int(started), "started", nodes)
        elif found["smaller"]:
            nodes = frozenset(expanded(found["lost"]))
            yield JobNoted(when, int(found["smaller"]), "smaller", nodes)
        elif found["ready"]:
            yield JobNoted(when, int(found["ready"]), "ready")
        elif found["requeued"]:
            yield JobNoted(when, int(found["requeued"]), "requeued")
        elif found["suspended"]:
            yield JobNoted(when, int(found["suspended"]), "suspended")
        elif found["tagged"]:
            yield JobNoted(when, int(found["tagged"]), "tagged", tag=found["tag"])
        else:
            (ended,) = (found[it] for it in _ENDS if found[it])
            yield JobNoted(when, int(ended), "ended")


def _moment(found: re.Match[str]) -> float:
    return datetime.fromisoformat(found["time"]).replace(tzinfo=UTC).timestamp()


def _when(moment: float) -> When:
    """A line is written right after what it tells of, with its time cut to the millisecond."""
    return When(moment - _LATE_SECONDS, moment + 0.001)


def _by(uid: str) -> By:
    return By.US if uid == OUR_UID else By.OTHER


def expanded(hostlist: str) -> list[str]:
    """The names in a hostlist, as "e-[000-002,7],s1"; one pair of brackets in a name."""
    names: list[str] = []
    for prefix, inside, suffix in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?([^,\[\]]*)", hostlist):
        if not inside:
            names.append(prefix + suffix)
            continue
        for part in inside.split(","):
            first, _, last = part.partition("-")
            numbers = range(int(first), int(last or first) + 1)
            names += [f"{prefix}{number:0{len(first)}}{suffix}" for number in numbers]
    return names
