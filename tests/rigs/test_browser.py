"""The browser of the tests loads a page whatever other tests do to the network meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.browser import tab

# For documentation (RFC 5737): no host has it.
_ADDRESS: Final = "192.0.2.1/32"
# More than Chromium has connections to one server (6), so that the others wait for one.
_ASK: Final = """Promise.allSettled(Array.from({ length: 30 }, (_, it) => fetch(`/${it}`)))
  .then((all) => all.filter((it) => it.status === "rejected").length)"""

pytestmark = [pytest.mark.live]


async def _run(*words: str) -> None:
    process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL)
    assert await process.wait() == 0, words


@asynccontextmanager
async def _interface(name: str) -> AsyncIterator[None]:
    await _run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p")
    try:
        await _run("ip", "link", "set", name, "up")
        yield
    finally:
        await _run("ip", "link", "del", name)


async def test_requests_of_a_page_outlast_a_change_of_the_network() -> None:
    asked = asyncio.Event()
    changed = asyncio.Event()

    async def page(_: web.Request) -> web.Response:
        return web.Response(text="here")

    async def late(_: web.Request) -> web.Response:
        asked.set()
        await changed.wait()
        return web.Response()

    app = web.Application()
    app.router.add_get("/", page)
    app.router.add_get("/{number}", late)
    async with TestServer(app) as server, tab() as browser, _interface("tests0"):
        await browser.open(str(server.make_url("/")))
        await browser.until("document.body.innerText === 'here'")
        failed = asyncio.create_task(browser.value(_ASK))
        async with asyncio.timeout(30):
            await asked.wait()
        for _ in range(5):
            await _run("ip", "address", "add", _ADDRESS, "dev", "tests0")
            await _run("ip", "address", "del", _ADDRESS, "dev", "tests0")
        changed.set()
        assert await failed == 0
        assert browser.said == []
