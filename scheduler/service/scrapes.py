"""The text of /metrics, for all who ask at about the same time.

Anybody who reaches the port may ask, as often as they like, and making the text takes up to some
tens of milliseconds. So those who wait share one text, and the loop rests after each.
"""

from __future__ import annotations

import asyncio
import gzip
from typing import Final, NamedTuple

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder, gzip_accepted

from groundwork.rests import Rests
from scheduler.listen.sending import send

_LEVEL: Final = 5
_OPEN_METRICS: Final = "application/openmetrics-text"


class _Form(NamedTuple):
    """A form of the text. There are four, whatever callers ask for."""

    open_metrics: bool
    zipped: bool


class _Text(NamedTuple):
    kind: str
    body: bytes


class Scrapes:
    """Makes the text. Each caller gets one that was begun after it has asked."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._rests = Rests()
        self._awaited: dict[_Form, asyncio.Task[_Text]] = {}
        self.made = 0
        """How many texts were made."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        form = _form_of(request)
        text = await self._text(form)
        headers = {hdrs.CONTENT_TYPE: text.kind}
        if form.zipped:
            headers[hdrs.CONTENT_ENCODING] = "gzip"
        return await send(request, web.StreamResponse(headers=headers), text.body)

    async def _text(self, form: _Form) -> _Text:
        task = self._awaited.get(form)
        if task is None:
            task = asyncio.create_task(self._make(form), name="metrics")
            self._awaited[form] = task
        return await asyncio.shield(task)  # a caller that leaves does not end it for the others

    async def _make(self, form: _Form) -> _Text:
        async with self._rests.next():
            del self._awaited[form]
            encode, kind = choose_encoder(_OPEN_METRICS if form.open_metrics else "")
            body = encode(self._registry)
            self.made += 1
        if form.zipped:
            body = await asyncio.to_thread(gzip.compress, body, _LEVEL)
        return _Text(kind, body)


def _form_of(request: web.Request) -> _Form:
    """What the caller accepts. Our names are the same in all versions and escapings."""
    accepted = ",".join(request.headers.getall(hdrs.ACCEPT, [])).split(",")
    encodings = ",".join(request.headers.getall(hdrs.ACCEPT_ENCODING, []))
    return _Form(any(map(_is_open_metrics, accepted)), gzip_accepted(encodings))


def _is_open_metrics(accepted: str) -> bool:
    """Whether it is a version of OpenMetrics that is as ours."""
    kind, *parameters = (it.strip() for it in accepted.split(";"))
    versions = [it for it in parameters if it.startswith("version=")]
    return kind == _OPEN_METRICS and all(it.startswith("version=1.") for it in versions)
