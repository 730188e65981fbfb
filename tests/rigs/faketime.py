"""A time of day of one process's own: Debian's libfaketime, unpacked and loaded before its libc."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.rigs.debian import unpack
from tests.rigs.prerequisites import PrerequisiteError

# The oldest suite, because the library is loaded beside the machine's own libc.
_SUITE: Final = "bookworm"
# The library names what it keeps in /dev/shm by the process id, leaves it there, and refuses to
# start where a former process of that id has left some.
_ON_ITS_OWN: Final = 'mount -t tmpfs none /dev/shm && exec env "$@"'
# The one for processes with threads. The other keeps the offset of a call where all threads share
# it: while one waits for Python's lock, another is now and then told the true time.
_LIBRARY: Final = "usr/lib/*/faketime/libfaketimeMT.so.1"


def ensure() -> Path:
    """The library, from the cache or unpacked now: 5 s and 70 MB. Raises PrerequisiteError."""
    root = unpack(_SUITE, ("faketime",), binary="usr/bin/faketime")
    found = next(root.glob(_LIBRARY), None)
    if found is None:
        raise PrerequisiteError(f"{root} has no {_LIBRARY}: remove it, and it is unpacked again")
    return found


def by_clock(library: Path, offset: Path) -> tuple[str, ...]:
    """What a command begins with that goes by a CLOCK_REALTIME off by what the file `offset` says.

    CLOCK_MONOTONIC and CLOCK_BOOTTIME stay as they are, as with a clock that is set. Times of files
    are not changed either. Python's `time.sleep` must not be used there: the library takes the
    monotonic time until which it sleeps for a time of day (measured on 0.9.10).
    """
    settings = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": offset,
        "FAKETIME_NO_CACHE": 1,
        "FAKETIME_DONT_FAKE_MONOTONIC": 1,
        "NO_FAKE_STAT": 1,
    }
    given = (f"{name}={value}" for name, value in settings.items())
    return ("unshare", "--mount", "sh", "-c", _ON_ITS_OWN, "sh", *given)
