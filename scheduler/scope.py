"""What this process is and may: the identity of its cluster, and whether it may read Nodes.

Asked once at the start, of the API server itself; one that does not answer yet is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import structlog

from scheduler.kube.api import KubeApi
from scheduler.kube.errors import Forbidden, KubeError
from scheduler.settings import Settings
from slurmapi import FileToken, StaticToken, TokenSource

T = TypeVar("T")
log = structlog.get_logger(__name__)

_FIRST_ANSWER_SECONDS: Final = 2.0
_SYSTEM: Final = "kube-system"
# Kubernetes tells every container the namespace of its service account here.
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ClusterIdError(Exception):
    """Nothing tells this Kubernetes cluster from others."""


async def cluster_id(settings: Settings, api: KubeApi) -> str:
    """As set, else the uid of kube-system, else of our own namespace. Raises ClusterIdError."""
    if settings.cluster_id:
        return settings.cluster_id
    own = await own_namespace(settings)
    for namespace in filter(None, (_SYSTEM, own)):
        uid = await _answered(partial(api.get_namespace_uid, namespace))
        if uid is not None:
            return uid
    told = f"namespaces {_SYSTEM} and {own} cannot" if own else f"namespace {_SYSTEM} cannot"
    raise ClusterIdError(
        f"--cluster-id: '': {told} be read, so give this cluster a name that no other cluster on "
        "the same Slurm has"
    )


async def own_namespace(settings: Settings) -> str:
    """As set, else as Kubernetes tells it; empty outside of a cluster."""
    return settings.own_namespace or await asyncio.to_thread(_own_namespace)


async def may_read_nodes(settings: Settings, api: KubeApi) -> bool:
    """As `--node-access` says; `auto` asks for a Node and takes a Forbidden for a no."""
    if settings.node_access != "auto":
        return settings.node_access == "read"

    async def ask() -> bool:
        try:
            await api.probe("/api/v1/nodes")
        except Forbidden:
            return False
        return True

    return await _answered(ask)


def token_of(settings: Settings) -> TokenSource:
    """Where Slurm's token comes from."""
    given = settings.slurm_auth_token.get_secret_value()
    return StaticToken(given) if given else FileToken(settings.slurm_auth_token_file)


def _own_namespace() -> str:
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except KubeError as error:
            log.warning("the kubernetes API server does not answer", error=str(error))
        await asyncio.sleep(_FIRST_ANSWER_SECONDS)
