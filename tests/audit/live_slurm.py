"""Records a real Slurm: its job records over time, and what slurmctld's log says of them.

It reads a record whenever a cheap poll of all states shows a change. So a moment is known to the
distance of two polls, and more exactly if the record or the log names it. slurmdbd would name who
cancelled a job, but not who tried to or updated it, and it knows nothing of a job that was lost in
a crash.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from tests.audit.history import When
from tests.audit.records import JobMissing, JobSeen, Records
from tests.audit.slurmctld_log import asked, expanded, noted
from tests.rigs.log_file import LogFile
from tests.rigs.slurm import SlurmRig
from tests.support.slurm_rest import SlurmRest

_POLL_SECONDS: Final = 0.2
_LAST_LOOK_SECONDS: Final = 20.0
# The pause after a poll, as a multiple of the time that Slurm took to answer.
_REST: Final = 3.0
# From so many changes on, one request for all jobs is cheaper than one for each.
_MANY: Final = 40
_LIVE: Final = frozenset({"PENDING", "RUNNING", "SUSPENDED"})
_UNSEEN: Final = ("",)
_NONE: Final = {"number": 0}


class SlurmRecords:
    """Follows the jobs of a rig, in a thread of its own, from `open` to `read_into`."""

    def __init__(self, rig: SlurmRig) -> None:
        self._rig = rig
        self._rest: SlurmRest = rig.rest()
        self._log = LogFile(rig.log_directory / "slurmctld.log")
        self._since = 0
        self._seen: list[JobSeen | JobMissing] = []
        self._known: dict[int, tuple[tuple[str, ...], float]] = {}
        self._over: set[int] = set()
        self._polled_at = 0.0
        self._starts = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="job records", daemon=True)

    def open(self) -> None:
        """Begin to record; jobs that have already ended are ignored."""
        self._since = self._log.size()
        self._starts = self._slurmctld_starts()
        states = self._states()
        assert states is not None, "slurmrestd does not answer"
        sent = self._polled_at
        ended = {it: state for it, state in states.items() if state[0] not in _LIVE}
        self._known = {job_id: (state, sent) for job_id, state in ended.items()}
        self._over = set(ended)
        self._thread.start()

    def read_into(self, records: Records) -> None:
        """End after one more look; AssertionError if Slurm does not answer."""
        self._end.set()
        self._thread.join()
        until = time.monotonic() + _LAST_LOOK_SECONDS
        while not self._poll():
            assert time.monotonic() < until, "slurmrestd does not answer at the record's end"
            time.sleep(_POLL_SECONDS)
        records.jobs.extend(self._seen)
        lines = [it.decode(errors="replace") for it in self._log.lines(self._since)]
        records.jobs_asked.extend(asked(lines))
        records.jobs_noted.extend(noted(lines))

    def _follow(self) -> None:
        took = 0.0
        while not self._end.wait(max(_POLL_SECONDS, _REST * took)):
            began = time.monotonic()
            self._poll()
            took = time.monotonic() - began

    def _poll(self) -> bool:
        """Read the records that have changed; returns whether everything was answered."""
        before, starts = self._polled_at, self._slurmctld_starts()
        states = self._states()
        if states is None:
            return False
        sent, received = self._polled_at, time.time()
        if self._slurmctld_starts() != self._starts:
            self._doubt_ids()
        self._starts = starts  # if it has started since, the next poll doubts them once more
        for job_id in set(self._known) - set(states):
            state, confirmed = self._known.pop(job_id)
            if state[0] in _LIVE or state == _UNSEEN:
                self._seen.append(JobMissing(When(confirmed, received), job_id))
        changed = []
        for job_id, state in states.items():
            # A look may fail, so the job may have been there longer than that.
            known = self._known.setdefault(job_id, (_UNSEEN, before))
            if known[0] == state:
                self._known[job_id] = (state, sent)
            elif not self._was_over(job_id, state):
                changed.append(job_id)
        return self._look(changed)

    def _doubt_ids(self) -> None:
        """Look at every live job again: a slurmctld that has lost its state gives ids out anew, and
        another's job may be in the same state.
        """
        self._over.clear()
        for job_id, (state, confirmed) in self._known.items():
            if state[0] in _LIVE:
                self._known[job_id] = (_UNSEEN, confirmed)

    def _slurmctld_starts(self) -> int:
        return self._rig.starts["slurmctld"]

    def _was_over(self, job_id: int, state: tuple[str, ...]) -> bool:
        """Whether it had ended before recording began, and is no longer COMPLETING."""
        if state[0] in _LIVE:
            self._over.discard(job_id)
        return job_id in self._over

    def _look(self, job_ids: list[int]) -> bool:
        wanted = set(job_ids)
        paths = ["jobs/"] if len(wanted) > _MANY else [f"job/{it}" for it in job_ids]
        for path in paths:
            sent = time.time()
            body = self._ask(path)
            found = (body or {}).get("jobs") or ()
            for raw in found:
                if raw["job_id"] in wanted:
                    since = self._known[raw["job_id"]][1]
                    seen = _with_components(_seen(raw, When(since, time.time())), found)
                    self._seen.append(seen)
                    self._known[raw["job_id"]] = (tuple(raw["job_state"]), sent)
                    wanted.discard(raw["job_id"])
        return not wanted

    def _states(self) -> dict[int, tuple[str, ...]] | None:
        sent = time.time()
        body = self._ask("jobs/state/")
        if body is None:
            return None
        self._polled_at = sent
        # The tasks of an array, which is never ours, have other ids ("12_3"). Of a heterogeneous
        # job the first component ("12+0") stands for all.
        ids = ((str(it["job_id"]).removesuffix("+0"), it) for it in body["jobs"])
        return {int(text): tuple(it["state"]) for text, it in ids if text.isdigit()}

    def _ask(self, path: str) -> dict[str, Any] | None:
        """The answer; None if there is none, for example while a test has stopped a server."""
        try:
            answer = self._rest.request("GET", path)
        except (OSError, http.client.HTTPException):
            return None
        return answer.body if answer.ok else None


def _with_components(seen: JobSeen, found: Iterable[dict[str, Any]]) -> JobSeen:
    """The first component of a heterogeneous job with the nodes of all, and their tasks."""
    parts = [it for it in found if it.get("het_job_id", _NONE)["number"] == seen.job_id]
    more = (node for it in parts for node in expanded(it["nodes"]))
    tasks = {node: count for it in parts for node, count in _tasks(it).items()}
    return replace(seen, nodes=seen.nodes.union(more), tasks={**seen.tasks, **tasks})


def _seen(raw: dict[str, Any], when: When) -> JobSeen:
    state, *flags = raw["job_state"]
    sluid = (raw.get("step_id") or {}).get("sluid", "")
    submitted = _second(raw["submit_time"])
    assert submitted is not None
    nodes = raw["nodes"]
    return JobSeen(
        when=when,
        job_id=raw["job_id"],
        key=f"{submitted.earliest} {raw['name']} {sluid}",
        state=state,
        flags=frozenset(flags),
        nodes=frozenset(expanded(nodes)),
        admin_comment=raw["admin_comment"],
        restarts=raw["restart_cnt"],
        submitted=submitted,
        start=_second(raw["start_time"]) if nodes else None,
        end=_second(raw["end_time"]) if state not in _LIVE else None,
        preempted=_second(raw["preempt_time"]),
        tasks=_tasks(raw),
    )


def _tasks(raw: dict[str, Any]) -> dict[str, int]:
    held = (raw.get("job_resources") or {}).get("nodes") or {}
    each = raw["cpus_per_task"]["number"] or 1
    return {it["name"]: it["cpus"]["count"] // each for it in held.get("allocation") or ()}


def _second(number: dict[str, Any]) -> When | None:
    """A time in whole seconds, None where it is not set."""
    seconds = number["number"]
    return When(seconds, seconds + 1) if number["set"] and seconds else None
