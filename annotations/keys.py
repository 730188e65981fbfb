"""The one table of annotations: parsing, documentation and tests are all drawn from it.

`make docs` rewrites the generated part of docs/annotations.md.
"""

from dataclasses import dataclass
from difflib import get_close_matches

from annotations.kinds import SECONDS, TEXT, Kind


@dataclass(frozen=True, slots=True)
class Definition:
    """One annotation: how it is read, which JobRequest field it fills, how people know it."""

    key: str
    kind: Kind
    field: str
    slurm_option: str
    description: str
    example: str


DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "account",
        TEXT,
        "account",
        "--account",
        "The Slurm account that is charged. Without it: the default account of the Slurm user.",
        "physics",
    ),
    Definition(
        "comment",
        TEXT,
        "comment",
        "--comment",
        "Free text kept with the job, shown by squeue and sacct.",
        "nightly training",
    ),
    Definition(
        "partition",
        TEXT,
        "partition",
        "--partition",
        "The partition to run in, or several joined by commas. Without it: the cluster's default.",
        "gpu",
    ),
    Definition(
        "qos",
        TEXT,
        "qos",
        "--qos",
        "The quality of service to run under. Without it: the default of account and partition.",
        "high",
    ),
    Definition(
        "reservation",
        TEXT,
        "reservation",
        "--reservation",
        "The reservation whose resources may be used.",
        "maintenance-window",
    ),
    Definition(
        "timeout",
        SECONDS,
        "time_limit_minutes",
        "--time",
        "Time limit of the job. Slurm counts minutes: seconds are rounded up. "
        "Without it: the partition's default.",
        "3600",
    ),
)

# SUNK's annotations that this version does not act on. They are refused rather than ignored: a pod
# that asks for required-nodes and runs anywhere has been harmed.
UNSUPPORTED: frozenset[str] = frozenset(
    {
        "constraints",
        "current-working-dir",
        "excluded-nodes",
        "exclusive",
        "group-id",
        "prefer",
        "priority",
        "required-nodes",
        "user-id",
    }
)

BY_KEY = {definition.key: definition for definition in DEFINITIONS}


def supported() -> str:
    """The names that are understood, for messages."""
    return ", ".join(BY_KEY)


def remedy(name: str) -> str:
    """What to write instead of a name that this version does not understand."""
    if name in UNSUPPORTED:
        return f"no such annotation: not supported by this version, which supports {supported()}"
    for near in get_close_matches(name, [*BY_KEY, *sorted(UNSUPPORTED)], n=1):
        also = " (not supported by this version)" if near in UNSUPPORTED else ""
        return f"a known annotation: did you mean {near!r}{also}? Supported: {supported()}"
    return f"a known annotation: one of {supported()}"


def table() -> str:
    """All annotations as a Markdown table."""
    rows = [
        "| Annotation | Type | Slurm option | Meaning | Example |",
        "|---|---|---|---|---|",
        *(
            f"| `{d.key}` | {d.kind.name} | `{d.slurm_option}` | {d.description} | `{d.example}` |"
            for d in DEFINITIONS
        ),
    ]
    refused = ", ".join(f"`{key}`" for key in sorted(UNSUPPORTED))
    return "\n".join(rows) + f"\n\nKnown to SUNK, refused by this version: {refused}.\n"
