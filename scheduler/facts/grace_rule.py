"""Whether KillWait alone limits a pod's grace period (`annotations/grace.py`), or whether the
handover guard keeps the node for the pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from annotations import Rules
from annotations.grace import USUAL_GRACE

GraceSetting = Literal["auto", "strict", "guarded"]


class GraceRule:
    """`guard_known` says whether Slurm is known to ask the handover guard. Until KillWait is known,
    no grace period is judged.

    With `auto` the guard allows no more than USUAL_GRACE: the site, and not the pod's author,
    decides how long others wait for the node of a pod that Slurm has ended.
    """

    def __init__(self, setting: GraceSetting, *, guard_known: Callable[[], bool]) -> None:
        self._setting = setting
        self._guard_known = guard_known
        self.kill_wait_known = True

    def now(self, rules: Rules, *, has_job: bool = False) -> Rules:
        """The rules by which a pod is judged now.

        With `auto`, a pod that has a job keeps it, if the guard would allow its grace period: a new
        process knows of the guard only once Slurm has named its PrologSlurmctld, or has asked it.
        """
        if not self.kill_wait_known or self._setting == "guarded":
            return replace(rules, grace_policy="guarded")
        if self._setting == "auto" and (has_job or self._guard_known()):
            return replace(rules, guarded_grace_seconds=USUAL_GRACE)
        return rules
