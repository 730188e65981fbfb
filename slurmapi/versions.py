"""The versions of slurmrestd's API (data_parser plugins) that this client speaks, and their
differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, order=True)
class ApiVersion:
    """One data_parser version, ordered by age."""

    number: int

    @property
    def text(self) -> str:
        """The version as it is written in paths: "v0.0.45"."""
        return f"v0.0.{self.number}"

    @property
    def supports_external(self) -> bool:
        """Whether EXTERNAL_JOB is a known flag (measured: unknown in v0.0.42 even on Slurm
        26.05.5).
        """
        return self.number >= 43

    @property
    def supports_conf(self) -> bool:
        """Whether `GET conf` exists (measured: v0.0.45 only)."""
        return self.number >= 45

    def __str__(self) -> str:
        return self.text


# Newest first. Slurm 24.11 serves v0.0.40-42, 26.05 serves v0.0.42-45 (measured).
KNOWN_VERSIONS: Final = tuple(ApiVersion(number) for number in range(45, 39, -1))
