"""The table of calls: every kind of request that the scheduler sends to either server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qsl


class Server(StrEnum):
    """The server that a request goes to."""

    SLURM = "slurm"
    KUBE = "kube"


class Reads(StrEnum):
    """What a read returns; some faults only fit lists, others only watches."""

    NOTHING = "nothing"
    ONE = "one"
    LIST = "list"
    WATCH = "watch"


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of request. One that reads nothing is a write."""

    server: Server
    name: str
    method: str
    path: re.Pattern[str]
    reads: Reads = Reads.NOTHING
    of_others: bool = False
    """Whether it asks for the pods on Nodes, whosever they are: two reads have that path."""

    @property
    def writes(self) -> bool:
        """Whether it may change something on the server."""
        return self.reads is Reads.NOTHING

    def fits(self, server: Server, method: str, path: str, *, watch: bool, of_others: bool) -> bool:
        """Whether a request is of this kind."""
        return (
            (self.server, self.method) == (server, method)
            and (self.reads is Reads.WATCH) == watch
            and self.of_others == of_others
            and self.path.fullmatch(path) is not None
        )


def _slurm(name: str, method: str, path: str, reads: Reads = Reads.NOTHING) -> Call:
    return Call(Server.SLURM, name, method, re.compile(rf"/slurm/v[0-9.]+/{path}/?"), reads)


def _kube(
    name: str, method: str, path: str, reads: Reads = Reads.NOTHING, *, of_others: bool = False
) -> Call:
    return Call(Server.KUBE, name, method, re.compile(path), reads, of_others)


_PODS: Final = "/api/v1(?:/namespaces/[^/]+)?/pods"
_POD: Final = "/api/v1/namespaces/[^/]+/pods/[^/]+"
_CLAIMS: Final = "/api/v1(?:/namespaces/[^/]+)?/persistentvolumeclaims"
_VOLUMES: Final = "/api/v1/persistentvolumes"
_GROUP: Final = (
    "/apis/[^/]+/[^/]+/namespaces/[^/]+/(?:jobs|jobsets|leaderworkersets|podgroups)/[^/]+"
)
_EVENTS: Final = "/api/v1/namespaces/[^/]+/events"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/[^/]+/leases"
_SLURM_CALLS: Final = (
    _slurm("ping", "GET", "ping", Reads.ONE),
    _slurm("config", "GET", "conf", Reads.ONE),
    _slurm("nodes", "GET", "nodes", Reads.LIST),
    _slurm("node", "GET", "node/[^/]+", Reads.ONE),
    _slurm("partitions", "GET", "partitions", Reads.LIST),
    _slurm("job", "GET", "job/[0-9]+", Reads.ONE),
    _slurm("job_states", "GET", "jobs/state", Reads.LIST),
    _slurm("submit", "POST", "job/submit"),
    _slurm("update_job", "POST", "job/[0-9]+"),
    _slurm("cancel", "DELETE", "jobs"),
)
_KUBE_CALLS: Final = (
    _kube("list_pods", "GET", _PODS, Reads.LIST),
    _kube("watch_pods", "GET", _PODS, Reads.WATCH),
    _kube("list_neighbours", "GET", "/api/v1/pods", Reads.LIST, of_others=True),
    _kube("watch_neighbours", "GET", "/api/v1/pods", Reads.WATCH, of_others=True),
    _kube("list_nodes", "GET", "/api/v1/nodes", Reads.LIST),
    _kube("watch_nodes", "GET", "/api/v1/nodes", Reads.WATCH),
    _kube("list_namespaces", "GET", "/api/v1/namespaces", Reads.LIST),
    _kube("watch_namespaces", "GET", "/api/v1/namespaces", Reads.WATCH),
    _kube("list_claims", "GET", _CLAIMS, Reads.LIST),
    _kube("watch_claims", "GET", _CLAIMS, Reads.WATCH),
    _kube("list_volumes", "GET", _VOLUMES, Reads.LIST),
    _kube("watch_volumes", "GET", _VOLUMES, Reads.WATCH),
    _kube("get_namespace", "GET", "/api/v1/namespaces/[^/]+", Reads.ONE),
    _kube("get_pod", "GET", _POD, Reads.ONE),
    _kube("get_group", "GET", _GROUP, Reads.ONE),
    _kube("list_apis", "GET", "/apis", Reads.ONE),
    _kube("version", "GET", "/version", Reads.ONE),
    _kube("bind", "POST", f"{_POD}/binding"),
    _kube("patch_pod_status", "PATCH", f"{_POD}/status"),
    _kube("patch_group_status", "PATCH", f"{_GROUP}/status"),
    _kube("delete_pod", "DELETE", _POD),
    _kube("evict_pod", "POST", f"{_POD}/eviction"),
    _kube("create_event", "POST", _EVENTS),
    _kube("patch_event", "PATCH", f"{_EVENTS}/[^/]+"),
    _kube("get_lease", "GET", f"{_LEASES}/[^/]+", Reads.ONE),
    _kube("create_lease", "POST", _LEASES),
    _kube("update_lease", "PUT", f"{_LEASES}/[^/]+"),
)
CALLS: Final = (*_SLURM_CALLS, *_KUBE_CALLS)


def call_of(server: Server, method: str, target: str) -> Call | None:
    """The kind of a request by its target, None for one that the table lacks."""
    path, _, query = target.partition("?")
    asked = dict(parse_qsl(query))
    watch = asked.get("watch") == "true"
    of_others = asked.get("fieldSelector", "").startswith("spec.nodeName!=")
    fitting = (
        it for it in CALLS if it.fits(server, method, path, watch=watch, of_others=of_others)
    )
    return next(fitting, None)
