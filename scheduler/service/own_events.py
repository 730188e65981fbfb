"""Events on the scheduler's own pod, for whoever looks after it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from scheduler.core.reasons import MEANINGS, Reason
from scheduler.kube.recorder import ObjectRef, Recorder


class OwnEvents:
    """Nothing is written where the pod is not known: outside a cluster there is none."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def warn(self, reason: Reason, message: str) -> None:
        """Record an Event; it is written later, or never when there are too many."""
        ref = own_pod(os.environ)
        if ref is not None:
            kind = MEANINGS[reason].kind
            self._recorder.record(ref, type=kind, reason=reason, message=message)


def own_pod(environ: Mapping[str, str]) -> ObjectRef | None:
    """The pod this process runs in, as the downward API tells it; None outside of one."""
    name, namespace = environ.get("POD_NAME"), environ.get("POD_NAMESPACE")
    if not name or not namespace:
        return None
    return ObjectRef(kind="Pod", namespace=namespace, name=name, uid=environ.get("POD_UID", ""))
