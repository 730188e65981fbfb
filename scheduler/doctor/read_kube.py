"""Asks the API server. Only SelfSubjectAccessReviews are posted, which it answers and never stores;
lists are read in pages, and not for ever.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from groundwork.together import together
from scheduler.config.settings import Settings
from scheduler.core.mapping_strategies import Strategy, Way
from scheduler.doctor.asking import Asker, Progress
from scheduler.doctor.facts import (
    AdmissionPolicy,
    KubeFacts,
    NodePods,
    PodsOnNodes,
    Unread,
    seconds_apart,
)
from scheduler.doctor.rights import Right, rights_used
from scheduler.kube.causes import cause_of
from scheduler.kube.errors import Forbidden, KubeError, NotFound
from scheduler.kube.identity import own_namespace
from scheduler.kube.neighbours import NEIGHBOURS, Neighbour, on_nodes
from scheduler.kube.pages import MOST_PAGE_BYTES, pages
from scheduler.kube.session import KubeSession
from scheduler.kube.slim import slimmed
from scheduler.kube.store import Joined
from scheduler.kube.wire import (
    NODES,
    PODS,
    ItemList,
    Node,
    Pod,
    decode_identified,
    decoder,
)
from slurmapi import SlurmError

T = TypeVar("T")

MOST_NODES: Final = 20_000
MOST_PODS: Final = 100_000
MOST_POLICIES: Final = 2000
MOST_NAMESPACES: Final = 50
"""How many served namespaces are looked at."""
_AT_ONCE: Final = 8
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_SETTING: Final = re.compile(r"'([a-z-]{1,64})': '([^']{0,4096})'")


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str


class _Allowed(msgspec.Struct, frozen=True):
    allowed: bool


class _Review(msgspec.Struct, frozen=True):
    status: _Allowed


class _Meta(msgspec.Struct, frozen=True):
    name: str


class _Variable(msgspec.Struct, frozen=True):
    name: str
    expression: str = ""


class _PolicySpec(msgspec.Struct, frozen=True):
    variables: tuple[_Variable, ...] = ()


class _Policy(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _PolicySpec = _PolicySpec()


class _BindingSpec(msgspec.Struct, frozen=True, rename="camel"):
    policy_name: str = ""


class _Binding(msgspec.Struct, frozen=True):
    spec: _BindingSpec = _BindingSpec()


_decode_version: Final = decoder(_Version)
_decode_review: Final = decoder(_Review)
_policies: Final = decoder(ItemList[_Policy])
_bindings: Final = decoder(ItemList[_Binding])


class KubeReader:
    """Reads what `KubeFacts` holds, through an open session. `reads_labels` is as for
    `rights_used`.
    """

    def __init__(
        self,
        settings: Settings,
        kube: KubeSession,
        *,
        reads_labels: bool,
        seconds: float,
        progress: Progress,
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._reads_labels = reads_labels
        self._seconds = seconds
        self._slots = asyncio.Semaphore(_AT_ONCE)
        where = f"the API server {kube.server}"
        self._asker = Asker(where, self._explain, seconds=seconds, progress=progress)

    async def read(self) -> KubeFacts:
        """All of it but the pods. After the first question without an answer nothing else is
        asked.
        """
        facts = KubeFacts(
            server=self._kube.server, own_namespace=await own_namespace(self._settings)
        )
        version = await self._asker.ask_in_parts("its version", self._version())
        if isinstance(version, Unread):
            return replace(facts, version=version)
        off, granted, absent, policies, nodes = await asyncio.gather(
            self._asker.ask_in_parts("its time", self._seconds_off()),
            self._asker.ask_in_parts(
                "the rights of these credentials", self._rights(facts.own_namespace)
            ),
            self._asker.ask_in_parts("the served namespaces", self._absent()),
            self._asker.ask_in_parts("the admission policies", self._policies()),
            self._asker.ask_in_parts("the Nodes", self._nodes()),
        )
        return replace(
            facts,
            version=version,
            seconds_off=None if isinstance(off, Unread) else off,
            rights=granted,
            absent=absent,
            policies=policies,
            nodes=nodes,
        )

    async def crowd(self) -> PodsOnNodes | Unread:
        """The pods of other schedulers that are on Nodes."""
        return await self._asker.ask_in_parts("the pods on Nodes", self._crowd())

    async def nodes(self) -> tuple[Node, ...] | Unread:
        """All Nodes."""
        return await self._asker.ask_in_parts("the Nodes", self._nodes())

    async def tenants(self) -> tuple[PodsOnNodes, PodsOnNodes] | Unread:
        """The pods of this scheduler that are on Nodes, and those of others."""
        return await self._asker.ask_in_parts("the pods on Nodes", self._tenants())

    async def slurmd_pods(self) -> Mapping[Strategy, Joined[Pod]] | Unread:
        """The pods by whose label a mapping finds the slurmd of a node; empty without such a
        mapping.
        """
        return await self._asker.ask_in_parts("the pods of slurmd", self._slurmd_pods())

    async def _slurmd_pods(self) -> Mapping[Strategy, Joined[Pod]]:
        wanted = [it for it in self._settings.strategies if it.way is Way.SLURMD_POD]
        return {it: await self._pods_of(it) for it in wanted}

    async def _pods_of(self, strategy: Strategy) -> Joined[Pod]:
        joined = Joined[Pod]()
        decode = slimmed(PODS, prefixes=()).page
        query = {"labelSelector": strategy.key}
        for namespace in (strategy.namespace,) if strategy.namespace else self._served or ("",):
            within = f"namespaces/{namespace}/" if namespace else ""
            path = f"/api/v1/{within}pods"
            found, _ = await self._pages(path, decode, query=query, most=MOST_NODES)
            joined.new().replace(found)
        return joined

    @property
    def _served(self) -> tuple[str, ...]:
        return self._settings.watch_namespace[:MOST_NAMESPACES]

    async def _get(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,
        *,
        most_bytes: int | None = None,
    ) -> bytes:
        return await self._request("GET", path, query=query, most_bytes=most_bytes)

    async def _request(self, method: str, path: str, **more: Any) -> bytes:
        async with self._slots:
            request = self._kube.request(method, path, timeout=self._longer, **more)
            return await self._asker.part(request)

    @property
    def _longer(self) -> float:
        """Longer than the asker's own limit, whose message names the limit."""
        return 2.0 * self._seconds

    async def _version(self) -> str:
        return _decode_version(await self._get("/version")).git_version

    async def _seconds_off(self) -> float | None:
        """How far the API server's clock, which is sent in whole seconds, is ahead of ours."""
        before = time.time()
        sent = await self._asker.part(self._kube.server_time(timeout=self._longer))
        if sent is None:
            return None
        return seconds_apart(sent.timestamp(), before=before, after=time.time())

    async def _rights(self, own: str) -> Mapping[Right, bool]:
        settings = self._settings.model_copy(update={"watch_namespace": self._served})
        wanted = rights_used(settings, own=own, reads_labels=self._reads_labels)
        return dict(zip(wanted, await together(map(self._may, wanted)), strict=True))

    async def _may(self, right: Right) -> bool:
        resource, _, below = right.resource.partition("/")
        asked = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": below,
            "namespace": right.namespace,
            "name": right.name,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {key: it for key, it in asked.items() if it}},
        }
        return _decode_review(await self._request("POST", _REVIEWS, body=review)).status.allowed

    async def _absent(self) -> tuple[str, ...]:
        """The served namespaces that do not exist. Those that may not be read are taken to exist:
        with roles in single namespaces none may be.
        """
        there = await together(map(self._exists, self._served))
        return tuple(it for it, found in zip(self._served, there, strict=True) if not found)

    async def _exists(self, namespace: str) -> bool:
        try:
            decode_identified(await self._get(f"/api/v1/namespaces/{namespace}"))
        except NotFound:
            return False
        except Forbidden:
            return True
        return True

    async def _policies(self) -> tuple[AdmissionPolicy, ...]:
        try:
            policies, _ = await self._pages(
                f"{_ADMISSION}/validatingadmissionpolicies", _policies, most=MOST_POLICIES
            )
        except NotFound:  # before Kubernetes 1.30
            return ()
        bindings, _ = await self._pages(
            f"{_ADMISSION}/validatingadmissionpolicybindings", _bindings, most=MOST_POLICIES
        )
        bound = {it.spec.policy_name for it in bindings}
        found = ((it.metadata.name, _settings_in(it)) for it in policies)
        name = self._settings.scheduler_name
        return tuple(
            AdmissionPolicy(policy, given, policy in bound)
            for policy, given in found
            if given.get("scheduler-name") == name
        )

    async def _nodes(self) -> tuple[Node, ...]:
        nodes, _ = await self._pages("/api/v1/nodes", NODES.page, most=MOST_NODES)
        return tuple(nodes)

    async def _crowd(self) -> PodsOnNodes:
        _, others = await self._tenants()
        return others

    async def _tenants(self) -> tuple[PodsOnNodes, PodsOnNodes]:
        pods, whole = await self._pages(
            "/api/v1/pods", NEIGHBOURS.page, query=on_nodes(), most=MOST_PODS
        )
        name = self._settings.scheduler_name
        ours = (it for it in pods if it.scheduler == name)
        others = (it for it in pods if it.scheduler != name)
        return pods_on_nodes(ours, whole=whole), pods_on_nodes(others, whole=whole)

    async def _pages(
        self,
        path: str,
        decode: Callable[[bytes], ItemList[T]],
        *,
        most: int,
        query: Mapping[str, str] | None = None,
    ) -> tuple[list[T], bool]:
        """The objects of a list, and whether they are all: after `most` no more are read."""
        items: list[T] = []
        left = most

        async def ask(asked: Mapping[str, str | int]) -> bytes:
            nonlocal left
            body = await self._get(path, asked, most_bytes=MOST_PAGE_BYTES)
            left -= int(asked["limit"])
            return body

        async with aclosing(pages(ask, decode, query=query or {})) as listed:
            async for page in listed:
                items.extend(page.items or ())
                if left <= 0:
                    return items, not page.metadata.continue_
        return items, True

    def _explain(self, error: SlurmError | KubeError) -> Unread:
        if isinstance(error, Forbidden):
            return Unread(str(error), "denied")
        cause = cause_of(error, server=self._kube.server) if isinstance(error, KubeError) else None
        return Unread(str(error)) if cause is None else Unread(cause.text, cause.name)


def pods_on_nodes(pods: Iterable[Neighbour], *, whole: bool) -> PodsOnNodes:
    """These pods by Node, with the sums of what they request, and by scheduler."""
    counts, schedulers = Counter[str](), Counter[str]()
    sums: dict[str, Counter[str]] = {}
    for pod in pods:
        counts[pod.node] += 1
        schedulers[pod.scheduler] += 1
        sums.setdefault(pod.node, Counter()).update(dict(pod.shape.requests))
    on = {node: NodePods(count, sums[node]) for node, count in counts.items()}
    return PodsOnNodes(on, schedulers, whole)


def _settings_in(policy: _Policy) -> Mapping[str, str]:
    """The settings that our policies hold in their first variable; empty for one of others."""
    text = next((it.expression for it in policy.spec.variables if it.name == "settings"), "")
    return dict(_SETTING.findall(text))
