"""Files that nobody has written for a while, as the scheduler wants to find them."""

from __future__ import annotations

import os
import time
from pathlib import Path


def write_at_rest(path: Path, text: str, *, age_seconds: float = 60.0) -> None:
    """Write the file as if that had been so many seconds ago."""
    path.write_text(text)
    at = time.time() - age_seconds
    os.utime(path, (at, at))
