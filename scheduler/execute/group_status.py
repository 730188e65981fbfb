"""Says on a PodGroup how its gang stands. A word that cannot be said holds nothing up.

`core/group_words.py` decides what is said, and `core/group_status.py` knows the fields.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import structlog

from scheduler.core.actions import TellGroup
from scheduler.core.event_reasons import Reason
from scheduler.core.gang_objects import PluginsPodGroup, PodGroup
from scheduler.core.gang_sources import GroupRef
from scheduler.core.group_said import GroupSaid, GroupWord
from scheduler.core.group_status import is_written_by_others, new_status
from scheduler.execute.tools import Result, Tools
from scheduler.kube.api import Gone, Patched, Refused
from scheduler.kube.clip import clipped
from scheduler.kube.errors import KubeError, KubeFenced, KubeRefused
from scheduler.state.gang import Gang
from scheduler.state.units import Unit

log = structlog.get_logger(__name__)

# One try takes no longer, so that a slow webhook holds back nothing else of the gang.
_SECONDS: Final = 5.0


class _WrittenByOthers:
    """Somebody else has written this part of the status."""


class GroupTeller:
    """Writes the status of PodGroups: at most two requests for each try."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def tell(self, unit: Unit, action: TellGroup) -> Result:
        """Write the word, unless the object says it already or somebody else writes there. Returns
        after how many seconds it is tried again. Raises only KubeFenced.
        """
        gang = unit.gang
        if gang is None or gang.said is None or gang.member.object is None:
            return None
        try:
            async with asyncio.timeout(_SECONDS):
                outcome = await self._write(gang.member.object, action.word)
        except KubeFenced:
            raise
        except (KubeError, TimeoutError) as error:
            if isinstance(error, KubeRefused) and error.concerns_this_request:
                outcome = Refused.of(error)
            else:
                return self._failed(gang, gang.said, action.word, error)
        self._tools.count("tell_group", type(outcome).__name__.lower().strip("_"))
        gang.said = gang.said.after(action.word, now=self._tools.clock())
        if isinstance(outcome, Refused):
            self._warn(unit, gang, outcome)
        elif isinstance(outcome, _WrittenByOthers):
            gang.said = replace(gang.said, others=True)
            log.info(
                "status of a PodGroup is left to its other writer",
                namespace=unit.namespace,
                group=gang.member.name,
            )
        return None

    async def _write(
        self, ref: GroupRef, word: GroupWord
    ) -> Patched | Refused | Gone | _WrittenByOthers:
        """Read the object, and write what it lacks, over the very version that was read."""
        group = await self._tools.kube.get_group(ref)
        if not isinstance(group, PodGroup | PluginsPodGroup):
            return Gone()
        if is_written_by_others(group):
            return _WrittenByOthers()
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        word = replace(word, message=clipped(word.message))
        status = new_status(group, word, time=time)
        if status is None:
            return Patched()
        version = group.metadata.resource_version
        return await self._tools.kube.patch_group_status(ref, version=version, status=status)

    def _failed(
        self, gang: Gang, said: GroupSaid, word: GroupWord, error: KubeError | TimeoutError
    ) -> Result:
        now = self._tools.clock()
        gang.said = said.failed(word, now=now)
        self._tools.count("tell_group", getattr(error, "outcome", "interrupted"))
        log.debug("nothing could be said on a PodGroup", group=gang.member.name, error=str(error))
        return max(0.0, gang.said.until - now) or None

    def _warn(self, unit: Unit, gang: Gang, refused: Refused) -> None:
        """Say once for each gang, on one of its pods, that the API server refuses such writes."""
        message = (
            f"The API server refuses to write the status of PodGroup {gang.member.name}: "
            f"{refused.why}. Its pods are served all the same"
        )
        pod = next(iter(unit.pods), None)
        warn_on = self._tools.teller.warn_on
        if pod is None or warn_on(unit, pod.uid, Reason.STATUS_REFUSED, message):
            names = {"namespace": unit.namespace, "group": gang.member.name}
            log.warning("status of a PodGroup cannot be written", **names, why=refused.why)
