"""Large blocks of memory go back to the system when they are freed."""

from __future__ import annotations

import platform
import subprocess
import sys
import textwrap

import pytest

_SCRIPT = """
import sys
from pathlib import Path
from scheduler.observe.heap import separate_large_blocks

def rss_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024

if sys.argv[1] == "fixed":
    separate_large_blocks()
del (first := [bytes(16 << 20)])[:]  # glibc would take later ones from the heap
before = rss_mib()
blocks = [b"x" * (1 << 20) for _ in range(100)]
del blocks[:-1]  # the last one keeps the heap from shrinking
print(rss_mib() - before)
"""


def kept_mib(how: str) -> int:
    """How much memory a process keeps of 99 MiB that it has freed."""
    command = (sys.executable, "-c", textwrap.dedent(_SCRIPT), how)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this C library is not glibc")
def test_freed_blocks_go_back_to_the_system() -> None:
    assert kept_mib("fixed") < 10 < kept_mib("as it is")
