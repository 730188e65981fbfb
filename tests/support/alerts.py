"""The alert rules as tests need them: as they are shipped, and the same with minutes as seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

RULES: Final = Path(__file__).parents[2] / "deploy/helm/slurm-pod-scheduler/rules/alerts.yaml"
_WINDOW: Final = re.compile(r"\[\d+m\]")
_SILENCE: Final = re.compile(r"^(time\(\) - .* > )\d+$")


def rules() -> Iterator[dict[str, Any]]:
    """All alerts, as they are shipped."""
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def hastened(text: str) -> str:
    """The rule file with times that a test can wait for, and nothing else changed: `for` is one
    second, windows and the longest silence are six.
    """
    document = yaml.safe_load(text)
    for group in document["groups"]:
        for rule in group["rules"]:
            rule["for"] = "1s"
            windows = _WINDOW.sub("[6s]", rule["expr"].strip())
            rule["expr"] = _SILENCE.sub(r"\g<1>6", windows)
    return str(yaml.safe_dump(document, sort_keys=False))
