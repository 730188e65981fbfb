"""The hooks API over HTTP: who may ask what, and how much; no route changes anything.

Slurm runs the scripts in `deploy/slurm`: `prolog-slurmctld.sh` asks /v1/guard before a job starts,
`epilog-slurmctld.sh` sends a hint when it ends.

Bodies are forms (`application/x-www-form-urlencoded`), which a shell writes without quoting rules
of its own. An answer is a status for scripts, and one line of text for people. 200: go on. 409: a
pod is still in the way. 503: not known. 429: too many requests wait already; of the guard it also
says that a pod is in the way. Each connection serves one request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import hdrs, web

from scheduler.hooks.guard import Guard, HandoverAnswer, HandoverVerdict
from scheduler.hooks.secrets import Secrets
from scheduler.observe.metrics import Metrics
from slurmapi import HostlistError, expand_hostlist

LARGEST_BODY: Final = 256 * 1024
"""Enough for all node names that a hook can be given: Linux limits a variable to 128 KiB, and a
comma or bracket takes three bytes in a form. A question that is too long ends the guard of its job.
"""
_LARGEST_OTHER_BODY: Final = 1024
"""For requests without node names, which users of jobs may make, too."""
LONGEST_WAIT_SECONDS: Final = 50.0
"""Less than the minute after which proxies usually close a silent connection."""
BODY_SECONDS: Final = 5.0
_MOST_FIELDS: Final = 8
_MOST_DIGITS: Final = 10
# Requests of one kind that may wait at the same time. The kinds are counted separately, so that a
# thousand placeholders that end at once leave room for the guard.
MOST_WAITS: Final = 512
# The user of a job has the token of its unit, and must not use up the waits of everybody else.
MOST_WAITS_OF_A_UNIT: Final = 4
# For a question that may not wait: less than strangers have.
_LOOK_SECONDS: Final = 2.0
_MOST_PODS_NAMED: Final = 20

_STATUS: Final[Mapping[HandoverAnswer, int]] = {
    HandoverAnswer.FREE: 200,
    HandoverAnswer.FREED: 200,
    HandoverAnswer.BUSY: 409,
    HandoverAnswer.UNKNOWN: 503,
}
_EVENTS: Final = frozenset({"started", "ended"})


class BadRequestError(Exception):
    """A field is missing or invalid. The text has its name, its value and what is accepted."""


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """A request waits for its answer `wait_seconds` at most, and for its body `body_seconds`. At
    most `waits` requests of one kind wait at the same time.
    """

    wait_seconds: float
    waits: int
    body_seconds: float


CALLER_LIMITS: Final = CallerLimits(LONGEST_WAIT_SECONDS, MOST_WAITS, BODY_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNews:
    """What hooks say about the job with an id: `begins` if Slurm has given it nodes and asks the
    guard, `answered` if the guard's answer is on its way, `changed` if it has ended, for instance.
    """

    begins: Callable[[int], None]
    answered: Callable[[int], None]
    changed: Callable[[int], None]


class HooksApi:
    """The routes. `news` is what hooks say about jobs, and `beat` is called with each question to
    the guard. `waits_on` gets the connection of an authenticated caller who waits for an answer.

    While another process leads (`leads` is false), this process still answers the guard, because
    that needs only knowledge of the pods. A hint would be lost here, and a placeholder's
    question is also a hint that its pod is about to change. So the callers of both are asked to try
    again, until they reach the leader.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        secrets: Secrets,
        news: JobNews,
        beat: Callable[[], None],
        leads: Callable[[], bool],
        waits_on: Callable[[object], None],
        metrics: Metrics,
        clock: Callable[[], float],
        limits: CallerLimits,
    ) -> None:
        self._guard = guard
        self._secrets = secrets
        self._news = news
        self._beat = beat
        self._leads = leads
        self._waits_on = waits_on
        self._metrics = metrics
        self._clock = clock
        self._limits = limits
        self._waits = {"guard": 0, "gone": 0}
        self._waits_of: Counter[str] = Counter()

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._one_request])
        app.router.add_post("/v1/guard", self._ask_guard)
        app.router.add_post("/v1/units/{unit}/gone", self._ask_gone)
        app.router.add_post("/v1/hints", self._hint)
        return app

    @web.middleware
    async def _one_request(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        try:
            response = await handler(request)
        except BadRequestError as error:
            response = _said(400, str(error))
        except TimeoutError:
            response = _said(408, "the body did not come in time")
        except web.HTTPException as error:
            response = _said(error.status, error.reason)
        response.force_close()
        return response

    async def _ask_guard(self, request: web.Request) -> web.Response:
        await self._admit(request)
        fields = await self._fields(request)
        job_id, nodes = _job_id(fields), _nodes(fields)
        seconds = self._seconds(fields)
        self._beat()
        self._news.begins(job_id)
        try:
            if self._is_full("guard"):
                return await self._looked(job_id, nodes, seconds=min(seconds, _LOOK_SECONDS))
            return await self._waited(
                request, "guard", lambda: self._guard.clear(job_id, nodes, seconds=seconds)
            )
        finally:
            self._news.answered(job_id)

    async def _looked(self, job_id: int, nodes: Sequence[str], *, seconds: float) -> web.Response:
        """Answer at once, because too many questions wait already. Jobs whose nodes are free start
        all the same: those that wait may all be of one user.

        Such a caller keeps the place and the time of a stranger.
        """
        verdict = await self._guard.clear(job_id, nodes, seconds=seconds, waits=False)
        if verdict.answer is HandoverAnswer.BUSY:
            return self._too_many("guard", self._waits["guard"])
        self._metrics.hook_seconds.labels("guard", verdict.answer).observe(0.0)
        return _said(_STATUS[verdict.answer], _verdict_text(verdict))

    async def _ask_gone(self, request: web.Request) -> web.Response:
        unit = request.match_info["unit"]
        await self._admit(request, unit=unit)
        seconds = self._seconds(await self._fields(request, most=_LARGEST_OTHER_BODY))
        if not self._leads():
            return _said(200, "gone") if await self._guard.is_over(unit) else _not_the_leader()
        if self._waits_of[unit] >= MOST_WAITS_OF_A_UNIT:
            return self._too_many("gone", self._waits_of[unit])
        self._waits_of[unit] += 1
        try:
            return await self._waited(
                request, "gone", lambda: self._guard.gone(unit, seconds=seconds)
            )
        finally:
            self._waits_of[unit] -= 1
            self._waits_of += Counter()  # this drops entries that are 0

    async def _hint(self, request: web.Request) -> web.Response:
        await self._admit(request)
        fields = await self._fields(request, most=_LARGEST_OTHER_BODY)
        if fields.get("event") not in _EVENTS:
            raise BadRequestError(f"event: {_quoted(fields.get('event'))}: expected started, ended")
        job_id = _job_id(fields)
        if not self._leads():
            return _not_the_leader()
        self._news.changed(job_id)
        return _said(202, "heard")

    async def _admit(self, request: web.Request, *, unit: str | None = None) -> None:
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        token = token.strip()
        known = scheme.lower() == "bearer" and (
            await self._secrets.admits(token)
            if unit is None
            else await self._secrets.admits_job(token, unit=unit)
        )
        if not known:
            raise web.HTTPUnauthorized

    async def _fields(self, request: web.Request, *, most: int = LARGEST_BODY) -> dict[str, str]:
        async with asyncio.timeout(self._limits.body_seconds):
            raw = await request.clone(client_max_size=most).read()
        try:
            pairs = parse_qsl(
                raw.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=bool(raw),  # an empty body is allowed
                max_num_fields=_MOST_FIELDS,
                errors="strict",
            )
        except ValueError:
            raise BadRequestError("body: expected a form, such as job=4711&nodes=n[1-2]") from None
        return dict(pairs)

    def _seconds(self, fields: Mapping[str, str]) -> float:
        """How long to wait, in seconds: what the caller asks for, up to the limit."""
        text = fields.get("wait", "0")
        if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
            raise BadRequestError(f"wait: {_quoted(text)}: expected whole seconds")
        return min(max(float(text), 1.0), self._limits.wait_seconds)

    async def _waited(
        self, request: web.Request, kind: str, ask: Callable[[], Awaitable[HandoverVerdict]]
    ) -> web.Response:
        if self._is_full(kind):
            return self._too_many(kind, self._waits[kind])
        self._waits_on(request.protocol)
        self._waits_now(kind, +1)
        began = self._clock()
        try:
            verdict = await ask()
        finally:
            self._waits_now(kind, -1)
        self._metrics.hook_seconds.labels(kind, verdict.answer).observe(self._clock() - began)
        return _said(_STATUS[verdict.answer], _verdict_text(verdict))

    def _is_full(self, kind: str) -> bool:
        return self._waits[kind] >= self._limits.waits

    def _too_many(self, kind: str, waits: int) -> web.Response:
        self._metrics.hook_seconds.labels(kind, "refused").observe(0.0)
        return _said(429, f"{waits} wait already, ask again in a moment")

    def _waits_now(self, kind: str, more: int) -> None:
        self._waits[kind] += more
        self._metrics.hook_waits.labels(kind).set(self._waits[kind])


def _not_the_leader() -> web.Response:
    return _said(503, "another process leads, ask again")


def _verdict_text(verdict: HandoverVerdict) -> str:
    """The verdict for people."""
    if not verdict.pods:
        return verdict.answer.value
    more = len(verdict.pods) - _MOST_PODS_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f"{verdict.answer}: {', '.join(verdict.pods[:_MOST_PODS_NAMED])}{rest}"


def _said(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")


def _job_id(fields: Mapping[str, str]) -> int:
    text = fields.get("job", "")
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS) or int(text) < 1:
        raise BadRequestError(f"job: {_quoted(text)}: expected a job id")
    return int(text)


def _nodes(fields: Mapping[str, str]) -> tuple[str, ...]:
    text = fields.get("nodes", "")
    if not text:
        raise BadRequestError(f"nodes: {_quoted(text)}: expected a hostlist, such as n[1-2]")
    try:
        return expand_hostlist(text)
    except HostlistError as error:
        raise BadRequestError(f"nodes: {error}") from None


def _quoted(value: str | None) -> str:
    return repr(value if value is None else value[:40])
