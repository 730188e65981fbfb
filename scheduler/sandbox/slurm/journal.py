"""Observers that hear of changes at once, as slurmdbd or a reader of slurmctld's log would."""

from collections.abc import Mapping
from typing import Protocol

from .records import Job


class Journal(Protocol):
    """An observer. The controller calls it in the middle of its work, so it must change nothing."""

    def changed(self, job: Job) -> None:
        """A job was created, or its record has changed."""

    def restored(self, jobs: Mapping[int, Job]) -> None:
        """The controller has restarted and knows these jobs, by id."""

    def asked(self, verb: str, job_id: int, *, user: str, since: float) -> None:
        """The controller has carried out a user's request, which it began at `since`.

        `verb` is "kill" or "update", or "look" for an answer with the job's record.
        """
