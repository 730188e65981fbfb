"""The site's job_submit plugin, which checks every submit and update before slurmctld does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .errors import SlurmError


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of the plugin.

    ``number`` is Slurm's error number, 0 for success. ``words`` is the message to the user
    (``slurm.log_user``). ``changes`` are the fields that the plugin overwrites.
    """

    number: int = 0
    words: str = ""
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


JobSubmit = Callable[[Mapping[str, Any]], Verdict]
"""The plugin: takes the fields of a submit or an update, returns its verdict."""


def no_plugin(_fields: Mapping[str, Any]) -> Verdict:
    """Accept everything unchanged."""
    return Verdict()


def judged(plugin: JobSubmit, fields: dict[str, Any]) -> str:
    """Apply the plugin's changes to `fields` and return its message to the user.

    Raises SlurmError if the plugin refuses. Its message is then lost: slurmrestd does not pass it
    on (measured on 26.05.5 and 24.11.5).
    """
    verdict = plugin(fields)
    if verdict.number:
        raise SlurmError(verdict.number)
    fields.update(verdict.changes)
    return verdict.words
