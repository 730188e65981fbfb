"""Which jobs Slurm warns before it preempts them, and how long before.

With preempt/partition_prio the GraceTime of the job's partition counts, with preempt/qos that of
its QoS (measured on 26.05), which only slurmdbd knows; the scheduler does not ask it. `/conf` has
the PreemptType since data_parser v0.0.45 (Slurm 26.05). What is left of that time for the pod:
`seconds_left` in `core/endings.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from scheduler.slurm.restarts import conf_if_shown
from slurmapi import SlurmClient, SlurmError

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 60.0
_BY_PARTITION: Final = "preempt/partition_prio"


class GraceTimes:
    """Reads them every minute. If Slurm does not answer, those of the last answer stay."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._known: Mapping[str, float] = {}
        self._of_others: float | None = None

    def seconds(self, partition: str) -> float | None:
        """The GraceTime of jobs in this partition: 0 if Slurm does not warn them, None if
        unknown.
        """
        return self._known.get(partition, self._of_others)

    async def run(self) -> None:
        """Read them, for ever; cancel it to stop."""
        while True:
            try:
                await self.read()
            except SlurmError as error:
                log.debug("GraceTimes cannot be read", error=str(error))
            await asyncio.sleep(_EVERY_SECONDS)

    async def read(self) -> None:
        """Read them now. Raises SlurmError."""
        conf = await conf_if_shown(self._client)
        if conf is not None and not conf.preempts:
            self._known, self._of_others = {}, 0.0
            return
        listed = {it.name: it.grace_seconds for it in await self._client.partitions()}
        self._of_others = None
        if conf is None:  # a partition without a GraceTime may have jobs whose QoS has one
            self._known = {name: seconds for name, seconds in listed.items() if seconds}
        else:
            self._known = listed if conf.preempt_type == _BY_PARTITION else {}
