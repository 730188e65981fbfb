"""The life of a pod on a simulated Node: started, running, ended by itself or stopped, gone.

Nothing really runs. A pod says by annotations how its containers behave, as in the embedded
sandbox: `sandbox/run-seconds` and `sandbox/exit-code` let them end by themselves (they run until
they are stopped otherwise), `sandbox/stop-seconds` is how long they take to obey SIGTERM. A value
that is not a number counts as absent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tests.rigs.simulator import status
from tests.rigs.simulator.api import STRATEGIC_MERGE, Api, Pod

START_SECONDS: Final = 0.1
STOP_SECONDS: Final = 0.1
RESTART_SECONDS: Final = 1.0
LONGEST_RESTART_SECONDS: Final = 300.0
_FINISHED: Final = frozenset({"Succeeded", "Failed"})


class PodLife:
    """One pod as its kubelet knows it. `saw` tells it of changes while `live` runs."""

    def __init__(self, api: Api, pod: Pod) -> None:
        self._api = api
        self._pod = pod
        self._changed = asyncio.Event()
        self._clock: Callable[[], float] = asyncio.get_running_loop().time
        self._restarts = 0

    def saw(self, pod: Pod) -> None:
        """The pod as it is now."""
        self._pod = pod
        self._changed.set()

    async def live(self) -> None:
        """Serve the pod until it is deleted; returns when its deletion has been confirmed."""
        ran = False
        if self._pod.status.phase not in _FINISHED:
            ran = await self._run()
        await self._deleted_within(None)
        await self._stop(ran=ran)

    async def _run(self) -> bool:
        """Start, and start again; True when the containers run at the time of the deletion."""
        pause = 0.0 if self._pod.status.phase == "Running" else START_SECONDS
        while not await self._deleted_within(pause):
            await self._report(status.running(self._pod, restarts=self._restarts))
            if await self._deleted_within(self._number("run-seconds")):
                return True
            code = int(self._number("exit-code") or 0)
            if not self._restarts_after(code):
                await self._report(status.ended(self._pod, code, restarts=self._restarts))
                return False
            pause = min(RESTART_SECONDS * 2.0**self._restarts, LONGEST_RESTART_SECONDS)
            self._restarts += 1
            await self._report(status.crashed(self._pod, code, restarts=self._restarts))
        return False

    def _restarts_after(self, code: int) -> bool:
        policy = self._pod.spec.restartPolicy
        return policy == "Always" or (policy == "OnFailure" and code != 0)

    async def _stop(self, *, ran: bool) -> None:
        if ran:
            code = await self._terminated()
            await self._report(status.ended(self._pod, code, restarts=self._restarts))
        elif self._pod.status.phase not in _FINISHED:
            await self._report(status.never_started(self._pod))
        uid = self._pod.metadata.uid
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self._api.write("DELETE", self._path(), options)

    async def _terminated(self) -> int:
        """Wait for the containers to obey SIGTERM, or for the grace to end; the exit code."""
        began = self._clock()
        stop_seconds = self._number("stop-seconds")
        obeyed_at = began + (STOP_SECONDS if stop_seconds is None else stop_seconds)
        killed_at = began + self._grace()
        while self._clock() < (ends_at := min(obeyed_at, killed_at)):
            if await self._changed_within(ends_at - self._clock()):
                # A second deletion may shorten the grace, never lengthen it.
                killed_at = min(killed_at, self._clock() + self._grace())
        return status.SIGTERM_EXIT if obeyed_at <= killed_at else status.SIGKILL_EXIT

    async def _deleted_within(self, seconds: float | None) -> bool:
        """Wait for the pod's deletion, for ever with None."""
        until = None if seconds is None else self._clock() + seconds
        while self._pod.metadata.deletionTimestamp is None:
            left = None if until is None else until - self._clock()
            if not await self._changed_within(left):
                return self._pod.metadata.deletionTimestamp is not None
        return True

    async def _changed_within(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    async def _report(self, patch: dict[str, Any]) -> None:
        await self._api.write("PATCH", self._path() + "/status", patch, kind=STRATEGIC_MERGE)

    def _path(self) -> str:
        metadata = self._pod.metadata
        return f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}"

    def _grace(self) -> float:
        return float(self._pod.metadata.deletionGracePeriodSeconds or 0)

    def _number(self, name: str) -> float | None:
        try:
            return float(self._pod.metadata.annotations[f"sandbox/{name}"])
        except (KeyError, ValueError):
            return None
