"""Which Slurm answers: each JSON answer names its cluster (`meta.slurm.cluster`, 24.11 and 26.05).

An address can come to lead to another Slurm: a changed DNS record, a proxy, a copied setting. Its
job ids are other jobs, and what it does not know says nothing about ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from slurmapi import wire
from slurmapi.errors import SlurmStranger
from slurmapi.http1 import Response


class _Slurm(msgspec.Struct, frozen=True):
    cluster: str = ""


class _Meta(msgspec.Struct, frozen=True):
    slurm: _Slurm = _Slurm()


class _Frame(msgspec.Struct, frozen=True):
    meta: _Meta = _Meta()
    job_id: wire.Number = None


_frames = msgspec.json.Decoder(_Frame)


class ClusterCheck:
    """`cluster` is the ClusterName that answers shall have; empty until the first one gives it."""

    def __init__(self, cluster: str = "", *, clock: Callable[[], float] = time.monotonic) -> None:
        self.cluster = cluster
        self._clock = clock
        self._seen_at = float("-inf")

    def check(self, response: Response) -> None:
        """Raises SlurmStranger for an answer of another Slurm; one that names none says nothing."""
        frame = _frame(response)
        found = frame.meta.slurm.cluster
        if not found:
            return
        self.cluster = self.cluster or found
        if found != self.cluster:
            self._seen_at = float("-inf")
            raise SlurmStranger(found, expected=self.cluster, job_id=wire.integer(frame.job_id))
        self._seen_at = self._clock()

    def seen_within(self, seconds: float) -> bool:
        """Whether the right one has answered so lately, or it is not known which that is."""
        return not self.cluster or self._clock() - self._seen_at <= seconds


def _frame(response: Response) -> _Frame:
    if not wire.is_json(response):
        return _Frame()
    try:
        return _frames.decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Frame()  # whoever reads it says what is wrong with it
