"""The programs `slurm-pod-scheduler` and `kubectl-slurm`.

Ctrl-C is caught before a command is imported, because importing one takes up to a second.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    _open_stderr()
    try:
        from scheduler.commands import every  # noqa: PLC0415 - see above

        return every.run_line(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130


def plugin() -> int:
    """Run one command of `kubectl slurm`; returns the exit status."""
    _open_stderr()
    try:
        from scheduler.commands import views  # noqa: PLC0415 - see above

        return views.plugin()
    except KeyboardInterrupt:
        return 130


def _open_stderr() -> None:
    """Who closed it, such as by `2>&-`, wants no messages; without it each would be an error."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end


if __name__ == "__main__":
    sys.exit(main())
