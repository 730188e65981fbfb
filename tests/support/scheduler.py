"""The scheduler as its users run it: a process of its own, with flags, probes and a log file."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

from prometheus_client.parser import text_string_to_metric_families

from tests.support.cluster import Cluster
from tests.support.ports import free_ports

SCHEDULER_NAME: Final = "slurm-scheduler"
_READY_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 20.0


class SchedulerProcess:
    """`python -m scheduler run` against `cluster`; a context manager that starts and ends it.

    `folder` gets the log, which goes on over restarts. `flags` are added to the command line, and
    win over what stands there already.
    """

    def __init__(self, cluster: Cluster, *, folder: Path, flags: tuple[str, ...] = ()) -> None:
        self._probe_port, self._metrics_port, self._hooks_port = free_ports(3)
        self.log = folder / "scheduler.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._command = (
            sys.executable,
            "-m",
            "scheduler",
            "run",
            f"--kubeconfig={cluster.kubeconfig}",
            f"--scheduler-name={SCHEDULER_NAME}",
            f"--slurm-api-base={cluster.slurm_url}",
            f"--slurm-auth-token-file={cluster.slurm_token_file}",
            f"--health-probe-bind-address=127.0.0.1:{self._probe_port}",
            f"--metrics-bind-address=127.0.0.1:{self._metrics_port}",
            f"--hooks-api-bind-address=127.0.0.1:{self._hooks_port}",
            "--zap-log-level=debug",
            *flags,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def add_flags(self, *flags: str) -> None:
        """Flags for the next start, which win over those of the last one."""
        self._command = (*self._command, *flags)

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def hooks_url(self) -> str:
        """Its hooks API."""
        return f"http://127.0.0.1:{self._hooks_port}"

    def start(self) -> None:
        """Start it and wait until it is ready; AssertionError with the log's end if it is not."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            self._wait_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> int:
        """Ask it to end, as Kubernetes does (SIGTERM), and return its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def metrics(self) -> dict[str, float]:
        """All samples, summed over labels, by sample name."""
        status, text = _get(self._metrics_port, "/metrics")
        assert status == 200, f"{status} from /metrics: {text}"
        totals: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
        return totals

    def metric(self, name: str, labels: dict[str, str]) -> float:
        """One sample, 0 where there is none of these labels."""
        status, text = _get(self._metrics_port, "/metrics")
        assert status == 200, f"{status} from /metrics: {text}"
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and sample.labels == labels
        )

    def log_tail(self, lines: int = 30) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_SECONDS)
            raise AssertionError(
                f"the scheduler did not end within {_STOP_SECONDS} s:\n{self.log_tail()}"
            ) from None

    def _wait_ready(self) -> None:
        assert self._process is not None
        until = time.monotonic() + _READY_SECONDS
        while not self._ready():
            status = self._process.poll()
            assert status is None, f"the scheduler ended with {status}:\n{self.log_tail()}"
            assert time.monotonic() < until, f"the scheduler is not ready:\n{self.log_tail()}"
            time.sleep(0.05)

    def _ready(self) -> bool:
        try:
            status, _ = _get(self._probe_port, "/readyz")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200


def _get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
