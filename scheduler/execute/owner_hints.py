"""Warns on a pod if our annotations are on its controller instead of on the pod template.

Annotations take effect on pods only, and a Deployment or a Job copies only its template to its
pods. To see the mistake, the scheduler must read the controller (`get` of replicasets,
statefulsets, daemonsets, jobs). It needs this right for nothing else, and has it only if a site
grants it; then each controller is read once. A Deployment's annotations are copied to its
ReplicaSets, so it is enough to read the ReplicaSets.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from scheduler.core.budgets import Budgets
from scheduler.core.event_reasons import MEANINGS, Reason
from scheduler.kube.api import KubeApi
from scheduler.kube.controllers import controller_path
from scheduler.kube.errors import Forbidden, KubeError
from scheduler.kube.recorder import ObjectRef, Recorder
from scheduler.kube.wire import OwnerReference, Pod

log = structlog.get_logger(__name__)

# We keep only the names of each controller's annotations: at most 16 of 63 characters.
_MOST_KNOWN: Final = 2048
_MOST_WAITING: Final = 256
_MOST_NAMES: Final = 16
_LONGEST_NAME: Final = 63
# Limits of reads and Events for all pods together. If one controller has many pods, a few of them
# get the Event.
_READS_PER_SECOND: Final = 2.0
# A burst of Events, then one in this many seconds.
_EVENTS: Final = (20, 0.5)


_Controller = tuple[str, str, str, str]
"""Namespace, kind, name and uid of the controller. The uid alone would not do: a pod's author can
write any uid, and would get the annotation names of somebody else's controller.
"""


class OwnerHints:
    """`see` is called for each pod that is new, or that existed when this process began to lead.
    `run` reads the controllers.
    """

    def __init__(
        self,
        api: KubeApi,
        recorder: Recorder,
        *,
        prefixes: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._recorder = recorder
        self._prefixes = tuple(prefixes)
        self._known: OrderedDict[_Controller, tuple[str, ...]] = OrderedDict()
        self._waiting: OrderedDict[_Controller, tuple[OwnerReference, Pod]] = OrderedDict()
        self._forbidden: set[tuple[str, str]] = set()
        self._clock = clock
        self._events = Budgets[Reason](*_EVENTS)
        self._more = asyncio.Event()

    def see(self, pod: Pod) -> None:
        """Record an Event with what is known of the pod's controller, or have the
        controller read.
        """
        owner = next((it for it in pod.metadata.owner_references if it.controller), None)
        if owner is None or pod.spec.node_name or not self._may_be_read(owner, pod):
            return
        controller = (pod.metadata.namespace, owner.kind, owner.name, owner.uid)
        if controller in self._known:
            self._tell(pod, owner, self._known[controller])
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.setdefault(controller, (owner, pod))
            self._more.set()

    async def run(self) -> None:
        """Read controllers for ever, one at a time; cancel it to stop."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                controller, (owner, pod) = self._waiting.popitem(last=False)
                if self._may_be_read(owner, pod):
                    await self._read(controller, owner, pod)
                    await asyncio.sleep(1.0 / _READS_PER_SECOND)

    def _may_be_read(self, owner: OwnerReference, pod: Pod) -> bool:
        """Whether we may read it. Rights may differ by namespace, and a missing right is tried
        once.
        """
        namespace = pod.metadata.namespace
        if not controller_path(owner, namespace):
            return False
        return (owner.kind, namespace) not in self._forbidden

    async def _read(self, controller: _Controller, owner: OwnerReference, pod: Pod) -> None:
        namespace = pod.metadata.namespace
        try:
            found = await self._api.annotations_of(controller_path(owner, namespace))
        except Forbidden:
            if len(self._forbidden) < _MOST_KNOWN:
                self._forbidden.add((owner.kind, namespace))
            return
        except KubeError as error:
            log.debug("controller not read", namespace=namespace, name=owner.name, error=str(error))
            return
        names = [it[:_LONGEST_NAME] for it in sorted(found) if it.startswith(self._prefixes)]
        self._known[controller] = tuple(names[:_MOST_NAMES])
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        self._tell(pod, owner, self._known[controller])

    def _tell(self, pod: Pod, owner: OwnerReference, names: Sequence[str]) -> None:
        lacking = [name for name in names if name not in pod.metadata.annotations]
        if not lacking or not self._events.try_spend(Reason.ANNOTATIONS_ON_OWNER, self._clock()):
            return
        self._recorder.record(
            ObjectRef.of_pod(pod),
            type=MEANINGS[Reason.ANNOTATIONS_ON_OWNER].kind,
            reason=Reason.ANNOTATIONS_ON_OWNER,
            message=f"{owner.kind} {owner.name} has the annotations {', '.join(lacking)}, and the "
            "pod does not: they count on pods only, so put them into the template "
            "(spec.template.metadata.annotations)",
        )
