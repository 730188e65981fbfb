"""A job_submit plugin of the site, which judges every submit and update before slurmctld does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .errors import SlurmError


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the plugin returns, 0 for success, what it says to the user (``slurm.log_user``), and
    the fields that it writes over.
    """

    number: int = 0
    words: str = ""
    changes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


JobSubmit = Callable[[Mapping[str, Any]], Verdict]
"""The plugin: the fields of a submit or an update in, its verdict out."""


def no_plugin(_fields: Mapping[str, Any]) -> Verdict:
    """Take everything."""
    return Verdict()


def judged(plugin: JobSubmit, fields: dict[str, Any]) -> str:
    """What the plugin says about what it takes, and `fields` as it leaves them; raises SlurmError
    for what it does not take.

    Its words are lost then: slurmrestd does not pass them on (measured on 26.05.5 and 24.11.5).
    """
    verdict = plugin(fields)
    if verdict.number:
        raise SlurmError(verdict.number)
    fields.update(verdict.changes)
    return verdict.words
