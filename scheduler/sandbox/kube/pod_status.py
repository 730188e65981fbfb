"""Pods with the statuses that a kubelet writes."""

from __future__ import annotations

from zlib import crc32

from scheduler.sandbox.kube.meta import now, with_condition
from scheduler.sandbox.kube.resources import Body

SUCCEEDED = "Succeeded"
FAILED = "Failed"


def creating(pod: Body) -> Body:
    """The pod when the kubelet has seen it and creates its containers."""
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    status = _conditions(pod, ready=False, reason="ContainersNotReady")
    status |= {
        "hostIP": "127.0.0.1",
        "startTime": now(),
        "containerStatuses": _containers(pod, waiting, restarts=0, ready=False),
    }
    return {**pod, "status": status}


def running(pod: Body, restarts: int) -> Body:
    """The pod when all containers run and are ready."""
    state = {"running": {"startedAt": now()}}
    status = _conditions(pod, ready=True)
    address = _address(pod["metadata"]["uid"])
    status |= {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": _containers(pod, state, restarts=restarts, ready=True),
    }
    return {**pod, "status": status}


def crashed(pod: Body, code: int, restarts: int) -> Body:
    """The pod when its containers have ended and wait for their restart."""
    waiting = {
        "waiting": {
            "reason": "CrashLoopBackOff" if code else "Completed",
            "message": "back-off restarting the container",
        }
    }
    last = _terminated(pod, code)
    containers = _containers(pod, waiting, restarts=restarts, ready=False)
    status = _conditions(pod, ready=False, reason="ContainersNotReady")
    status["containerStatuses"] = [{**each, "lastState": last} for each in containers]
    return {**pod, "status": status}


def ended(pod: Body, code: int, restarts: int) -> Body:
    """The pod when its containers have ended for good."""
    status = _conditions(pod, ready=False, reason="PodFailed" if code else "PodCompleted")
    status |= {
        "phase": FAILED if code else SUCCEEDED,
        "containerStatuses": _containers(
            pod, _terminated(pod, code), restarts=restarts, ready=False
        ),
    }
    return {**pod, "status": status}


def stopped(pod: Body, code: int, *, ran: bool) -> Body:
    """The pod when its deletion has stopped the containers; without `ran` they never started."""
    if ran:
        restarts = sum(each["restartCount"] for each in pod["status"]["containerStatuses"][:1])
        return ended(pod, code, restarts)
    status = _conditions(pod, ready=False, reason="PodFailed")
    return {**pod, "status": {**status, "phase": FAILED}}


def _conditions(pod: Body, *, ready: bool, reason: str = "") -> Body:
    """The pod's status with the kubelet's conditions; other conditions stay."""
    status = dict(pod["status"])
    conditions = status.get("conditions")
    text = "True" if ready else "False"
    for kind in ("PodReadyToStartContainers", "Initialized"):
        conditions = with_condition(conditions, {"type": kind, "status": "True"})
    for kind in ("Ready", "ContainersReady"):
        condition = {"type": kind, "status": text, **({"reason": reason} if reason else {})}
        conditions = with_condition(conditions, condition)
    if all(each["type"] != "PodScheduled" for each in conditions or ()):
        # the pod was created with a nodeName, without a scheduler
        conditions = with_condition(conditions, {"type": "PodScheduled", "status": "True"})
    status["conditions"] = conditions
    return status


def _containers(pod: Body, state: Body, *, restarts: int, ready: bool) -> list[Body]:
    return [
        {
            "name": container["name"],
            "state": state,
            "lastState": {},
            "ready": ready,
            "restartCount": restarts,
            "image": container["image"],
            "imageID": container["image"],
            "containerID": f"sandbox://{pod['metadata']['uid']}-{container['name']}-{restarts}",
            "started": ready,
        }
        for container in pod["spec"]["containers"]
    ]


def _terminated(pod: Body, code: int) -> Body:
    began = now()
    for each in pod["status"].get("containerStatuses") or ():
        began = (each["state"].get("running") or {}).get("startedAt", began)
    return {
        "terminated": {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": began,
            "finishedAt": now(),
        }
    }


def _address(uid: str) -> str:
    number = crc32(uid.encode())
    return f"10.{64 + (number >> 16) % 64}.{(number >> 8) % 256}.{number % 254 + 1}"
