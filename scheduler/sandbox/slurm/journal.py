"""What somebody beside the controller gets to know at once, as slurmdbd or a reader of its log."""

from collections.abc import Mapping
from typing import Protocol

from .records import Job


class Journal(Protocol):
    """Told in the middle of the controller's work: it must look and not touch."""

    def changed(self, job: Job) -> None:
        """A job is new, or another than it was."""

    def restored(self, jobs: Mapping[int, Job]) -> None:
        """The controller has come back and knows these jobs, by id."""

    def asked(self, verb: str, job_id: int, *, user: str, since: float) -> None:
        """A user's "kill" took effect, or a user's "update" was done, which began at `since`; or a
        user's "look" at the job was answered.
        """
