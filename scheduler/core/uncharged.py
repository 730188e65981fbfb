"""Accounts and QoS without an accounting database: Slurm does not check them and charges nobody."""

from __future__ import annotations

from typing import Final

from annotations import JobRequest
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import Remark

_SLURMDBD: Final = "accounting_storage/slurmdbd"


def uncharged(request: JobRequest, storage: str | None) -> tuple[Remark, ...]:
    """Remarks about the request. `storage` is Slurm's AccountingStorageType; None if not known."""
    if storage is None or storage == _SLURMDBD:
        return ()
    asked = [name for name in ("account", "qos") if getattr(request, name) is not None]
    if not asked:
        return ()
    text = (
        f"Slurm has no accounting database: it does not check what the pod gives as "
        f"{' and '.join(asked)}, and charges nobody for its job"
    )
    return (Remark(Reason.NOT_CHARGED, text),)
