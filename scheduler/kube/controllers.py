"""Where the API serves the controllers that have a pod template."""

from __future__ import annotations

import re
from typing import Final

from scheduler.kube.wire import OwnerReference

CONTROLLERS: Final = {
    ("ReplicaSet", "apps/v1"): "replicasets",
    ("StatefulSet", "apps/v1"): "statefulsets",
    ("DaemonSet", "apps/v1"): "daemonsets",
    ("Job", "batch/v1"): "jobs",
}
"""Their resource, by kind and API version."""

# The API server accepts any string as an owner's name. `../../secrets/x` would lead to another
# object, and `x?watch=true` to an answer that never ends.
_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def controller_path(owner: OwnerReference, namespace: str) -> str:
    """The path of a pod's controller; "" if it is of another kind, or cannot have this name."""
    resource = CONTROLLERS.get((owner.kind, owner.api_version))
    if resource is None or _OBJECT_NAME.fullmatch(owner.name) is None:
        return ""
    return f"/apis/{owner.api_version}/namespaces/{namespace}/{resource}/{owner.name}"
