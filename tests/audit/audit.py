"""The auditor of one test on one cluster: opened before the scheduler acts, judged at the end."""

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
    """Of what `recorder` records; None records nothing, and nothing is found.

    `clusters` and `schedulers` are the identities that are ours, `slurm_nodes` tells of Nodes with
    another name than their Slurm node, `elsewhere` of schedulers of ours with a Slurm that is not
    recorded: a test that changes one of them says so here. `accepted` are rules that a test breaks
    itself, with the reason why.
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
        """End the record, once; None where there is none."""
        if self.recorder is not None:
            recorder, self.recorder = self.recorder, None
            self._history = assemble(await asyncio.to_thread(recorder.close), self._scope())
        return self._history

    async def violations(self) -> list[Violation]:
        """End the record, and judge it."""
        history = await self.close()
        return [] if history is None else judge(history, self.limits)

    async def close_and_judge(self) -> None:
        """End the record; AssertionError with what was broken, if anything was."""
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
    """One that records nothing."""
    return Audit(None, set(), set())
