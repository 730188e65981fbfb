"""`python -m docs._site [FOLDER]`: builds the site, by default into build/site.

Fails if a link leads nowhere, or if a page is in no section of the README's list. It needs npm,
from which it gets Mermaid the first time.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sphinx.cmd.build import build_main

from tests.rigs import mermaid
from tests.rigs.prerequisites import PrerequisiteError

_ROOT: Final = Path(__file__).parents[2]
_OPTIONS: Final = ("--fresh-env", "--fail-on-warning", "--keep-going", "--quiet")


def build(folder: Path) -> int:
    """The exit status; raises PrerequisiteError. The front page is README.html."""
    with TemporaryDirectory() as static:
        (Path(static) / "mermaid").symlink_to(mermaid.ensure())
        options = ("--conf-dir", str(Path(__file__).parent), "-D", f"html_static_path={static}")
        cache = ("--doctree-dir", str(folder.with_name(f"{folder.name}-doctrees")))
        return build_main((*_OPTIONS, *options, *cache, str(_ROOT), str(folder)))


def main() -> int:
    """The exit status."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else _ROOT / "build" / "site"
    try:
        status = build(folder)
    except PrerequisiteError as missing:
        sys.stderr.write(f"docs._site: {missing}\n")
        return 1
    if status == 0:
        sys.stdout.write(f"the site is in {folder}; its front page is README.html\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
