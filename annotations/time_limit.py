"""How long a placeholder may run: the least of the annotation's time and the pod's own deadline."""

from annotations.quantity import divide_up


def time_limit_minutes(annotated: int | None, active_deadline_seconds: int | None) -> int | None:
    """The job's time limit in minutes; None leaves it to Slurm's partition.

    `annotated` is the value of the annotation `timeout` in minutes. The kubelet ends the pod after
    its `activeDeadlineSeconds`, so its job needs no longer limit.
    """
    limits = (annotated, _minutes(active_deadline_seconds))
    return min((it for it in limits if it is not None), default=None)


def _minutes(seconds: int | None) -> int | None:
    """The time in Slurm's minutes, rounded up. The API server accepts one second or more."""
    return None if seconds is None else max(1, divide_up(seconds, 60))
