"""The settings about how pods are read, as the `Rules` of the package that reads them."""

from __future__ import annotations

from annotations import PREFIX, Rules
from scheduler.config.settings import Settings


def rules_of(settings: Settings) -> Rules:
    """The rules. SUNK's annotation prefix comes first, then the site's own. Whether the guard keeps
    the nodes, only the running process knows (`facts/grace_rule.py`): `auto` counts as strict here.
    """
    return Rules(
        kill_wait_seconds=int(settings.slurm_kill_wait),
        termination_offset_seconds=int(settings.termination_offset),
        prefixes=tuple(filter(None, (PREFIX, settings.annotation_prefix))),
        device_resources=settings.device_resources,
        gpu_type_keys=settings.gpu_type_keys,
        gpu_types=settings.gpu_types,
        grace_policy="guarded" if settings.grace_policy == "guarded" else "strict",
    )
