"""The real kind. It makes clusters with the `docker` that is first in PATH."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.rigs.gotools import installed

_KIND: Final = ("sigs.k8s.io/kind", "v0.33.0")


def kind_program() -> Path:
    """kind, made now if it is not in the cache: half a minute. Raises PrerequisiteError."""
    return installed(*_KIND)
