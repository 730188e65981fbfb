"""Debian's Chromium, installed if it is not there."""

from __future__ import annotations

import shutil
from typing import Final

from tests.rigs.debian import need_program
from tests.rigs.prerequisites import PrerequisiteError

_NAME: Final = "chromium"


def ensure() -> str:
    """The path of the program; installing it takes a minute. Raises PrerequisiteError."""
    need_program(_NAME)
    found = shutil.which(_NAME)
    if found is None:
        raise PrerequisiteError(f"the Debian package {_NAME} has no program {_NAME}")
    return found
