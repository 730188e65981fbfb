"""Prints findings, for people or as JSON. docs/doctor.md describes both forms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from scheduler.doctor.finding import Finding, Severity

REPORT_VERSION: Final = 1
"""The version of the form of the JSON; fields may be added to it without a new one."""
_WIDTH: Final = max(len(it.word) for it in Severity)


def text(findings: Sequence[Finding]) -> str:
    """For people: by what the checks look at, each finding with its remedy below it."""
    lines = []
    for group, found in groupby(findings, key=lambda it: it.group):
        lines += [f"{group}:", *(line for it in found for line in _lines(it)), ""]
    return "\n".join([*lines, summary(findings), ""])


def _lines(finding: Finding) -> Iterator[str]:
    yield f"  {finding.severity.word:<{_WIDTH}}  {finding.check}: {finding.what}"
    if finding.remedy:
        yield f"  {'':<{_WIDTH}}  -> {finding.remedy}"


def findings_as_json(findings: Sequence[Finding]) -> str:
    """For programs."""
    body = {
        "version": REPORT_VERSION,
        "worst": worst(findings).word,
        "findings": [
            {
                "check": it.check,
                "group": it.group.lower(),
                "severity": it.severity.word,
                "what": it.what,
                "remedy": it.remedy,
            }
            for it in findings
        ],
    }
    return json.dumps(body, indent=2) + "\n"


def summary(findings: Sequence[Finding]) -> str:
    """How many findings there are of each severity, the worst first."""
    counts = {it.word: sum(f.severity is it for f in findings) for it in reversed(Severity)}
    return ", ".join(f"{word}: {count}" for word, count in counts.items())


def worst(findings: Sequence[Finding]) -> Severity:
    """The severity of the worst finding."""
    return max((it.severity for it in findings), default=Severity.OK)
