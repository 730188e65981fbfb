"""How Sphinx builds the documentation as a site: `make site`.

The pages are the Markdown files of the repository, as they are. README.md is the front page, and
its section "Documentation" gives the sidebar its order. The pictures are Mermaid blocks, which
forges draw too; the site brings Mermaid's own code along (`docs._site`) and loads nothing from
other hosts.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sphinx.application import Sphinx

import scheduler
from tests.rigs import mermaid

_FRONT: Final = "README"
_CAPTION: Final = re.compile(r"^\*\*(.+)\*\*$")
_LINK: Final = re.compile(r"\[(?P<text>[^\]\n]+)\]\((?P<target>[^)#\s]+)\)")
_PAGE: Final = re.compile(r"\]\(([\w./-]+)\.md\)")

project = "slurm-pod-scheduler"
author = "The authors of slurm-pod-scheduler"
release = version = scheduler.__version__
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
root_doc = _FRONT
include_patterns = ["*.md", "docs/*.md", "docs/coexistence/*.md", "benchmarks/*.md", "tests/*.md"]

# Anchors of headings as forges make them, so that a link is right in both places.
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
myst_enable_extensions = ["attrs_inline"]
# Each page begins with a heading of the first level, and forges accept any depth below it.
suppress_warnings = ["myst.header"]

html_theme = "furo"
html_title = f"slurm-pod-scheduler {release}"
html_copy_source = False
html_show_sphinx = False
mermaid_use_local = f"mermaid/{mermaid.MODULE}"
mermaid_fullscreen = False
mermaid_height = "auto"


def sidebar(readme: str) -> str:
    """The README's links to pages, as hidden tables of contents: one below each caption."""
    _, _, text = readme.partition("\n## Documentation\n")
    blocks: list[tuple[str, list[str]]] = []
    known: set[str] = set()
    for line in text.splitlines():
        if caption := _CAPTION.match(line):
            blocks.append((caption[1], []))
        for page in _PAGE.findall(line):
            if blocks and page not in known:
                known.add(page)
                blocks[-1][1].append(page)
    return "\n".join(
        "\n".join(("```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""))
        for caption, pages in blocks
    )


def without_folders(page: Path, text: str) -> str:
    """The text of a page, without links to folders of the repository: the site lists none."""

    def written(link: re.Match[str]) -> str:
        return link["text"] if (page.parent / link["target"]).is_dir() else link[0]

    return _LINK.sub(written, text)


def _prepare(app: Sphinx, page: str, source: list[str]) -> None:
    text = without_folders(Path(app.srcdir, f"{page}.md"), source[0])
    source[0] = text + "\n" + sidebar(text) if page == _FRONT else text


def setup(app: Sphinx) -> None:
    """Sphinx calls this once."""
    app.connect("source-read", _prepare)
