"""`python -m deploy.helm.admission`: writes the chart's copy of the admission policies.

The chart needs a copy, because it can read no files outside its folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_DEPLOY: Final = Path(__file__).parents[1]
FOLDER: Final = _DEPLOY / "helm/slurm-pod-scheduler/admission"


def made() -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each file of the copy."""
    for path in sorted((_DEPLOY / "admission").glob("*.yaml")):
        yield path.name, path.read_text(encoding="utf-8")


def main() -> None:
    """Write the copy."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in made():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
