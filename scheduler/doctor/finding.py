"""What a check says: how bad it is, what was found, and what helps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum, unique

_LONGEST = 600  # servers may send texts of any length


@unique
class Group(StrEnum):
    """What a check looks at; the report has a heading for each."""

    SLURM = "Slurm"
    KUBERNETES = "Kubernetes"
    BOTH = "both"


@unique
class Severity(IntEnum):
    """How bad a finding is; the larger, the worse."""

    OK = 0
    """As it should be."""
    NOTE = 1
    """Good to know, or not looked at."""
    WARNING = 2
    """Pods are served, but some of them late, not at all, or not as their authors expect."""
    ERROR = 3
    """The scheduler does not start, or serves no pod."""

    @property
    def word(self) -> str:
        """The severity as it is written."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One finding of a check: `what` names the field and its value. `remedy` is "" if nothing needs
    to be done.
    """

    severity: Severity
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding, with the name of its check."""

    check: str
    group: Group
    severity: Severity
    what: str
    remedy: str


def ok(what: str) -> CheckResult:
    """All is as it should be."""
    return CheckResult(Severity.OK, what)


def note(what: str, remedy: str = "") -> CheckResult:
    """Something to know."""
    return CheckResult(Severity.NOTE, what, remedy)


def warning(what: str, remedy: str) -> CheckResult:
    """Something that hurts some pods."""
    return CheckResult(Severity.WARNING, what, remedy)


def error(what: str, remedy: str) -> CheckResult:
    """Something that keeps the scheduler from its work."""
    return CheckResult(Severity.ERROR, what, remedy)


def plain(text: str) -> str:
    """The text on one line, of a bounded length, and without anything that moves a terminal's
    cursor: texts of servers, names and comments may hold anything.
    """
    line = " ".join(text.split())
    shown = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
    return "".join(it if it.isprintable() else ascii(it)[1:-1] for it in shown)


def some(names: list[str], *, most: int = 3) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
