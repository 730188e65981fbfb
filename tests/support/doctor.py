"""Calls the commands `doctor` and `nodes` as people do: a process, its report and its status."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support import forked
from tests.support.cluster import Servers

_PROGRESS: Final = re.compile(r"slurm-pod-scheduler \w+: waiting for ")
# It takes a second on an idle machine; only a call that hangs takes this long.
_ENDS_SECONDS: Final = 150.0


@dataclass(frozen=True)
class Report:
    """What one call has printed, without its progress, and its exit status."""

    status: int
    out: str
    progress: str

    def of(self, check: str) -> list[tuple[str, str]]:
        """Severity and text of each finding of the check, of a report in JSON."""
        found: list[dict[str, Any]] = json.loads(self.out)["findings"]
        return [(it["severity"], it["what"]) for it in found if it["check"] == check]

    def only(self, check: str) -> tuple[str, str]:
        """The only finding of the check."""
        (found,) = self.of(check)
        return found


class Doctor:
    """Calls it, or a `command` that asks as it does, with what it prints in `folder`."""

    def __init__(self, folder: Path, *, command: str = "doctor") -> None:
        self._folder = folder
        self._command = command

    async def __call__(self, servers: Servers, *words: str) -> Report:
        """Call it with the settings of a scheduler of these servers. `words` override them."""
        log = self._folder / f"{self._command}-{secrets.token_hex(4)}.log"
        arguments = (
            self._command,
            f"--kubeconfig={servers.kubeconfig}",
            f"--slurm-auth-token-file={servers.slurm_token_file}",
            f"--slurm-api-base={servers.slurm_url}",
            "--health-probe-bind-address=0",  # another scheduler may listen on this machine
            *words,
        )
        process = forked.spawn(arguments, log=log)
        try:
            await asyncio.to_thread(process.join, _ENDS_SECONDS)
            assert process.exitcode is not None, "it has not ended"
        finally:
            process.kill()
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
        progress = [it for it in lines if _PROGRESS.match(it)]
        out = "".join(it for it in lines if it not in progress)
        assert "Traceback" not in out
        return Report(process.exitcode, out, "".join(progress))
