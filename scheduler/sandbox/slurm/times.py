"""Times in sbatch's format, as slurmrestd accepts them for begin_time and deadline.

Measured on 26.05.5 and 24.11.5. Times are in the controller's local time; a text cannot name a
zone, and a trailing `Z` is refused.
"""

import re
import time
from datetime import datetime, timedelta
from typing import Final

_RELATIVE: Final = re.compile(r"now(?:\+(?P<count>\d+)(?P<unit>second|minute|hour|day|week)?s?)?")
_OF_DAY: Final = {"midnight": 0, "noon": 12, "teatime": 16}
_CLOCK: Final = re.compile(r"(\d{2}):(\d{2})(?::(\d{2}))?")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2})?)?")


def read_time(text: str, *, now: float | None = None) -> float:
    """Return seconds since the epoch; raises ValueError for a text that Slurm refuses."""
    present = time.time() if now is None else now
    match = _RELATIVE.fullmatch(text)
    if match is not None:
        unit = f"{match['unit'] or 'second'}s"
        return present + timedelta(**{unit: int(match["count"] or 0)}).total_seconds()
    if _DATE.fullmatch(text):
        return datetime.fromisoformat(text).timestamp()
    return _of_day(text, present)


def _of_day(text: str, present: float) -> float:
    """Return the next moment at that time of day, or the start of today or tomorrow."""
    today = datetime.fromtimestamp(present)  # noqa: DTZ006 - the controller's own clock
    start = today.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in {"today", "tomorrow"}:
        return (start + timedelta(days=text == "tomorrow")).timestamp()
    match = _CLOCK.fullmatch(text)
    if match is None and text not in _OF_DAY:
        raise ValueError(f"Parsing of {text} for timestamp failed")
    hour, minute, second = (
        (int(part or 0) for part in match.groups()) if match else (_OF_DAY[text], 0, 0)
    )
    moment = start.replace(hour=hour, minute=minute, second=second)
    return (moment if moment > today else moment + timedelta(days=1)).timestamp()
