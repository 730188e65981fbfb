"""The scheduler as its users run it: a process of its own, with flags, probes and a log file."""

from __future__ import annotations

import http.client
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, Self

from prometheus_client.parser import text_string_to_metric_families

from tests.support import forked
from tests.support.cluster import Servers
from tests.support.ports import free_ports

SCHEDULER_NAME: Final = "slurm-scheduler"
# A start takes two seconds of CPU time, which can take long on a busy machine.
_READY_SECONDS: Final = 180.0
_STOP_SECONDS: Final = 20.0
# Only for a process that hangs: on a crowded machine one may stand still for five seconds.
_ANSWER_SECONDS: Final = 20.0


class Launched(Protocol):
    """A process with the interface of multiprocessing."""

    @property
    def pid(self) -> int | None:
        """The process id; None before the start."""

    @property
    def exitcode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""

    def join(self, timeout: float) -> None:
        """Wait until it has ended, at most `timeout` seconds."""

    def kill(self) -> None:
        """End it (SIGKILL)."""


class Launch(Protocol):
    """Runs `slurm-pod-scheduler ARGUMENTS`; its output is appended to `log`."""

    def __call__(self, arguments: Sequence[str], *, log: Path) -> Launched: ...


class SchedulerProcess:
    """`slurm-pod-scheduler run` against `cluster`; a context manager that starts and ends it.

    The log lies in `folder` and continues over restarts. `flags` are appended to the command line
    and override flags that are already there. `launch` starts each of its processes.
    """

    def __init__(
        self,
        cluster: Servers,
        *,
        folder: Path,
        flags: tuple[str, ...] = (),
        launch: Launch = forked.spawn,
    ) -> None:
        self._probe_port, self._metrics_port, self._hooks_port = free_ports(3)
        self.log = folder / "scheduler.log"
        self._launch = launch
        self._process: Launched | None = None
        self._access = (
            f"--kubeconfig={cluster.kubeconfig}",
            f"--slurm-auth-token-file={cluster.slurm_token_file}",
        )
        self._flags = (
            f"--scheduler-name={SCHEDULER_NAME}",
            f"--slurm-api-base={cluster.slurm_url}",
            f"--health-probe-bind-address=127.0.0.1:{self._probe_port}",
            f"--metrics-bind-address=127.0.0.1:{self._metrics_port}",
            f"--hooks-api-bind-address=127.0.0.1:{self._hooks_port}",
            # "auto" waits for a guard on nodes with a slurmd, and few stories install a guard.
            f"--placeholder-mode={cluster.placeholder_mode}",
            "--zap-log-level=debug",
            # Stories read one message after the other; at the default each would take ten seconds.
            "--condition-interval=1",
            *flags,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add_flags(self, *flags: str) -> None:
        """Add flags for the next start; they override earlier ones."""
        self._flags = (*self._flags, *flags)

    def given(self, flag: str) -> set[str]:
        """The comma-separated values of a flag as it was given last; empty if it was not."""
        said = [it.removeprefix(f"--{flag}=") for it in self._flags if it.startswith(f"--{flag}=")]
        return set(said[-1].split(",")) if said else set()

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.exitcode is None

    @property
    def pid(self) -> int:
        """The process id of the running process."""
        assert self._process is not None
        return _pid_of(self._process)

    @property
    def metrics_address(self) -> str:
        """HOST:PORT of its metrics."""
        return f"127.0.0.1:{self._metrics_port}"

    @property
    def face_ports(self) -> tuple[int, int]:
        """The ports of its metrics and its probes."""
        return (self._metrics_port, self._probe_port)

    @property
    def hooks_url(self) -> str:
        """The URL of its hooks API."""
        return f"http://127.0.0.1:{self._hooks_port}"

    @property
    def hooks_https_url(self) -> str:
        """The https URL of its hooks API, if it has a certificate."""
        return f"https://127.0.0.1:{self._hooks_port}"

    def start(self) -> None:
        """Start it and wait until it is ready; AssertionError with the end of the log otherwise."""
        self.launch()
        try:
            self._wait_ready()
        except BaseException:
            self.kill()
            raise

    def launch(self) -> None:
        """Start it without waiting until it is ready."""
        self._process = self._launch(("run", *self._access, *self._flags), log=self.log)

    def stop(self) -> int:
        """Stop it as Kubernetes does (SIGTERM), and return its exit status."""
        return self._end(signal.SIGTERM)

    def ended(self, *, seconds: float) -> int:
        """Wait until it has ended by itself, and return its exit status."""
        assert self._process is not None
        self._process.join(seconds)
        status = self._process.exitcode
        assert status is not None, f"the scheduler has not ended:\n{self.log_tail()}"
        return status

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self._end(signal.SIGKILL)

    def suspend(self) -> None:
        """Pause its process (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let its process continue (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    @property
    def role(self) -> str:
        """The answer of /readyz: "ok" and who leads, or what is missing; empty if there is none."""
        try:
            return _get(self._probe_port, "/readyz")[1]
        except (OSError, http.client.HTTPException):
            return ""

    @property
    def leads(self) -> bool:
        """Whether it says that it leads."""
        return "\nleads: " in self.role

    def metrics(self) -> dict[str, float]:
        """All samples, summed over labels, by sample name."""
        totals: dict[str, float] = {}
        for family in text_string_to_metric_families(self.metrics_text()):
            for sample in family.samples:
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
        return totals

    def metric(self, name: str, labels: dict[str, str]) -> float:
        """One sample; 0 if there is none with these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.metrics_text())
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        )

    def metrics_text(self) -> str:
        """The answer of /metrics."""
        status, text = _get(self._metrics_port, "/metrics")
        assert status == 200, f"{status} from /metrics: {text}"
        return text

    def log_tail(self, lines: int = 30) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        # Somebody else may have killed it, and the fork server reports that late.
        with suppress(ProcessLookupError):
            if process.exitcode is None:
                os.kill(_pid_of(process), number)
        process.join(_STOP_SECONDS)
        if process.exitcode is not None:
            return process.exitcode
        process.kill()
        process.join(_STOP_SECONDS)
        raise AssertionError(
            f"the scheduler did not end within {_STOP_SECONDS} s:\n{self.log_tail()}"
        )

    def _wait_ready(self) -> None:
        assert self._process is not None
        until = time.monotonic() + _READY_SECONDS
        while not self._ready():
            status = self._process.exitcode
            assert status is None, f"the scheduler ended with {status}:\n{self.log_tail()}"
            assert time.monotonic() < until, f"the scheduler is not ready:\n{self.log_tail()}"
            time.sleep(0.05)

    def _ready(self) -> bool:
        try:
            status, _ = _get(self._probe_port, "/readyz")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200


def _pid_of(process: Launched) -> int:
    assert process.pid is not None
    return process.pid


def _get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
