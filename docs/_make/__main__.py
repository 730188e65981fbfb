"""`python -m docs._make`: brings what is written from the code up to date, in the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from docs._make import pages, policy

_ROOT: Final = Path(__file__).parents[2]


def main() -> None:
    """Rewrite the pages and the policy in place."""
    pages.rewrite(_ROOT / "docs")
    policy.rewrite(_ROOT / "deploy/admission/validating.yaml")


if __name__ == "__main__":
    main()
