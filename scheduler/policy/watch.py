"""Takes new versions of the policy file into the rulebook.

If a new version is broken, the last good one stays in force. The file is read every few seconds and
not watched: a ConfigMap changes by swapping links, which looks different on every file system.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from groundwork.files import Signature
from scheduler.core.gang_sources import Source
from scheduler.kube.reflector import Reflector
from scheduler.kube.wire import Namespace
from scheduler.observe.metrics import Metrics
from scheduler.policy import file
from scheduler.policy.rulebook import Rulebook
from scheduler.policy.rules import Policy

log = structlog.get_logger(__name__)

CHECK_SECONDS: Final = 2.0
_MOST_NAMED: Final = 20


class PolicyWatch:
    """Reads the file again and again, and awaits `on_change` when other rules are in force. Rules
    that select by labels come into force when all Namespaces are listed; `namespaces` runs from
    then on. Without a path there is nothing to do. `gangs` are the site's sources of gangs.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        rulebook: Rulebook,
        namespaces: Reflector[Namespace],
        on_change: Callable[[], Awaitable[None]],
        metrics: Metrics,
        gangs: Sequence[Source],
    ) -> None:
        self._path = path
        self._understood = partial(file.understood, gangs=gangs)
        self._rulebook = rulebook
        self._namespaces = namespaces
        self._on_change = on_change
        self._metrics = metrics
        self._seen: bytes | str | None = None
        self._signature: Signature | None = None
        self._next: Policy | None = None
        self._labels_wanted = asyncio.Event()
        if rulebook.policy.reads_labels:
            self._labels_wanted.set()

    async def run(self) -> None:
        """Never returns; end it by cancelling."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_namespaces(), name="namespaces")
            while True:
                await asyncio.sleep(CHECK_SECONDS)
                if self._path is not None:
                    await self.look(self._path)

    def needed(self) -> tuple[Reflector[Namespace], ...]:
        """The reflectors that must have listed before the rules in force can judge pods."""
        return (self._namespaces,) if self._rulebook.policy.reads_labels else ()

    async def look(self, path: Path) -> None:
        """Read the file once, and put its rules in force if that is possible."""
        found = await asyncio.to_thread(_policy_if_changed, path, self._signature)
        if found is not None:
            self._signature, seen = found
            if seen != self._seen:
                self._seen = seen
                await self._read(path, seen)
        if self._next is not None and self._can_judge(self._next):
            await self._take(self._next)

    async def _follow_namespaces(self) -> None:
        await self._labels_wanted.wait()
        await self._namespaces.run()

    async def _read(self, path: Path, seen: bytes | str) -> None:
        try:
            if isinstance(seen, str):
                raise file.PolicyError(seen)  # noqa: TRY301 - said by a thread
            # Reading a large file takes seconds, in which pods must be served.
            policy = await asyncio.to_thread(self._understood, path, seen)
        except file.PolicyError as error:
            self._next = None
            self._count("refused", outdated=True)
            log.error("policy refused, the last good one is kept", error=str(error))  # noqa: TRY400
            return
        if policy == self._rulebook.policy:
            self._next = None
            self._count("unchanged", outdated=False)
            return
        self._next = policy
        if not self._can_judge(policy):
            self._metrics.policy_outdated.set(1)
            log.info("policy waits until all namespaces are listed")

    def _can_judge(self, policy: Policy) -> bool:
        if not policy.reads_labels:
            return True
        self._labels_wanted.set()
        return self._namespaces.synced.is_set()

    async def _take(self, policy: Policy) -> None:
        self._next = None
        self._rulebook.take(policy)
        self._count("taken", outdated=False)
        log.info(
            "policy taken",
            rules=[it.name for it in policy.rules[:_MOST_NAMED]],
            count=len(policy.rules),
        )
        await self._on_change()

    def _count(self, outcome: str, *, outdated: bool) -> None:
        self._metrics.policy_reloads.labels(outcome).inc()
        self._metrics.policy_outdated.set(outdated)


def _policy_if_changed(
    path: Path, known: Signature | None
) -> tuple[Signature | None, bytes | str] | None:
    """The policy in the file, or the reason why it is not known; None if the file has not changed.
    Blocks.
    """
    try:
        return file.changed(path, known)
    except file.PolicyError as error:
        return None, str(error)
