"""Reads moments in annotations: exact ones become Unix seconds, others stay in Slurm's syntax.

The time limit of a job is in `time_limit.py`.
"""

import re
from datetime import datetime

from annotations.problems import NotAcceptableError

_EPOCH = re.compile(r"[1-9][0-9]{0,9}")
_WITH_ZONE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_SLURMS = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)?|[0-9]{2}:[0-9]{2}(?::[0-9]{2})?"
    r"|now\+[0-9]{1,9}(?:seconds?|minutes?|hours?|days?|weeks?)?"
    r"|midnight|noon|teatime|today|tomorrow"
)
TIME_PATTERN = f"(?:{_EPOCH.pattern}|{_WITH_ZONE.pattern}|{_SLURMS.pattern})"
MOMENT = (
    "a moment such as 2030-01-31T08:00:00Z, or in Slurm's own words and clock 2030-01-31T08:00, "
    "08:00 or now+2hours, or seconds of the epoch"
)


def read_time(value: str) -> str | int:
    """Unix seconds if the value is an exact time, otherwise the text for Slurm to interpret.

    slurmrestd accepts no time zones: it refuses "2030-01-01T00:00:00Z" (measured on 26.05.5 and
    24.11.5), so such times are converted here.
    """
    if _EPOCH.fullmatch(value):
        return int(value)
    try:
        if _WITH_ZONE.fullmatch(value):
            return int(datetime.fromisoformat(value).timestamp())
        if value[:4].isdigit():
            datetime.fromisoformat(value)
    except ValueError:
        raise NotAcceptableError(MOMENT) from None
    if not _SLURMS.fullmatch(value):
        raise NotAcceptableError(MOMENT)
    return value
