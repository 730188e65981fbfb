"""Asks the API server whether a pod that no watch shows is gone.

A list that lacks a pod may be wrong while its containers run: only the API server's answer that
there is no such pod is evidence (I5).
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.kube.api import KubeApi
from scheduler.kube.errors import KubeInterrupted


class AbsentPods:
    """`doubt_pods` has all pods listed again."""

    def __init__(self, kube: KubeApi, *, doubt_pods: Callable[[], None]) -> None:
        self._kube = kube
        self._doubt_pods = doubt_pods

    async def make_sure(self, namespace: str, name: str, uid: str) -> None:
        """Make sure that this pod does not exist, or has finished. Raises KubeInterrupted if it
        does exist, and KubeError if the API server cannot be asked.
        """
        pod = await self._kube.get_pod(namespace, name)
        if pod is not None and pod.metadata.uid == uid and not pod.finished:
            self._doubt_pods()
            raise KubeInterrupted("the pod exists, although the list lacks it")
