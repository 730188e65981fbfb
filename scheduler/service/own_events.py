"""Events on the scheduler's own pod, for the people who run the scheduler."""

from __future__ import annotations

import os
from collections.abc import Mapping

from scheduler.core.event_reasons import MEANINGS, Reason
from scheduler.kube.recorder import ObjectRef, Recorder


class OwnEvents:
    """Writes nothing if our own pod is not known: outside of a cluster there is none."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def warn(self, reason: Reason, message: str) -> None:
        """Record an Event on our own pod; outside of a pod, do nothing. It is written later, or not
        at all if there are too many.
        """
        ref = own_pod(os.environ)
        if ref is not None:
            kind = MEANINGS[reason].kind
            self._recorder.record(ref, type=kind, reason=reason, message=message)


def own_pod(environ: Mapping[str, str]) -> ObjectRef | None:
    """The pod that this process runs in, from the environment that the downward API fills; None
    outside of a pod.
    """
    name, namespace = environ.get("POD_NAME"), environ.get("POD_NAMESPACE")
    if not name or not namespace:
        return None
    return ObjectRef(kind="Pod", namespace=namespace, name=name, uid=environ.get("POD_UID", ""))
