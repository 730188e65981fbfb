"""Annotations of ours that stand on a pod's controller instead of its template: told on the pod.

They count on pods only, and nothing of a Deployment or a Job is copied to its pods but what its
template has. The API server shows them only to whoever may read the controller, a right that this
service neither needs nor is given by default: where it is there (`get` of replicasets,
statefulsets, daemonsets, jobs), each controller is read once. A Deployment's annotations are
copied to its ReplicaSets.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from scheduler.core.budgets import Budgets
from scheduler.core.reasons import MEANINGS, Reason
from scheduler.kube.api import KubeApi
from scheduler.kube.errors import Forbidden, KubeError
from scheduler.kube.recorder import ObjectRef, Recorder
from scheduler.kube.wire import OwnerReference, Pod

log = structlog.get_logger(__name__)

# Kind and group of the controllers that have a template of pods, and their resource.
_RESOURCES: Final = {
    ("ReplicaSet", "apps/v1"): "replicasets",
    ("StatefulSet", "apps/v1"): "statefulsets",
    ("DaemonSet", "apps/v1"): "daemonsets",
    ("Job", "batch/v1"): "jobs",
}
# The API server takes any name of an owner. `../../secrets/x` would lead elsewhere, and
# `x?watch=true` to an answer that does not end.
_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
# What is kept of a controller are names of annotations: at most 16 of them, of 63 characters.
_MOST_KNOWN: Final = 2048
_MOST_WAITING: Final = 256
_MOST_NAMES: Final = 16
_LONGEST_NAME: Final = 63
# Reads, and Events, of all pods together; of many pods of one controller a few are told.
_READS_PER_SECOND: Final = 2.0
# So many Events at once, and then one each so many seconds.
_EVENTS: Final = (20, 0.5)


_Controller = tuple[str, str, str, str]
"""Its namespace, kind, name and uid: the uid alone, which a pod's author may write, would speak of
what is another's.
"""


class OwnerHints:
    """`see` is for each pod that is new, or was there when this process began to lead; `run` reads
    the controllers.
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
        """Tell what is known of the pod's controller, or have it read."""
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
        """Read controllers for ever, one at a time; end it by cancelling."""
        while True:
            await self._more.wait()
            self._more.clear()
            while self._waiting:
                controller, (owner, pod) = self._waiting.popitem(last=False)
                if self._may_be_read(owner, pod):
                    await self._read(controller, owner, pod)
                    await asyncio.sleep(1.0 / _READS_PER_SECOND)

    def _may_be_read(self, owner: OwnerReference, pod: Pod) -> bool:
        """Rights may differ by namespace; one that is missing is asked for once."""
        kind = (owner.kind, owner.api_version)
        if _OBJECT_NAME.fullmatch(owner.name) is None:
            return False
        return kind in _RESOURCES and (owner.kind, pod.metadata.namespace) not in self._forbidden

    async def _read(self, controller: _Controller, owner: OwnerReference, pod: Pod) -> None:
        namespace = pod.metadata.namespace
        group, resource = owner.api_version, _RESOURCES[owner.kind, owner.api_version]
        path = f"/apis/{group}/namespaces/{namespace}/{resource}/{owner.name}"
        try:
            found = await self._api.annotations_of(path)
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
        if not lacking or not self._events.spend(Reason.ANNOTATIONS_ON_OWNER, self._clock()):
            return
        self._recorder.record(
            ObjectRef.of_pod(pod),
            type=MEANINGS[Reason.ANNOTATIONS_ON_OWNER].kind,
            reason=Reason.ANNOTATIONS_ON_OWNER,
            message=f"{owner.kind} {owner.name} has the annotations {', '.join(lacking)}, and the "
            "pod has not: they count on pods only, so put them into the template "
            "(spec.template.metadata.annotations)",
        )
