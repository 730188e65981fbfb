"""A whole Kubernetes cluster: API server, kubelets and controllers, started and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from scheduler.sandbox.kube.agents import Agents
from scheduler.sandbox.kube.controllers.dependents import Dependents
from scheduler.sandbox.kube.controllers.deployments import DeploymentController
from scheduler.sandbox.kube.controllers.disruption import DisruptionController
from scheduler.sandbox.kube.controllers.garbage import GarbageCollector
from scheduler.sandbox.kube.controllers.jobs import JobController
from scheduler.sandbox.kube.controllers.namespaces import NamespaceController
from scheduler.sandbox.kube.controllers.pod_gc import PodGarbageCollector
from scheduler.sandbox.kube.controllers.replicasets import ReplicaSetController
from scheduler.sandbox.kube.kubelet import Kubelets, Timing
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.nodes import NodeShape
from scheduler.sandbox.kube.server import KubeServer


class KubeCluster:
    """A cluster, used as an async context manager. Meanwhile its server may stop and start."""

    def __init__(
        self,
        *,
        token: str,
        nodes: Sequence[NodeShape],
        port: int = 0,
        timing: Timing | None = None,
    ) -> None:
        self.model = KubeModel()
        self.server = KubeServer(self.model, token=token)
        self.kubelets = Kubelets(self.model, timing=timing)
        self._port = port
        dependents = Dependents(self.model.store)
        self._agents = Agents(
            self.model.store,
            (
                self.kubelets,
                GarbageCollector(self.model, dependents),
                NamespaceController(self.model),
                PodGarbageCollector(self.model),
                ReplicaSetController(self.model, dependents),
                DeploymentController(self.model, dependents),
                JobController(self.model, dependents),
                DisruptionController(self.model),
            ),
            serving=self.server.serving,
        )
        self._running: asyncio.Task[None] | None = None
        for shape in nodes:
            self.kubelets.add_node(shape)

    async def wait(self) -> None:
        """Wait for ever. If the kubelets and controllers fail, raise their error."""
        if self._running is not None:
            await asyncio.shield(self._running)

    async def __aenter__(self) -> Self:
        await self.server.start(port=self._port)
        self._running = asyncio.create_task(self._agents.run(), name="kubelets and controllers")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        running, self._running = self._running, None
        await self.server.stop()
        if running is not None:
            running.cancel()
            await asyncio.wait({running})
            if not running.cancelled():
                running.result()
