"""The auditor of one test on one cluster: it records from the start, and judges at the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from tests.audit.assemble import Scope, assemble
from tests.audit.history import History, Owner
from tests.audit.judge import Limits, Violation, judge
from tests.audit.records import Recorder

_MOST_TOLD: Final = 20


@dataclass(slots=True)
class Audit:
    """Judges what `recorder` records; with None nothing is recorded and nothing is found.

    `clusters` and `schedulers` are the identities that are ours. `slurm_nodes` maps Nodes to Slurm
    nodes of another name. `elsewhere` names schedulers of ours whose Slurm is not recorded. A test
    that changes one of these sets it here. `accepted` maps each rule that the test breaks on
    purpose to the reason.
    """

    recorder: Recorder | None
    clusters: set[str]
    schedulers: set[str]
    limits: Limits = field(default_factory=Limits)
    slurm_nodes: dict[str, str] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    accepted: dict[str, str] = field(default_factory=dict)
    _history: History | None = None

    async def open(self) -> None:
        """Begin to record."""
        if self.recorder is not None:
            await asyncio.to_thread(self.recorder.open)

    async def close(self) -> History | None:
        """End the record, at most once; None if there is no record."""
        if self.recorder is not None:
            recorder, self.recorder = self.recorder, None
            self._history = assemble(await asyncio.to_thread(recorder.close), self._scope())
        return self._history

    async def violations(self) -> list[Violation]:
        """End the record, and return the rules that were broken."""
        history = await self.close()
        return [] if history is None else judge(history, self.limits)

    async def close_and_judge(self) -> None:
        """End the record; AssertionError that lists the broken rules, if there are any."""
        found = [it for it in await self.violations() if it.rule not in self.accepted]
        told = "\n".join(map(str, found[:_MOST_TOLD]))
        assert not found, f"the auditor found {len(found)} violations:\n{told}"

    def _scope(self) -> Scope:
        owners = (Owner(it, name) for it in self.clusters for name in self.schedulers)
        return Scope(
            frozenset(owners),
            frozenset(self.schedulers),
            self.slurm_nodes,
            frozenset(self.elsewhere),
        )


def unaudited() -> Audit:
    """An auditor that records nothing."""
    return Audit(None, set(), set())
