"""Simulates the kubelets of the Nodes in a file: `python -m tests.rigs.simulator SETTINGS`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from tests.rigs.simulator import nodes
from tests.rigs.simulator.api import Api, Listed, Pod
from tests.rigs.simulator.nodes import NodeShape
from tests.rigs.simulator.pods import PodLife


class Settings(msgspec.Struct, frozen=True):
    """The content of the settings file, as JSON."""

    url: str
    token: str
    ca: str
    nodes: tuple[NodeShape, ...]


class Kubelets:
    """The pods of all simulated Nodes, each with a task of its own."""

    def __init__(self, api: Api, names: frozenset[str]) -> None:
        self._api = api
        self._names = names
        self._lives: dict[str, tuple[PodLife, asyncio.Task[None]]] = {}

    async def serve(self) -> None:
        """Follow the bound pods, for ever."""
        async with asyncio.TaskGroup() as group:
            async for news in self._api.bound_pods():
                if isinstance(news, Listed):
                    self._forget_all_but({pod.metadata.uid for pod in news.pods})
                    for pod in news.pods:
                        self._see(pod, group)
                elif news.gone:
                    self._forget(news.pod.metadata.uid)
                else:
                    self._see(news.pod, group)

    def _see(self, pod: Pod, group: asyncio.TaskGroup) -> None:
        if pod.spec.nodeName not in self._names:
            return
        if known := self._lives.get(pod.metadata.uid):
            known[0].saw(pod)
        else:
            life = PodLife(self._api, pod)
            self._lives[pod.metadata.uid] = (life, group.create_task(life.live()))

    def _forget_all_but(self, uids: set[str]) -> None:
        for uid in self._lives.keys() - uids:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        if known := self._lives.pop(uid, None):
            known[1].cancel()


async def main(settings: Settings) -> None:
    """Register the Nodes and serve them until killed."""
    async with Api(settings.url, token=settings.token, ca=Path(settings.ca)) as api:
        await nodes.register(api, settings.nodes)
        kubelets = Kubelets(api, frozenset(shape.name for shape in settings.nodes))
        async with asyncio.TaskGroup() as group:
            group.create_task(kubelets.serve())
            group.create_task(nodes.beat(api, settings.nodes))
            group.create_task(nodes.report(api, settings.nodes))


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Settings)))
