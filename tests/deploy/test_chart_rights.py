"""Each right of the chart is missed by exactly one call of the scheduler; nothing is given beyond.

The calls are the scheduler's own, as the ServiceAccount. That they are all it makes is shown by the
stories, in which nothing is forbidden to it that it needs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from scheduler.core.gang_sources import OBJECTS, TOLD_BY_PHASE, GroupRef
from scheduler.kube.api import KubeApi, Refused
from scheduler.kube.errors import Conflict, Forbidden, KubeRefused, NotFound
from scheduler.kube.leases import Leases
from scheduler.kube.session import KubeSession
from tests.support import pods
from tests.support.chart import Release
from tests.support.kube import Kube, Object

if TYPE_CHECKING:
    from tests.rigs.helm import Helm
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

# Where the right holds ("" is the cluster), resource with its group, verb.
Right = tuple[str, str, str]
_NAME: Final = "slurm-pod-scheduler"
_SECONDS: Final = 60.0
_NOT_FOUND: Final = 404
_POD: Final = ("no-such-pod", "no-such-uid")


class Calls:
    """What the scheduler asks for, one call for each right. None, Refused, Forbidden are a no."""

    def __init__(self, session: KubeSession) -> None:
        self._session = session
        self._api = KubeApi(session)
        self._of: dict[tuple[str, str], Callable[[str], Awaitable[Any]]] = {
            ("pods", "get"): lambda at: self._none_is_fine(self._api.get_pod(at, _POD[0])),
            ("pods", "list"): lambda at: self._list(_pods(at)),
            ("pods", "watch"): lambda at: self._watch(_pods(at)),
            ("pods", "delete"): lambda at: self._api.delete_pod(at, *_POD),
            ("pods/binding", "create"): lambda at: self._api.bind(at, *_POD, node="node"),
            ("pods/eviction", "create"): lambda at: self._api.evict_pod(at, *_POD),
            ("pods/status", "patch"): lambda at: self._api.patch_pod_status(at, *_POD),
            ("nodes", "list"): lambda _: self._list("/api/v1/nodes"),
            ("nodes", "watch"): lambda _: self._watch("/api/v1/nodes"),
            ("persistentvolumeclaims", "list"): lambda at: self._list(_claims(at)),
            ("persistentvolumeclaims", "watch"): lambda at: self._watch(_claims(at)),
            ("persistentvolumes", "list"): lambda _: self._list("/api/v1/persistentvolumes"),
            ("persistentvolumes", "watch"): lambda _: self._watch("/api/v1/persistentvolumes"),
            ("events", "create"): self._event,
            ("events", "patch"): lambda at: self._none_is_fine(
                self._api.patch_event(at, "no-such-event", {})
            ),
            **{
                (f"{plural}.{version.partition('/')[0]}", "get"): self._group(version, plural)
                for version, plural in OBJECTS.values()
            },
            **{
                (f"{plural}/status.{version.partition('/')[0]}", "patch"): self._status_of_group(
                    version, plural
                )
                for version, plural in map(OBJECTS.__getitem__, TOLD_BY_PHASE)
            },
            ("leases.coordination.k8s.io", "create"): lambda at: self._lease(at, "another"),
            ("leases.coordination.k8s.io", "get"): lambda at: self._none_is_fine(
                self._leases(at).read()
            ),
            ("leases.coordination.k8s.io", "update"): lambda at: self._lease(
                at, _NAME, version="1"
            ),
            ("namespaces", "get"): self._api.get_namespace_uid,
            ("namespaces", "list"): lambda _: self._list("/api/v1/namespaces"),
            ("namespaces", "watch"): lambda _: self._watch("/api/v1/namespaces"),
        }

    async def allowed(self, right: Right, *, default: str) -> bool:
        """Whether the call that needs the right is carried out."""
        where, resource, verb = right
        if verb not in {"list", "watch"}:
            where = where or ("kube-system" if resource == "namespaces" else default)
        try:
            answer = await self._of[resource, verb](where)
        except Forbidden:
            return False
        return answer is not None and not isinstance(answer, Refused)

    def _group(self, api_version: str, plural: str) -> Callable[[str], Awaitable[Any]]:
        def get(namespace: str) -> Awaitable[Any]:
            ref = GroupRef(api_version, plural, namespace, "no-such-group")
            return self._none_is_fine(self._api.get_group(ref))

        return get

    def _status_of_group(self, version: str, plural: str) -> Callable[[str], Awaitable[Any]]:
        async def patch(namespace: str) -> Any:
            ref = GroupRef(version, plural, namespace, "no-such-group")
            try:
                return await self._api.patch_group_status(ref, version="", status={})
            except KubeRefused as error:
                if error.status != _NOT_FOUND:  # this server has no objects of the kind
                    raise
                return True

        return patch

    async def _list(self, path: str) -> bytes:
        return await self._session.request("GET", path, query={"limit": 1})

    async def _watch(self, path: str) -> bytes:
        async with aclosing(self._session.stream(path, query={"watch": "true"})) as lines:
            return await anext(lines)

    async def _event(self, namespace: str) -> bool:
        about = {"kind": "Pod", "namespace": namespace, "name": "no-such-pod"}
        body = {"metadata": {"generateName": "try-"}, "involvedObject": about, "reason": "Try"}
        await self._api.create_event(namespace, body)
        return True

    def _leases(self, namespace: str) -> Leases:
        return Leases(self._session, namespace, _NAME, timeout_seconds=_SECONDS)

    async def _lease(self, namespace: str, name: str, *, version: str = "") -> bool:
        """Write it over that version, which is not its own, or make it."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        body = {"metadata": {"name": name, "resourceVersion": version}, "spec": {}}
        method, where = ("PUT", f"{path}/{name}") if version else ("POST", path)
        try:
            await self._session.request(method, where, body=body)
        except Conflict:
            return True
        return True

    async def _none_is_fine(self, call: Awaitable[Any]) -> bool:
        try:
            await call
        except NotFound:
            return True
        return True


SCOPES: Final[dict[str, dict[str, Any]]] = {
    "cluster": {"scope": {"type": "cluster", "namespaceAccess": True}},
    "namespace": {"scope": {"type": "namespace", "nodeAccess": True, "namespaces": "SERVED"}},
}


@pytest.fixture(params=SCOPES)
def values(request: pytest.FixtureRequest, served: str) -> dict[str, Any]:
    """With everything that takes a right."""
    slurm = {"apiBase": "http://slurmrestd:6820"}
    scheduler = SCOPES[request.param] | {
        "replicas": 0,
        "config": {"slurm": slurm, "scheduler": {"evictionPolicy": "budget"}},
    }
    values: dict[str, Any] = json.loads(json.dumps(scheduler).replace("SERVED", served))
    return {"scheduler": values}


@pytest.fixture
async def roles(
    kube: Kube, live_helm: Helm, home: str, served: str, values: dict[str, Any]
) -> AsyncIterator[list[Object]]:
    """All roles of the installed chart."""
    release = Release(live_helm, kube, _NAME, home)
    await release.upgrade(values)
    # it was made while all rights were there, as an election does first
    await kube.create("leases", {"metadata": {"name": _NAME}}, namespace=home)
    # a watch tells at once of what is there
    await kube.create("pods", pods.pod("there"), namespace=served)
    size: Object = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    claim = size | {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": "nowhere"}
    volume = size | {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
    for kind, name, spec, where in (
        ("persistentvolumeclaims", "there", claim, served),
        ("persistentvolumes", served, volume, ""),
    ):
        await kube.create(kind, {"metadata": {"name": name}, "spec": spec}, namespace=where)
    found = [
        it | {"kind": kind}
        for kind, places in (("clusterroles", [""]), ("roles", [home, served]))
        for place in places
        for it in await kube.items(kind, namespace=place)
        if it["metadata"].get("annotations", {}).get("meta.helm.sh/release-namespace") == home
    ]
    yield found
    await kube.delete("pods", "there", namespace=served, grace_seconds=0)
    await kube.delete("persistentvolumeclaims", "there", namespace=served)
    await kube.delete("persistentvolumes", served)
    for name in (_NAME, "another"):
        await kube.delete("leases", name, namespace=home)
    await release.uninstall()


@pytest.fixture
async def calls(
    kube: Kube, live_kube: KubeRig, home: str, roles: list[Object], tmp_path: Path
) -> AsyncIterator[Calls]:
    """The scheduler's, as the ServiceAccount that came with the roles."""
    from tests.rigs.kube_files import kubeconfig

    token = await kube.service_account_token(_NAME, namespace=home)
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(live_kube.ca, live_kube.url, token)))
    async with await KubeSession.open(config, user_agent="tests") as session:
        yield Calls(session)


async def test_each_right_is_missed_by_one_call(
    kube: Kube, roles: list[Object], calls: Calls, served: str
) -> None:
    rights = [right for role in roles for right in _rights(role)]
    assert len(set(rights)) == len(rights), "a right is given twice"
    for role in roles:
        for right in _rights(role):
            await _settled(calls, right, default=served, wanted=True)
            await _set_rules(kube, role, _without(role, right))
            await _settled(calls, right, default=served, wanted=False)
            refused = [it for it in rights if not await calls.allowed(it, default=served)]
            assert refused == [right]
            await _set_rules(kube, role, role["rules"])
            await _settled(calls, right, default=served, wanted=True)
    for right in rights:
        await _settled(calls, right, default=served, wanted=True)


def _rights(role: Object) -> list[Right]:
    where = role["metadata"].get("namespace", "")
    return [
        (where, resource, verb)
        for rule in role["rules"]
        for resource in _resources(rule)
        for verb in rule["verbs"]
    ]


def _resources(rule: Object) -> list[str]:
    (group,) = rule["apiGroups"]
    return [f"{it}.{group}" if group else it for it in rule["resources"]]


def _without(role: Object, right: Right) -> list[Object]:
    _, resource, verb = right
    rules = [
        rule | {"verbs": [it for it in rule["verbs"] if it != verb]}
        if resource in _resources(rule)
        else rule
        for rule in role["rules"]
    ]
    return [rule for rule in rules if rule["verbs"]]


async def _set_rules(kube: Kube, role: Object, rules: list[Object]) -> None:
    metadata = role["metadata"]
    space = metadata.get("namespace", "")
    await kube.patch(role["kind"], metadata["name"], {"rules": rules}, namespace=space)


async def _settled(calls: Calls, right: Right, *, default: str, wanted: bool) -> None:
    """The API server learns of a changed role by a watch of its own."""
    async with asyncio.timeout(_SECONDS):
        while await calls.allowed(right, default=default) is not wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"


def _claims(namespace: str) -> str:
    where = f"namespaces/{namespace}/" if namespace else ""
    return f"/api/v1/{where}persistentvolumeclaims"
