"""Stands in for kube-scheduler: binds the default scheduler's pods to the one real Node."""

from __future__ import annotations

import threading
from typing import Any, Final, Self

from tests.rigs.kube import KubeRig
from tests.support.pods import has_ended

_WAITING: Final = (
    "/api/v1/pods?fieldSelector=spec.schedulerName%3Ddefault-scheduler,spec.nodeName%3D"
)
_PLACED: Final = "/api/v1/pods?fieldSelector=spec.nodeName%3D"
_PAUSE_SECONDS: Final = 0.2


def bind(kube: KubeRig, pod: dict[str, Any], node: str) -> None:
    """Bind a pod, unless it has gone, is bound already, or its namespace is being deleted."""
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
    body = {"metadata": {"name": metadata["name"]}, "target": {"kind": "Node", "name": node}}
    answer = kube.ask("POST", path, body)
    assert answer.status in {201, 403, 404, 409}, answer


class DefaultScheduler:
    """A context manager: within it, pods that name no scheduler are bound to `node` of `kube`.

    A pod waits until its host ports are free. Otherwise the kubelet would refuse it, and its
    controller would make another one.
    """

    def __init__(self, kube: KubeRig, node: str) -> None:
        self._kube = kube
        self._node = node
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="default-scheduler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._end.wait(_PAUSE_SECONDS):
            try:
                self._bind_all()
            except OSError:
                continue  # the API server is down or restarting

    def _bind_all(self) -> None:
        waiting = self._kube.ask("GET", _WAITING).body["items"]
        taken = self._ports_in_use() if waiting else set()
        for pod in waiting:
            wanted = _ports(pod)
            if not pod["metadata"].get("deletionTimestamp") and not wanted & taken:
                bind(self._kube, pod, self._node)
                taken |= wanted

    def _ports_in_use(self) -> set[int]:
        there = self._kube.ask("GET", f"{_PLACED}{self._node}").body["items"]
        alive = [it for it in there if not has_ended(it)]
        return {port for pod in alive for port in _ports(pod)}


def _ports(pod: dict[str, Any]) -> set[int]:
    """The host ports of a pod."""
    containers = pod["spec"]["containers"]
    found = (port.get("hostPort", 0) for it in containers for port in it.get("ports", ()))
    return {port for port in found if port}
