"""Chooses how a pod is represented in Slurm: by an external job, or by a job with a script.

An external job ends at once, and its node goes to the next job while the pod's containers still
have their grace period. On a node with a slurmd, anybody may own that next job. So on such nodes
`auto` chooses external jobs only if the handover guard holds the next job back. Existing jobs keep
their form.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from scheduler.execute.placeholder import Mode
from scheduler.nodes.node_kinds import NodeKinds
from scheduler.slurm.slurmctld import Slurmctld
from slurmapi import SlurmClient, SlurmError, SlurmRefused

ModeSetting = Literal["auto", "external", "script"]

_NOT_AVAILABLE: Final = 2014
"""Slurm's error number for "requested node configuration is not available"."""


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """A form, and why it was chosen. `mixed` says that there are nodes without a slurmd too, on
    which no script can run.
    """

    mode: Mode
    why: str
    mixed: bool = False

    def is_over(self, error: SlurmError) -> bool:
        """Whether Slurm's error says that no node with a slurmd can take the script. As an external
        job the pod then gets a node without a slurmd, which needs no guard.
        """
        refused = isinstance(error, SlurmRefused) and error.error_number == _NOT_AVAILABLE
        return self.mixed and refused


class GuardHeartbeat(Protocol):
    """What the choice needs to know about the handover guard."""

    @property
    def installed(self) -> str:
        """How we know that the guard is installed; "" if we do not know it."""
        ...


class Modes:
    """Chooses the form for each submit, from what is known at that time."""

    def __init__(
        self,
        setting: ModeSetting,
        slurm: SlurmClient,
        *,
        kinds: NodeKinds,
        heartbeat: GuardHeartbeat,
        slurmctld: Slurmctld,
    ) -> None:
        self._setting = setting
        self._slurm = slurm
        self._kinds = kinds
        self._heartbeat = heartbeat
        self._slurmctld = slurmctld

    async def choose(self, partition: str | None = None, nodes: Collection[str] = ()) -> ModeChoice:
        """The form for a job in these partitions, or on these nodes if it names any. Raises
        SlurmError if Slurm must be asked first and does not answer.
        """
        if self._setting != "auto":
            return ModeChoice(self._setting, f"--placeholder-mode={self._setting}")
        version = await self._slurm.negotiate()
        if not version.supports_external:
            return ModeChoice("script", f"auto: {version} of Slurm's API has no external jobs")
        kinds = await self._kinds.of(partition, nodes)
        if kinds.external and not kinds.with_slurmd:
            return ModeChoice("external", "auto: the nodes have no slurmd")
        await self._slurmctld.first()
        if guard := self._heartbeat.installed:
            return ModeChoice("external", f"auto: {guard}")
        return ModeChoice(
            "script",
            "auto: the nodes have a slurmd, and no handover guard is known to be installed",
            mixed=kinds.external > 0,
        )

    def unguarded(self) -> int:
        """How many nodes with a slurmd may get external jobs although no guard is known to be
        installed.
        """
        if self._setting != "external" or self._heartbeat.installed:
            return 0
        return self._kinds.with_slurmd()
