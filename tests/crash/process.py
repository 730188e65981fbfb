"""One scheduler process that dies where it is told to: at one of its writes, or of its decisions.

It is the whole of `scheduler.service.startup.run`. What it writes is seen where it leaves for the
network, so there is no write that is not seen; what it decides is seen where `decide` answers.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from unittest import mock

from docs._make.state_table import cell
from scheduler.config.settings import Settings
from scheduler.core.actions import Action
from scheduler.core.decide import decide
from scheduler.core.facts import Tracked, UnitFacts
from scheduler.reconcile import controller
from scheduler.service import startup
from tests.crash.memory_network import HERE, Host, MemoryTransport, Wire

# The other side of a dead process's connections hears of its end this much later.
LINGER_SECONDS: Final = 0.5
# A write that hangs on its way arrives when the next process has been at work for a while.
LATE_SECONDS: Final = 6.0

_READS: Final = frozenset({"GET"})
_NAMES: Final = re.compile(r"[0-9a-f]{8}[-0-9a-f]*|\d+")


class Moment(StrEnum):
    """When the process dies."""

    BEFORE = "before it is sent"
    LATE = "sent, arriving when the next process is at work"
    UNANSWERED = "sent, not answered yet"
    ANSWERED = "answered, not recorded"
    DECIDED = "decided, nothing done yet"
    ASKED = "a hook of Slurm has asked"
    REPLYING = "the answer to a hook is not sent yet"


AT_QUESTIONS: Final = (Moment.ASKED, Moment.REPLYING)
AROUND_WRITES: Final = (Moment.BEFORE, Moment.LATE, Moment.UNANSWERED, Moment.ANSWERED)


@dataclass(frozen=True, slots=True)
class Death:
    """The process dies at the n-th of its writes, its units' new decisions, or hooks' questions."""

    moment: Moment
    number: int


@dataclass(slots=True)
class Write:
    """One request that is not a reading one, so many seconds after its process began."""

    number: int
    what: str
    at: float


class Process:
    """Begins with `run`; `writes` and `decisions` are what it came to do, in order, `questions`
    what it was asked by hooks.
    """

    def __init__(self, settings: Settings, death: Death | None = None) -> None:
        self.writes: list[Write] = []
        self.decisions: list[str] = []
        self.questions: list[str] = []
        self.host = Host(self, lambda port: _Tap(self, port), watch_asked=lambda _: _Asked(self))
        self.died = asyncio.Event()
        self._settings = settings
        self._death = death
        self._began_at = asyncio.get_running_loop().time()
        self._last: dict[str, str] = {}
        self._steps: set[tuple[str, str, str]] = set()

    async def run(self) -> None:
        """Until it dies, or is cancelled, which is a death too. Raises what the process raises."""
        context = contextvars.copy_context()
        context.run(HERE.set, self.host)
        loop = asyncio.get_running_loop()
        work = loop.create_task(startup.run(self._settings), name="process", context=context)
        death = loop.create_task(self.died.wait(), name="death")
        try:
            await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.die()
            death.cancel()
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    def die(self, linger: float = LINGER_SECONDS) -> None:
        """At this very point: nothing of it goes out any more, whatever still runs of it."""
        if not self.host.dead:
            self.host.die(linger)
            self.died.set()

    @property
    def arrives_late(self) -> str:
        """The write that is carried out after its death, empty where none is."""
        death = self._death
        if death is None or death.moment is not Moment.LATE or death.number >= len(self.writes):
            return ""
        return self.writes[death.number].what

    def passed(self, moment: Moment) -> list[str]:
        """What has come so far of that where such a death can be."""
        if moment in AROUND_WRITES:
            return [it.what for it in self.writes]
        return self.questions if moment in AT_QUESTIONS else self.decisions

    def doom(self, death: Death) -> None:
        """Let it die there, and nowhere else."""
        self._death = death

    def dies(self, moment: Moment, number: int) -> bool:
        """Whether this is the point."""
        return self._death == Death(moment, number)

    def decided(self, facts: UnitFacts, actions: Sequence[Action]) -> None:
        """A unit was looked at. A step from one decision to the next counts once for each unit."""
        now = f"{_situation(facts)}: {cell(actions)}"
        before = self._last.get(facts.key, "")
        step = (facts.key, before, now)
        if self.host.dead or before == now:
            return
        self._last[facts.key] = now
        if step in self._steps:
            return
        self._steps.add(step)
        self.decisions.append(now)
        if self.dies(Moment.DECIDED, len(self.decisions) - 1):
            self.die()

    def asked(self, method: str, path: str) -> int | None:
        """A question comes in: its number; None where it is none of a hook's."""
        if method in _READS:
            return None
        self.questions.append(_NAMES.sub("*", path))
        return len(self.questions) - 1

    def began(self, method: str, path: str) -> Write | None:
        """A request begins to be written; None for one that only reads."""
        if method in _READS or self.host.dead:
            return None
        at = asyncio.get_running_loop().time() - self._began_at
        write = Write(len(self.writes), f"{method} {_NAMES.sub('*', path)}", at)
        self.writes.append(write)
        return write


@contextmanager
def observed_decisions() -> Iterator[None]:
    """Let each process see what its own `decide` answers."""

    def decide_and_tell(facts: UnitFacts, now: float) -> tuple[Action, ...]:
        actions = decide(facts, now)
        host = HERE.get()
        if host is not None:
            host.owner.decided(facts, actions)
        return actions

    with mock.patch.object(controller, "decide", decide_and_tell):
        yield


def _situation(facts: UnitFacts) -> str:
    pods = ", ".join(pod.stage.value for pod in facts.pods) or "no pod"
    job = type(facts.job).__name__
    if isinstance(facts.job, Tracked) and facts.job.state is not None:
        state = facts.job.state
        job = f"{state.base}{''.join(f' {flag}' for flag in sorted(state.flags))}"
    return f"{pods} / {job}"


class _Tap(Wire):
    """Follows the requests of one connection, one after the other."""

    def __init__(self, process: Process, port: int) -> None:
        self.end: MemoryTransport
        self._process = process
        self._port = port
        self._body_left = 0
        self._write: Write | None = None
        self._held: list[bytes] = []

    def sent(self, data: bytes) -> bytes:
        process, opened = self._process, self._body_left == 0
        if opened:
            self._write = process.began(*self._opened(data))
        else:
            self._body_left -= len(data)
        assert self._body_left >= 0, "requests are not sent one by one"
        if self._write is None:
            return b"" if process.host.dead else data
        return self._at_a_write(data, self._write, opened=opened)

    def _at_a_write(self, data: bytes, write: Write, *, opened: bool) -> bytes:
        process = self._process
        if opened and process.dies(Moment.BEFORE, write.number):
            process.die()
            return b""
        if process.dies(Moment.LATE, write.number):
            self._held.append(data)
            if not self._body_left:
                self._hold()
            return b""
        if process.dies(Moment.UNANSWERED, write.number) and not self._body_left:
            process.die()
        return data

    def _hold(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(LATE_SECONDS, self.end.peer.arrive, b"".join(self._held))
        self._process.die(LATE_SECONDS + LINGER_SECONDS)

    def _opened(self, data: bytes) -> tuple[str, str]:
        head, end, body = data.partition(b"\r\n\r\n")
        assert end, f"a request in pieces: {data[:100]!r}"
        lines = head.decode("latin-1").split("\r\n")
        fields = {
            name.lower(): value.strip()
            for name, _, value in (it.partition(":") for it in lines[1:])
        }
        assert "transfer-encoding" not in fields, "requests of known length are expected"
        self._body_left = int(fields.get("content-length", 0)) - len(body)
        method, path, _version = lines[0].split(" ")
        return method, path.partition("?")[0]

    def received(self, data: bytes) -> bytes:
        write = self._write
        if write is not None and self._process.dies(Moment.ANSWERED, write.number):
            self._process.die()
            return b""
        return data


class _Asked(Wire):
    """Follows the one question of a connection to the process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._number: int | None = None
        self._fresh = True

    def received(self, data: bytes) -> bytes:
        if self._fresh:
            self._fresh = False
            method, path, _ = data.decode("latin-1").split(" ", 2)
            self._number = self._process.asked(method, path)
        return self._unless_it_dies(Moment.ASKED, data)

    def sent(self, data: bytes) -> bytes:
        return self._unless_it_dies(Moment.REPLYING, data)

    def _unless_it_dies(self, moment: Moment, data: bytes) -> bytes:
        if self._number is not None and self._process.dies(moment, self._number):
            self._process.die()
        return b"" if self._process.host.dead else data
