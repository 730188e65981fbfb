"""The alert rules: as they are shipped, and with times that a test can wait for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

RULES: Final = Path(__file__).parents[2] / "deploy/helm/slurm-pod-scheduler/rules/alerts.yaml"
_WINDOW: Final = re.compile(r"\[\d+m\]")
# The scheduler counts the pods every five seconds. A state that one count shows may end before
# the next count.
_COUNTED: Final = re.compile(
    r"scheduler_(pods|namespace_pods|partition_pods|placeholders_without_pod)\b"
)
_SILENCE: Final = re.compile(r"^(time\(\) - .* > )\d+$")


def rules() -> Iterator[dict[str, Any]]:
    """All alerts, as they are shipped."""
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def hastened(text: str) -> str:
    """The rule file with shorter times, and nothing else changed.

    `for` becomes one second, or six where the rule rests on a count of the pods. Windows and the
    longest silence become six seconds.
    """
    document = yaml.safe_load(text)
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["for"] = "6s" if _COUNTED.search(rule["expr"]) else "1s"
            windows = _WINDOW.sub("[6s]", rule["expr"].strip())
            rule["expr"] = _SILENCE.sub(r"\g<1>6", windows)
    return str(yaml.safe_dump(document, sort_keys=False))
