"""The grace rule: a pod must be gone before Slurm stops waiting for its job to end.

With `guarded`, the handover guard keeps the node for the pod instead of KillWait, so any grace
period is accepted; with `guarded_grace_seconds`, one of this many seconds. Other grace periods: of
a pod that is being deleted (when it is shortened), `scheduler/core/departing.py`; of a pod that the
scheduler ends, `scheduler/core/running.py`; of a pod that vanished,
`scheduler/state/pod_remains.py`. KillWait: `scheduler/slurm/kill_wait.py`.
"""

from annotations.model import PodView, Rules
from annotations.problems import Problem

USUAL_GRACE = 30
"""Kubernetes' default, in seconds."""
_FIELD = "spec.terminationGracePeriodSeconds"


def longest_grace(rules: Rules) -> int:
    """The longest grace period that the strict rule accepts, in seconds; negative if none."""
    by_kill_wait = rules.kill_wait_seconds - rules.termination_offset_seconds - 1
    return max(by_kill_wait, rules.guarded_grace_seconds or by_kill_wait)


def grace_problems(pod: PodView, rules: Rules) -> list[Problem]:
    """At most one problem, which names the largest allowed value.

    The rule is quoted in SUNK's words, so that people who search for its message find it.
    """
    grace = pod.termination_grace_period_seconds
    longest = longest_grace(rules)
    if grace <= longest or rules.grace_policy == "guarded":
        return []
    rule = (
        "termination grace period must be less than "
        f"Slurm KillWait - {rules.termination_offset_seconds}s"
    )
    remedy = f"at most {longest}" if longest >= 0 else "no value, KillWait has to be raised"
    expected = f"{remedy} (KillWait is {rules.kill_wait_seconds}s)"
    return [Problem(_FIELD, str(grace), expected, rule)]
