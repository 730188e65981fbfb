"""The real Prometheus and its promtool: Debian's package, unpacked and run as a process of ours."""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.rigs.debian import unpack
from tests.rigs.prerequisites import need_root
from tests.rigs.process import Daemon
from tests.support.ports import free_ports

_SUITE: Final = "trixie"
_ASK_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class PrometheusBinaries:
    """The server and its tool."""

    prometheus: Path
    promtool: Path


def ensure() -> PrometheusBinaries:
    """Prometheus 2.53, from the cache or unpacked now: 6 s and 220 MB. Raises PrerequisiteError."""
    need_root()
    programs = unpack(_SUITE, ("prometheus",), binary="usr/bin/prometheus") / "usr/bin"
    return PrometheusBinaries(programs / "prometheus", programs / "promtool")


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of an instant vector."""

    labels: Mapping[str, str]
    value: float


class QueryError(Exception):
    """Prometheus refused a query; the text is its message."""


class Prometheus:
    """A server that scrapes `targets` (HOST:PORT) and evaluates the rule files `rules`; a context
    manager that starts and ends it.
    """

    def __init__(
        self,
        binaries: PrometheusBinaries,
        *,
        targets: Sequence[str],
        rules: Sequence[Path] = (),
        every: str = "1s",
    ) -> None:
        self._binary = binaries.prometheus
        self._run = Path(tempfile.mkdtemp(prefix="prometheus-rig-"))
        (self._port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self._port}"
        self._daemon: Daemon | None = None
        config = {
            "global": {"scrape_interval": every, "evaluation_interval": every},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [
                {
                    "job_name": "slurm-pod-scheduler",
                    "scrape_timeout": every,
                    "static_configs": [{"targets": list(targets)}],
                }
            ],
        }
        (self._run / "prometheus.yml").write_text(json.dumps(config))

    def __enter__(self) -> Self:
        self._daemon = Daemon(self._command(), log=self._run / "log")
        try:
            self._daemon.wait_until(self._ready, what="prometheus")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it and remove its data."""
        if self._daemon is not None:
            self._daemon.stop(kill=True)
        shutil.rmtree(self._run, ignore_errors=True)

    def query(self, expression: str) -> list[Sample]:
        """The instant vector of an expression, now. Raises QueryError."""
        found = self._ask("query", query=expression)
        if found["resultType"] == "scalar":
            return [Sample({}, float(found["result"][1]))]
        return [Sample(it["metric"], float(it["value"][1])) for it in found["result"]]

    def firing(self) -> dict[str, list[dict[str, Any]]]:
        """The alerts that fire now, with labels and annotations, by their names."""
        found: dict[str, list[dict[str, Any]]] = {}
        for alert in self._ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert)
        return found

    def targets_up(self) -> bool:
        """Whether the last scrape of every target succeeded."""
        found = self._ask("targets")["activeTargets"]
        return bool(found) and all(it["health"] == "up" for it in found)

    def _ask(self, what: str, **fields: str) -> dict[str, Any]:
        body = urllib.parse.urlencode(fields).encode() or None
        request = urllib.request.Request(f"{self.url}/api/v1/{what}", data=body)
        try:
            with urllib.request.urlopen(request, timeout=_ASK_SECONDS) as answer:
                return dict(json.loads(answer.read())["data"])
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise QueryError(json.loads(refusal.read())["error"]) from None

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=_ASK_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _command(self) -> tuple[str, ...]:
        return (
            str(self._binary),
            f"--config.file={self._run / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._run / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
        )
