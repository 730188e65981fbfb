"""Gives one process a clock of its own, by Debian's libfaketime, loaded before its libc."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.rigs.debian import unpack
from tests.rigs.prerequisites import PrerequisiteError

# The oldest suite, because the library is loaded beside the machine's own libc.
_SUITE: Final = "bookworm"
# The library leaves files in /dev/shm that are named by the process id, and refuses to start if an
# earlier process with the same id has left some.
_ON_ITS_OWN: Final = 'mount -t tmpfs none /dev/shm && exec env "$@"'
# The variant for threads. The other one keeps the offset of a call in memory that all threads
# share, so a thread may get the true time while another one waits for Python's lock.
_LIBRARY: Final = "usr/lib/*/faketime/libfaketimeMT.so.1"


def ensure() -> Path:
    """The library, from the cache or unpacked now: 5 s and 70 MB. Raises PrerequisiteError."""
    root = unpack(_SUITE, ("faketime",), binary="usr/bin/faketime")
    found = next(root.glob(_LIBRARY), None)
    if found is None:
        raise PrerequisiteError(f"{root} has no {_LIBRARY}: remove it, and it is unpacked again")
    return found


def by_clock(library: Path, offset: Path) -> tuple[str, ...]:
    """The start of a command line that shifts CLOCK_REALTIME by the offset in the file `offset`.

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
