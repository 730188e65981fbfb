"""Why a unit is looked at. This is for the log only: no decision depends on it.

`reconcile/controller.py` adds the cause to each log line of a pass.
"""

from __future__ import annotations

from enum import StrEnum, unique


@unique
class WakeCause(StrEnum):
    """The `cause` in a log line. The set is closed, and no value comes from a pod."""

    START = "start"
    """This process has begun to lead, and looks at every pod once."""
    WATCH = "watch"
    """The watch of pods showed that the pod was added, changed or deleted."""
    EDIT = "edit"
    """The same watch showed that somebody has changed an annotation that the scheduler reads."""
    PULSE = "pulse"
    """The regular look at Slurm's jobs showed news of the job."""
    HOOK = "hook"
    """A hook asked about pods or nodes, and the look at Slurm that followed showed news of the job.
    A hint of a hook only makes the next pulse come sooner: its news has the cause `pulse`.
    """
    CENSUS = "census"
    """The search for placeholders found a job of the unit, or found that there is none."""
    NODES = "nodes"
    """Nodes, volumes or the pods on Nodes have changed, or the pod was compared with them."""
    POLICY = "policy"
    """The policy file or the labels of the pod's namespace have changed."""
    KILL_WAIT = "kill_wait"
    """Slurm's KillWait has changed, which limits grace periods."""
    TIMER = "timer"
    """The previous pass asked for another one at this time."""
    RETRY = "retry"
    """The previous pass failed or did not settle, and the pause after it is over."""
