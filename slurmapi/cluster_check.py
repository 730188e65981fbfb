"""Checks that the right Slurm answers: each JSON answer names its cluster (`meta.slurm.cluster`,
24.11 and 26.05).

An address may come to lead to another Slurm: by a changed DNS record, a proxy, or a copied setting.
There our job ids belong to other jobs, and "no such job" proves nothing about ours.
"""

from __future__ import annotations

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
    """`cluster` is the ClusterName that answers must have. If it is empty, the first answer sets
    it.
    """

    def __init__(self, cluster: str, *, clock: Callable[[], float]) -> None:
        self.cluster = cluster
        self._clock = clock
        self._seen_at = float("-inf")

    def check(self, response: Response) -> None:
        """Raises SlurmStranger for an answer of another cluster. An answer without a cluster name
        passes.
        """
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
        """Whether the right cluster has answered in the last `seconds`; true if the right cluster
        is not known yet.
        """
        return not self.cluster or self._clock() - self._seen_at <= seconds


def _frame(response: Response) -> _Frame:
    if not wire.is_json(response):
        return _Frame()
    try:
        return _frames.decode(response.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Frame()  # the caller that decodes the body reports the error
