"""A real headless Chromium, driven by its own protocol (DevTools) over one WebSocket."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import aiohttp
import pytest
from yarl import URL

from tests.rigs import chromium
from tests.rigs.prerequisites import PrerequisiteError
from tests.support.own_network import OwnNetwork, own_network

_FLAGS: Final = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-proxy-server", "--hide-scrollbars"),
)
_LISTENS: Final = re.compile(rb"DevTools listening on ws://(127\.0\.0\.1:\d+)/")
_SECONDS: Final = 45.0
_UNTIL: Final = """new Promise((resolve) => {
  const look = () => { if (%s) resolve(true); else setTimeout(look, 100); };
  look();
})"""


class Tab:
    """One tab. `said` is what its console says: errors, warnings, and what did not load."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, network: OwnNetwork) -> None:
        self._socket = socket
        self._network = network
        self._numbers = itertools.count(1)
        self.said: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Give a command of the protocol, and return its result."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(_SECONDS):
            while True:
                message = await self._socket.receive_json()
                if message.get("id") == number:
                    assert "error" not in message, message["error"]
                    return dict(message["result"])
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        if message["method"] == "Log.entryAdded" and parameters["entry"]["level"] != "verbose":
            self.said.append(str(parameters["entry"]["text"]))
        elif message["method"] == "Runtime.exceptionThrown":
            self.said.append(json.dumps(parameters["exceptionDetails"])[:2000])

    async def open(self, url: str) -> None:
        """Go to the page. Its server has an IPv4 address, and is the only one that is reached."""
        place = URL(url)
        assert place.host is not None
        assert place.port is not None
        await self._network.let_in(place.host, place.port)
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """What the JavaScript expression gives there."""
        found = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until the expression is true."""
        try:
            await self.value(_UNTIL % expression)
        except TimeoutError:
            text = await self.value("document.body.innerText")
            raise AssertionError(f"not true: {expression}\n{self.said}\n{text}") from None

    async def press(self, key: str) -> None:
        """Press a key that has a name, such as ArrowDown or Enter."""
        arrows = {"ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}
        codes = arrows | {"End": 35, "Enter": 13, "Escape": 27}
        for kind in ("rawKeyDown", "keyUp"):
            # A form is sent by the character, not by the key.
            text = {"text": "\r"} if key == "Enter" and kind == "rawKeyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent",
                **text,
                type="keyDown" if text else kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
            )

    async def size(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of the window in pixels, and which colours its user prefers."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, path: Path) -> None:
        """Write what is seen, as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(found["data"]))


@asynccontextmanager
async def tab() -> AsyncIterator[Tab]:
    """A tab of a browser of its own, which ends with it. Needs root. Skips the test if Chromium
    cannot be installed.
    """
    try:
        program = await asyncio.to_thread(chromium.ensure)
    except (PrerequisiteError, OSError) as missing:
        pytest.skip(f"Chromium cannot be installed here: {missing}")
    async with own_network() as network, _browser(program, network) as found:
        yield found


@asynccontextmanager
async def _browser(program: str, network: OwnNetwork) -> AsyncIterator[Tab]:
    folder = mkdtemp(prefix="browser-")
    process = await asyncio.create_subprocess_exec(
        *(*network.enter, program, *_FLAGS, f"--user-data-dir={folder}", "about:blank"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(_SECONDS):
            while (found := _LISTENS.search(await process.stderr.readline())) is None:
                assert not process.stderr.at_eof(), "the browser has ended"
        connector = aiohttp.TCPConnector(socket_factory=lambda _: network.socket())
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get(f"http://{found[1].decode()}/json/list") as answer:
                pages = [it for it in await answer.json() if it["type"] == "page"]
            url = pages[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(url, max_msg_size=2**26) as socket:
                yield Tab(socket, network)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)
