"""Times as Slurm's commands write and read them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

_LIMIT: Final = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})", re.ASCII)


def span(seconds: int) -> str:
    """A duration: 5:09, 1:02:03, 2-01:02:03."""
    days, rest = divmod(max(0, seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def limit(minutes: int | None, *, none: str = "UNLIMITED") -> str:
    """A time limit; None is no limit."""
    return none if minutes is None else span(60 * minutes)


def moment(epoch: int | None) -> str:
    """A time of day by the local clock."""
    return datetime.fromtimestamp(epoch).isoformat() if epoch else "N/A"  # noqa: DTZ006 - as Slurm


def minutes(text: str) -> int:
    """A time limit as sbatch takes it: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S. Raises ValueError."""
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    parts = [int(it) for it in found["rest"].split(":")]
    if found["days"] is not None:
        hours, mins, secs = (*parts, 0, 0)[:3]
        hours += 24 * int(found["days"])
    elif len(parts) == 3:
        hours, mins, secs = parts
    else:
        hours, (mins, secs) = 0, (*parts, 0)[:2]
    return hours * 60 + mins + (1 if secs else 0)
