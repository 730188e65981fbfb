"""How the two kinds of PodGroup say what `group_said.py` has to say, and who else writes it. Pure.

Kubernetes' own (k8s.io/api v0.36.3, scheduling/v1alpha2) has the condition PodGroupScheduled, which
kube-scheduler writes for the pods that name it (schedule_one_podgroup.go of v1.36.3): False with
the reason Unschedulable, and True with Scheduled, which it never takes back. That of
scheduler-plugins (v0.33.5, apis/scheduling/v1alpha1) has a phase, which its own controller derives
from the pods where it is installed (pkg/controllers/podgroup_controller.go).

So that two writers never take turns, nothing is written over what somebody else has written: the
API server notes in `metadata.managedFields` who wrote which field last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.core.event_reasons import Reason
from scheduler.core.gang_objects import GroupCondition, PluginsPodGroup, PodGroup
from scheduler.core.group_said import GroupStanding, GroupWord

FIELD_MANAGER: Final = "slurm-pod-scheduler"
"""Under this name the API server notes what we write."""
CONDITION: Final = "PodGroupScheduled"
_KEY: Final = f'k:{{"type":"{CONDITION}"}}'
_PHASES: Final[Mapping[GroupStanding, str]] = {
    GroupStanding.WAITS: "Pending",
    GroupStanding.PLACED: "Scheduling",
    GroupStanding.RUNS: "Running",
    GroupStanding.SUCCEEDED: "Finished",
    GroupStanding.FAILED: "Failed",
}

GroupWithStatus = PodGroup | PluginsPodGroup


def is_written_by_others(group: GroupWithStatus) -> bool:
    """Whether somebody else has written the condition or the phase last."""
    return any(
        it.manager != FIELD_MANAGER and _sets_our_field(group, it.fields_v1.status)
        for it in group.metadata.managed_fields
    )


def _sets_our_field(group: GroupWithStatus, fields: Mapping[str, object]) -> bool:
    if isinstance(group, PluginsPodGroup):
        return "f:phase" in fields
    conditions = fields.get("f:conditions")
    return isinstance(conditions, dict) and _KEY in conditions


def new_status(group: GroupWithStatus, word: GroupWord, *, time: str) -> dict[str, object] | None:
    """The part of the status to write, for a patch that merges conditions by their type; None if
    the object says it already. `time` is now, in RFC 3339 with whole seconds.
    """
    if isinstance(group, PluginsPodGroup):
        phase = _PHASES[word.standing]
        return None if group.status.phase == phase else {"phase": phase}
    placed = word.standing is not GroupStanding.WAITS
    found = next((it for it in group.status.conditions if it.type == CONDITION), None)
    if found is not None and _says(found, word, placed=placed):
        return None
    status = "True" if placed else "False"
    kept = found is not None and found.status == status and found.last_transition_time
    condition = {
        "type": CONDITION,
        "status": status,
        "observedGeneration": group.metadata.generation,
        "lastTransitionTime": kept or time,
        "reason": str(Reason.SCHEDULED) if placed else "Unschedulable",  # the API's own words
        "message": word.message,
    }
    return {"conditions": [condition]}


def _says(found: GroupCondition, word: GroupWord, *, placed: bool) -> bool:
    if found.status == "True":
        return True
    return not placed and found.status == "False" and found.message == word.message
