"""`python -m scheduler.admission [FILE]`: brings the validating policy up to date with the code."""

from __future__ import annotations

import sys
from pathlib import Path

from scheduler.admission.manifest import rewritten

_DEFAULT = "deploy/admission/validating.yaml"


def main(arguments: list[str]) -> None:
    """Rewrite the file in place; run it where the repository is, or name the file."""
    path = Path(arguments[0] if arguments else _DEFAULT)
    path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
