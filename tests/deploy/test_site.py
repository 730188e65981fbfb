"""`make site`, looked at in a real browser: every picture is drawn, and nothing is loaded from
another host.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from docs._site import conf
from tests.support.browser import tab
from tests.support.ports import free_ports

_ROOT: Final = Path(__file__).parents[2]
_PICTURE: Final = re.compile(r"^```mermaid$", re.MULTILINE)
_DRAWN: Final = "[...document.querySelectorAll('.mermaid svg')].filter(it => it.clientWidth)"
_FAILED: Final = f"{_DRAWN}.filter(it => it.innerHTML.includes('Syntax error'))"
_HOSTS: Final = (
    "[...new Set(performance.getEntriesByType('resource').map(it => new URL(it.name).host))]"
)

PAGES: Final = {
    path: found
    for path in sorted((_ROOT / "docs").glob("**/*.md"))
    if (found := len(_PICTURE.findall(path.read_text(encoding="utf-8"))))
}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[str]:
    """Builds the site and serves it; Sphinx fails if a link leads nowhere."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "docs._site", str(tmp_path / "site")),
        cwd=_ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    if b"npm" in said and process.returncode:
        pytest.skip(f"Mermaid cannot be fetched here: {said.decode()}")
    assert process.returncode == 0, said.decode()
    (port,) = free_ports(1)
    app = web.Application()
    app.router.add_static("/", tmp_path / "site")
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


@pytest.mark.live
@pytest.mark.slow
async def test_every_picture_is_drawn_and_nothing_comes_from_elsewhere(site: str) -> None:
    assert len(PAGES) >= 4
    async with tab() as browser:
        for page, pictures in PAGES.items():
            path = page.relative_to(_ROOT).with_suffix(".html")
            await browser.open(f"{site}/{path}")
            await browser.until(f"{_DRAWN}.length === {pictures}")
            assert await browser.value(f"{_FAILED}.length") == 0
            assert await browser.value(_HOSTS) == [site.removeprefix("http://")]


def test_sidebar_has_the_pages_of_the_readme_in_its_order() -> None:
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    found = conf.sidebar(readme)
    captions = re.findall(r":caption: (.+)", found)
    assert captions[0] == "To begin"
    assert captions[-1] == "For developers"
    pages = re.findall(r"^[\w./-]+$", found, re.MULTILINE)
    assert len(pages) == len(set(pages))
    listed = {f"{it}.md" for it in pages}
    exist = {str(it.relative_to(_ROOT)) for it in (_ROOT / "docs").glob("**/*.md")}
    assert exist <= listed


def test_link_to_a_folder_is_only_its_text(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    page = tmp_path / "page.md"
    links = "[a](folder) [b](file) [c](other.md#part) [d](https://example.com)"
    kept = links.replace("[a](folder)", "a")
    assert conf.without_folders(page, links) == kept
