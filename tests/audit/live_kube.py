"""Reads a real API server's audit log: who wrote what about pods, and what became of them.

The log alone is enough: it has each write with its author, its answer and the resulting pod, in the
server's own time to the microsecond. A watch shows neither authors nor refusals. A write that the
server stored but did not log before it was killed shows in the pod's next state.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

import msgspec

from tests.audit.history import By, When
from tests.audit.records import PodAsked, PodSeen, Records
from tests.rigs.kube import KubeRig
from tests.rigs.log_file import LogFile

OUR_AGENT: Final = "slurm-pod-scheduler/"
_VERBS: Final = {
    ("create", "binding"): "bind",
    ("create", "eviction"): "delete",
    ("delete", ""): "delete",
    ("patch", ""): "write",
    ("patch", "status"): "write",
    ("update", ""): "write",
    ("update", "status"): "write",
}
_MARK_SECONDS: Final = 20.0


class _Ref(msgspec.Struct, frozen=True):
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Line(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of an Event of audit.k8s.io/v1 that count here."""

    verb: str
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    request_received_timestamp: str
    stage_timestamp: str
    user_agent: str = ""
    object_ref: _Ref = _Ref()
    response_status: _Status = _Status()
    request_object: dict[str, Any] = {}
    response_object: dict[str, Any] = {}


_decode = msgspec.json.Decoder(_Line).decode


class AuditLog:
    """The part of the log that is written after this object is made."""

    def __init__(self, rig: KubeRig) -> None:
        self._rig = rig
        self._log: LogFile = rig.audit_log
        self._since = self._log.size()

    def read_into(self, records: Records) -> None:
        """Add everything that was asked before this call."""
        self._wait_for_now()
        for it in observed(self._log.lines(self._since)):
            if isinstance(it, PodSeen):
                records.pods.append(it)
            else:
                records.pods_asked.append(it)

    def _wait_for_now(self) -> None:
        """Send one more request and wait for its line: the server logs after it has answered."""
        mark = f"/version?mark={uuid4()}"
        since = self._log.size()
        self._rig.ask("GET", mark)
        until = time.monotonic() + _MARK_SECONDS
        while not any(mark.encode() in line for line in self._log.lines(since)):
            assert time.monotonic() < until, f"the audit log has no {mark}"
            time.sleep(0.02)


def observed(lines: Iterable[bytes]) -> Iterator[PodSeen | PodAsked]:
    """The observations of pods in these lines of the log."""
    for raw in lines:
        if b'"resource":"pods"' in raw and b'"ResponseComplete"' in raw:
            line = _decode(raw)
            if not _is_dry(line):
                yield from _seen(line)
                yield from _asked(line)


def _when(line: _Line) -> When:
    return When(_time(line.request_received_timestamp), _time(line.stage_timestamp))


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _seen(line: _Line) -> Iterator[PodSeen]:
    if not _accepted(line):
        return
    found = line.response_object
    bodies = found.get("items", [found]) if found.get("kind") in {"Pod", "PodList"} else []
    for pod in bodies:
        if pod["metadata"].get("uid") and "status" in pod:
            yield PodSeen(_when(line), pod, gone=_is_gone(pod))


def _is_gone(pod: dict[str, Any]) -> bool:
    """Whether this state of a pod is its last: no grace is left, and no finalizer holds it."""
    metadata = pod["metadata"]
    leaving = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
    return leaving and not metadata.get("finalizers")


def _asked(line: _Line) -> Iterator[PodAsked]:
    ref = line.object_ref
    verb = _VERBS.get((line.verb, ref.subresource))
    if verb is None or not ref.name:
        return
    found = line.response_object if line.response_object.get("kind") == "Pod" else {}
    named = found or (line.request_object if verb == "bind" else {})
    yield PodAsked(
        _when(line),
        By.US if line.user_agent.startswith(OUR_AGENT) else By.OTHER,
        verb,
        ref.namespace,
        ref.name,
        str((named.get("metadata") or {}).get("uid") or ""),
        accepted=_accepted(line),
        node=str((line.request_object.get("target") or {}).get("name") or ""),
    )


def _accepted(line: _Line) -> bool:
    """Whether the server accepted it. If the answer was cut off, the pod's next state shows it."""
    return 200 <= line.response_status.code < 300


def _is_dry(line: _Line) -> bool:
    return "dryRun=" in line.request_uri or bool(line.request_object.get("dryRun"))
