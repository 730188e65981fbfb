"""Pod statuses as kubelets write them, as strategic merge patches of pods/status."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final
from zlib import crc32

from tests.rigs.simulator.api import Pod

SIGTERM_EXIT: Final = 143
SIGKILL_EXIT: Final = 137

Body = dict[str, Any]


def now() -> str:
    """This moment, as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(pod: Pod, *, restarts: int) -> Body:
    """All containers run and are ready."""
    address = _address(pod.metadata.uid)
    state = {"running": {"startedAt": now()}}
    return _patch(
        pod,
        {
            "phase": "Running",
            "hostIP": "127.0.0.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now(),
            "conditions": _conditions(ready=True),
            "containerStatuses": _containers(pod, state, restarts=restarts, ready=True),
        },
    )


def crashed(pod: Pod, code: int, *, restarts: int) -> Body:
    """The containers have ended and wait to be started again."""
    reason = "CrashLoopBackOff" if code else "Completed"
    containers = _containers(
        pod, {"waiting": {"reason": reason}}, restarts=restarts, ready=False, last=_ended(code)
    )
    return _patch(
        pod,
        {
            "conditions": _conditions(ready=False, reason="ContainersNotReady"),
            "containerStatuses": containers,
        },
    )


def ended(pod: Pod, code: int, *, restarts: int) -> Body:
    """The containers have ended for good."""
    containers = _containers(pod, _ended(code), restarts=restarts, ready=False)
    return _patch(
        pod,
        {
            "phase": "Failed" if code else "Succeeded",
            "conditions": _conditions(ready=False, reason="PodFailed" if code else "PodCompleted"),
            "containerStatuses": containers,
        },
    )


def never_started(pod: Pod) -> Body:
    """Deleted before any container was made."""
    conditions = _conditions(ready=False, reason="PodFailed")
    return _patch(pod, {"phase": "Failed", "conditions": conditions})


def _patch(pod: Pod, status: Body) -> Body:
    # The uid makes the server refuse a patch for a pod of the same name that came after.
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def _conditions(*, ready: bool, reason: str = "") -> list[Body]:
    """The kubelet's conditions; the strategic merge leaves all others as they are."""
    at = now()
    states = {"PodReadyToStartContainers": True, "Initialized": True}
    states |= {"ContainersReady": ready, "Ready": ready}
    return [
        {
            "type": kind,
            "status": "True" if state else "False",
            "reason": None if state else reason,
            "lastTransitionTime": at,
        }
        for kind, state in states.items()
    ]


def _containers(
    pod: Pod, state: Body, *, restarts: int, ready: bool, last: Body | None = None
) -> list[Body]:
    return [
        {
            "name": container.name,
            "state": state,
            "lastState": last or {},
            "ready": ready,
            "started": ready,
            "restartCount": restarts,
            "image": container.image,
            "imageID": container.image,
            "containerID": f"simulated://{pod.metadata.uid}-{container.name}-{restarts}",
        }
        for container in pod.spec.containers
    ]


def _ended(code: int) -> Body:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": now()}}


def _address(uid: str) -> str:
    number = crc32(uid.encode())
    return f"10.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 254 + 1}"
