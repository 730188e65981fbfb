"""Finds out which cluster this process serves, and what it may read there.

It asks the API server once, at the start. If the server does not answer yet, the start waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import structlog

from scheduler.config.settings import Settings
from scheduler.kube.api import KubeApi
from scheduler.kube.errors import Forbidden, KubeError, Unauthorized
from scheduler.kube.session import KubeConfigError, in_cluster
from slurmapi import FileToken, StaticToken, TokenSource

T = TypeVar("T")
log = structlog.get_logger(__name__)

_FIRST_ANSWER_SECONDS: Final = 2.0
# An API server that has just started refuses everything until it has read its roles. So a refusal
# must be repeated: what follows from it, such as another cluster id, lasts as long as the process.
_REFUSED_TIMES: Final = 3
_REFUSED_SECONDS: Final = 2.0
SYSTEM_NAMESPACE: Final = "kube-system"
# Kubernetes tells every container the namespace of its service account here.
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ClusterIdError(Exception):
    """Nothing distinguishes this Kubernetes cluster from others."""


async def admitted(api: KubeApi, *, server: str) -> None:
    """Check that the API server accepts the credentials of the kubeconfig. Raises KubeConfigError
    for a 401, because nobody renews credentials outside of a cluster. In a cluster nothing is
    checked, because the token may be renewed. If the server is away, later requests wait for it.
    """
    if in_cluster():
        return
    try:
        await api.get_namespace_uid(SYSTEM_NAMESPACE)
    except Unauthorized as error:
        raise KubeConfigError(
            f"the API server {server} refuses the credentials of the kubeconfig ({error}): log in "
            "again, or name another kubeconfig or context"
        ) from None
    except KubeError as error:  # no 401; a later request reports what is wrong
        log.debug("credentials could not be checked", error=str(error))


async def absent_namespaces(settings: Settings, api: KubeApi) -> tuple[str, ...]:
    """The watched namespaces that do not exist, as far as the API server tells: with roles in
    single namespaces it refuses the question, so it is not asked. Raises KubeError.
    """
    names = settings.watch_namespace
    if not names or await api.get_namespace_uid(SYSTEM_NAMESPACE) is None:
        return ()
    return tuple([it for it in names if await api.lacks_namespace(it)])


async def cluster_id(settings: Settings, api: KubeApi) -> str:
    """The cluster id: the setting, else the uid of kube-system, else the uid of the scheduler's
    namespace. Raises ClusterIdError if neither namespace can be read.
    """
    if settings.cluster_id:
        return settings.cluster_id
    own = await own_namespace(settings)
    for namespace in filter(None, (SYSTEM_NAMESPACE, own)):
        uid = await _not_just_refused(partial(api.get_namespace_uid, namespace))
        if uid is not None:
            return uid
    both = f"namespaces {SYSTEM_NAMESPACE} and {own}"
    unreadable = both if own else f"namespace {SYSTEM_NAMESPACE}"
    raise ClusterIdError(
        f"--cluster-id: '': {unreadable} cannot be read, so give this cluster a name that no other "
        "cluster on the same Slurm has"
    )


async def own_namespace(settings: Settings) -> str:
    """The scheduler's namespace: the setting, else the one that Kubernetes tells the container;
    empty outside of a cluster.
    """
    return settings.own_namespace or await asyncio.to_thread(_own_namespace)


async def may_read_nodes(settings: Settings, api: KubeApi) -> bool:
    """Whether Nodes may be read, according to `--node-access`."""
    return await _may_list("/api/v1/nodes", settings.node_access, api)


async def may_read_pods(settings: Settings, api: KubeApi) -> bool:
    """Whether pods of all namespaces may be read, according to `--pod-access`."""
    return await _may_list("/api/v1/pods", settings.pod_access, api)


async def may_read_volumes(settings: Settings, api: KubeApi) -> bool:
    """Whether volumes, and the claims in the served namespaces, may be read, according to
    `--volume-access`.
    """
    served = settings.watch_namespace
    claims = [f"/api/v1/namespaces/{name}/persistentvolumeclaims" for name in served]
    paths = [*(claims or ["/api/v1/persistentvolumeclaims"]), "/api/v1/persistentvolumes"]
    for path in paths:
        if not await _may_list(path, settings.volume_access, api):
            return False
    return True


async def _may_list(path: str, access: str, api: KubeApi) -> bool:
    """Whether the list at `path` may be read. With `access` "auto" the function requests one object
    of it, and Forbidden means no.
    """
    if access != "auto":
        return access == "read"

    async def ask() -> bool:
        try:
            await api.probe(path)
        except Forbidden:
            return False
        return True

    return await _not_just_refused(ask)


def token_of(settings: Settings) -> TokenSource:
    """The source of Slurm's token."""
    given = settings.slurm_auth_token.get_secret_value()
    return StaticToken(given) if given else FileToken(settings.slurm_auth_token_file)


def token_name(settings: Settings) -> str:
    """The option or file that Slurm's token comes from, for messages."""
    if settings.slurm_auth_token.get_secret_value():
        return "--slurm-auth-token"
    return f"file {settings.slurm_auth_token_file}"


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


async def _not_just_refused(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer. One that says no (None or False) must come `_REFUSED_TIMES` in a row."""
    for _ in range(_REFUSED_TIMES - 1):
        if answer := await _answered(ask):
            return answer
        await asyncio.sleep(_REFUSED_SECONDS)
    return await _answered(ask)


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except KubeError as error:  # `on_answer` tells /readyz and the log
            log.debug("kubernetes did not answer, the request is repeated", error=str(error))
        await asyncio.sleep(_FIRST_ANSWER_SECONDS)
