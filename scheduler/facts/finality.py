"""Whether another pod may come in the place of one that has succeeded."""

from __future__ import annotations

from typing import Final

from scheduler.core.gang_sources import JOBSET_NAME
from scheduler.kube.wire import Pod

_JOB: Final = ("batch/v1", "Job")


def is_final(pod: Pod) -> bool:
    """Whether the pod has succeeded and its controller makes no other in its place. A batch Job
    makes none, unless a JobSet restarts it. Other controllers and people may.
    """
    if not pod.succeeded or JOBSET_NAME in pod.metadata.labels:
        return False
    owners = pod.metadata.owner_references
    return any(it.controller and (it.api_version, it.kind) == _JOB for it in owners)
