"""A Job's podFailurePolicy: whether a failed pod counts, is ignored, or fails the Job."""

from __future__ import annotations

from enum import Enum, auto

from scheduler.sandbox.kube.resources import Body


class Verdict(Enum):
    """What a failed pod means for its Job."""

    COUNT = auto()
    IGNORE = auto()
    FAIL_JOB = auto()


def judge(policy: Body | None, pod: Body) -> Verdict:
    """The verdict of the first rule that fits the pod; if no rule fits, the failure counts."""
    for rule in (policy or {}).get("rules") or ():
        if _conditions_fit(rule, pod) or _codes_fit(rule, pod):
            return _ACTIONS.get(rule.get("action", "Count"), Verdict.COUNT)
    return Verdict.COUNT


_ACTIONS = {"Ignore": Verdict.IGNORE, "FailJob": Verdict.FAIL_JOB}


def _conditions_fit(rule: Body, pod: Body) -> bool:
    present = {(each["type"], each["status"]) for each in pod["status"].get("conditions") or ()}
    patterns = rule.get("onPodConditions") or ()
    return any((each["type"], each.get("status", "True")) in present for each in patterns)


def _codes_fit(rule: Body, pod: Body) -> bool:
    wanted = rule.get("onExitCodes")
    if not wanted:
        return False
    for each in pod["status"].get("containerStatuses") or ():
        ended = each["state"].get("terminated")
        if not ended or not ended["exitCode"]:
            continue
        if wanted.get("containerName", each["name"]) == each["name"]:
            listed = ended["exitCode"] in wanted["values"]
            if listed == (wanted["operator"] == "In"):
                return True
    return False
