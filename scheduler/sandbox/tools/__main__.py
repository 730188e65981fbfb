"""`python -m scheduler.sandbox.tools URL TOKEN_FILE COMMAND ...`: one command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from scheduler.sandbox.tools import sbatch, scancel, sinfo, squeue
from scheduler.sandbox.tools.rest import Rest, RestError

_COMMANDS: Final[Mapping[str, Callable[[Rest, Sequence[str]], int]]] = {
    "sbatch": sbatch.run,
    "scancel": scancel.run,
    "sinfo": sinfo.run,
    "squeue": squeue.run,
}


def main() -> int:
    """Carry out one command; returns the exit status."""
    url, token_file, command, *words = sys.argv[1:]
    if sys.stdout is None:  # such as by `>&-`
        sys.stderr.write(f"{command}: error: standard output is closed\n")
        return 1
    try:
        token = Path(token_file).read_text(encoding="utf-8").strip()
        return _COMMANDS[command](Rest(url, token), words)
    except BrokenPipeError:  # such as `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (RestError, OSError, ValueError) as error:
        sys.stderr.write(f"{command}: error: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
