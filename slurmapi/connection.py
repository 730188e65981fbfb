"""One connection to slurmrestd: the bytes that come, the request that goes, and when both must end.

There is no timer for each wait. A connection has one timer, which looks from time to time whether
the moment has passed that whoever waits has noted. Timers for each wait took 0.06 ms of CPU a
request (measured in a burst on the sandbox).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final, cast

from slurmapi.http1 import PIECE_BYTES, CutShort, Exchange, Response

IDLE_SECONDS: Final = 10.0
# A peer that closes the connection now and then does so while it is idle. After this time the event
# loop turns before the connection is used, so that it notices an end that has arrived already.
_TRUSTED_SECONDS: Final = 0.1
# SO_LINGER switched on with zero seconds, and switched off.
_NO_LINGER: Final = struct.pack("ii", 1, 0)
_USUAL_LINGER: Final = struct.pack("ii", 0, 0)


class SlurmConnection(asyncio.Protocol):
    """One open connection, for one request at a time.

    The kernel drops unsent bytes when the connection or the process ends, and `carry` waits until
    the kernel has sent all: so no byte is sent late.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._unread = bytearray()
        self._paused = False
        self._ended = False
        self._error: Exception | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._sent: asyncio.Future[None] | None = None
        self._silence = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._late = False
        self._idle_since: float | None = None

    async def carry(
        self, exchange: Exchange, *, sending: float, silence: float
    ) -> tuple[Response, bool]:
        """Send the request and read the response. The flag says whether the connection can be used
        again. Raises CutShort, SlurmGarbled, and TimeoutError: if the request was not completely
        sent after `sending` seconds, or if the peer was silent for `silence` seconds.
        """
        self._silence, self._idle_since = silence, None
        try:
            self._transport.write(exchange.raw)
            if self._sent is not None:
                self._within(sending)
                await self._sent
            return await exchange.read(self)
        except TimeoutError:
            raise
        except OSError as error:
            raise CutShort(answered=False) from error

    async def read(self, most: int) -> bytes:
        """The next bytes, at most so many; none if the peer has ended the connection. Raises
        TimeoutError after too long a silence, and OSError.
        """
        if not self._unread and not self._ended:
            self._within(self._silence)
            self._arrival = self._loop.create_future()
            await self._arrival
        if self._unread:
            data = bytes(self._unread[:most])
            del self._unread[:most]
            if self._paused and len(self._unread) < PIECE_BYTES:
                self._paused = False
                self._transport.resume_reading()
            return data
        if self._late:
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return b""

    def rest(self) -> None:
        """Note that no request is under way. The connection is closed after IDLE_SECONDS."""
        self._idle_since = self._loop.time()
        self._within(IDLE_SECONDS)

    async def usable(self) -> bool:
        """Whether the idle connection is still open and holds no byte that nobody asked for."""
        if self._clean() and self._idle_for() > _TRUSTED_SECONDS:
            for _ in range(2):  # in the first turn the end is found, in the second it is handled
                await asyncio.sleep(0)
        return self._clean()

    def close(self) -> None:
        """Close the idle connection, as an ordinary end that is no reset."""
        if not self._transport.is_closing():
            self._set_linger(_USUAL_LINGER)
        self.abort()

    def abort(self) -> None:
        """Close at once, and drop unsent and unread bytes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, as all below."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=0)
        self._set_linger(_NO_LINGER)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes. No more are read while more than PIECE_BYTES wait."""
        self._unread += data
        if len(self._unread) > PIECE_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def pause_writing(self) -> None:
        """Some bytes could not be sent at once."""
        self._sent = self._loop.create_future()

    def resume_writing(self) -> None:
        """All bytes are sent."""
        self._all_sent()

    def eof_received(self) -> None:
        """The peer sends no more; the connection is closed."""
        self._ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended, by whichever side."""
        self._ended, self._error = True, error
        self._wake()
        self._all_sent()

    def _clean(self) -> bool:
        return not (self._ended or self._unread or self._transport.is_closing())

    def _idle_for(self) -> float:
        return 0.0 if self._idle_since is None else self._loop.time() - self._idle_since

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _all_sent(self) -> None:
        if self._sent is not None and not self._sent.done():
            self._sent.set_result(None)
        self._sent = None

    def _within(self, seconds: float) -> None:
        """End the connection in so many seconds, unless this is called again before."""
        self._due = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._due:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due, self._look_at_clock)

    def _look_at_clock(self) -> None:
        if self._loop.time() < self._due:
            self._arm()
            return
        if self._idle_since is not None:
            self.close()
            return
        self._late = True
        self.abort()

    def _set_linger(self, value: bytes) -> None:
        # A transport without a kernel socket buffers nothing there.
        if (sock := self._transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, value)
