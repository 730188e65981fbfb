"""Standard output of commands, which whoever reads it may close, and a disk may be full."""

from __future__ import annotations

import os
import sys


def write(text: str) -> None:
    """Write to standard output, also to a reader that leaves early. Ends the program with one line
    if that cannot be written.
    """
    if sys.stdout is None:  # it was closed, such as by `>&-`
        sys.exit("slurm-pod-scheduler: standard output is closed")
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    except BrokenPipeError:  # such as `| head`; what is left to print goes nowhere
        drop_output()
    except OSError as error:
        drop_output()
        sys.exit(f"slurm-pod-scheduler: the output cannot be written: {error.strerror}")


def drop_output() -> None:
    """Send what is left to nowhere, because whoever read it has gone, such as `| head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
