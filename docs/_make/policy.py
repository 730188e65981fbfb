"""The place in the policy's manifest where the table of annotations stands."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from docs._make.policy_maps import table

_BEGIN: Final = "    # made by `make docs` from the table of annotations: begin\n"
_END: Final = "    # made by `make docs` from the table of annotations: end\n"


def rewritten(manifest: str) -> str:
    """The manifest with the table as the code has it; ValueError where it has no place for one."""
    before, begin, rest = manifest.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"no place for the table: expected the lines {_BEGIN}{_END}")
    return f"{before}{_BEGIN}{table()}{_END}{after}"


def rewrite(path: Path) -> None:
    """Write the table in the manifest anew; raises ValueError like `rewritten`."""
    path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")
