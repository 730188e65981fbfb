"""What a proxy does to requests: rules that choose faults, hooks, and a journal of requests."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.faults.calls import Call, Server

if TYPE_CHECKING:
    from tests.faults.exchange import Exchange

_REMEMBERED: Final = 4

Fault = Callable[["Exchange"], Awaitable[None]]
"""Deals with one request in place of the plain way, which is `exchange.relay()`."""
Hook = Callable[["Moment", "Exchange"], Awaitable[None]]
"""Called at each moment of each exchange, in the proxy's loop; the exchange waits for it."""


class Moment(StrEnum):
    """A point on a request's way through the proxy, at which hooks are called."""

    ARRIVED = "the server has not seen it"
    ACTED = "the server has answered, the client does not know"
    ANSWERED = "the client has the answer"


@dataclass(slots=True)
class Rule:
    """Play `fault` on the `nth` request that matches and on those after it, `times` in all.

    A field that is None matches everything; `times` None means without end.
    """

    fault: Fault
    server: Server | None = None
    call: str | None = None
    nth: int = 1
    times: int | None = 1
    matched: int = 0
    played: int = 0

    def takes(self, exchange: Exchange) -> bool:
        """Whether to play the fault on this request; counts the requests that match."""
        if self.server not in {None, exchange.server} or self.call not in {None, exchange.name}:
            return False
        self.matched += 1
        due = self.matched >= self.nth and (self.times is None or self.played < self.times)
        self.played += due
        return due


@dataclass(frozen=True, slots=True)
class Entry:
    """One request; `write` is its number among the writes to both servers, from 1."""

    server: Server
    name: str
    method: str
    target: str
    write: int | None
    fault: str | None


@dataclass(slots=True)
class Play:
    """Shared by the proxies of both servers. The first rule that takes a request has it."""

    rules: list[Rule] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    journal: list[Entry] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Requests that the table of calls lacks."""
    failures: list[str] = field(default_factory=list)
    """What went wrong in the proxy itself, or in a hook."""
    writes: int = 0
    _former: dict[tuple[Server, str], deque[bytes]] = field(default_factory=dict)

    def add(
        self,
        fault: Fault,
        *,
        server: Server | None = None,
        call: str | None = None,
        nth: int = 1,
        times: int | None = 1,
    ) -> Rule:
        """Play this fault from now on; the returned rule counts how often it was played."""
        rule = Rule(fault, server, call, nth, times)
        self.rules.append(rule)
        return rule

    def heal(self) -> None:
        """End all faults. Connections that are silent already stay silent, as lost ones do."""
        self.rules.clear()

    def count(self, call: Call | None) -> int | None:
        """The number of this write, None for a read."""
        if call is None or not call.writes:
            return None
        self.writes += 1
        return self.writes

    def taken(self, exchange: Exchange) -> Fault | None:
        """The fault for this request, if any; notes the request in the journal."""
        fault = next((rule.fault for rule in list(self.rules) if rule.takes(exchange)), None)
        head = exchange.request
        name = None if fault is None else getattr(fault, "__name__", str(fault))
        entry = Entry(
            exchange.server, exchange.name, head.method, head.target, exchange.write, name
        )
        self.journal.append(entry)
        return fault

    async def call_hooks(self, moment: Moment, exchange: Exchange) -> None:
        """Call the hooks."""
        for hook in list(self.hooks):
            await hook(moment, exchange)

    def remember(self, exchange: Exchange, body: bytes) -> None:
        """Keep a list, so that it can be sent later as a stale one."""
        self._former.setdefault(_place(exchange), deque(maxlen=_REMEMBERED)).append(body)

    def former(self, exchange: Exchange) -> bytes | None:
        """A list that was sent for the same path some answers ago."""
        kept = self._former.get(_place(exchange))
        return kept[0] if kept else None

    def seen(self) -> Counter[str]:
        """The number of requests of each kind."""
        return Counter(entry.name for entry in self.journal)


def _place(exchange: Exchange) -> tuple[Server, str]:
    return exchange.server, exchange.request.target.partition("?")[0]
