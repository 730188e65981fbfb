"""The rights that the scheduler needs in Kubernetes, according to its settings.

This is the one list of them in the code: a test compares it with the roles in deploy/manifests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scheduler.config.settings import Settings
from scheduler.core.gang_sources import OBJECTS, TOLD_BY_PHASE, Source
from scheduler.kube.identity import SYSTEM_NAMESPACE

_IDENTITY: Final = "to tell this cluster from others on the same Slurm"
_LABELS: Final = "for the rules of the policy that select by labels"
_PAGE: Final = "for the live page (--page-bind-address)"
_VOLUMES: Final = "to serve pods with claims"


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource, such as "create" on "pods/binding". `namespace` is "" for all of them,
    and for objects of the cluster. `name` is "" for objects of any name. Without a right that is
    not `needed`, the scheduler does without what `purpose` names.
    """

    verb: str
    resource: str
    purpose: str
    group: str = ""
    namespace: str = ""
    name: str = ""
    needed: bool = True

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        where = f" in {self.namespace}" if self.namespace not in {"", self.name} else ""
        return f"{self.verb} {self.resource}{group}{name}{where}"


def rights_used(settings: Settings, *, own: str, reads_labels: bool = False) -> tuple[Right, ...]:
    """All rights that the scheduler uses with these settings. `own` is the namespace that it runs
    in, "" if it is not known. `reads_labels` says that rules of the policy select by the labels of
    Namespaces.
    """
    served = settings.watch_namespace or ("",)
    return (
        *(right for namespace in served for right in _on_pods(settings, namespace)),
        *_for_checks(settings),
        *(_to_list("namespaces", "read", _LABELS) if reads_labels else ()),
        *_in_its_own_namespace(settings, own),
        *_for_the_page(settings),
    )


def _on_pods(settings: Settings, namespace: str) -> Iterator[Right]:
    for verb in ("get", "list", "watch", "delete"):
        purpose = "to end pods whose job has ended" if verb == "delete" else "to serve pods"
        yield Right(verb, "pods", purpose, namespace=namespace)
    yield Right("create", "pods/binding", "to bind pods", namespace=namespace)
    yield Right("patch", "pods/status", "to say on pods why they wait", namespace=namespace)
    if settings.eviction_policy == "budget":
        purpose = "for --eviction-policy=budget"
        yield Right("create", "pods/eviction", purpose, namespace=namespace)
    yield from _on_events(namespace)
    for source in settings.gangs:
        if source in OBJECTS:
            yield from _on_groups(source, namespace)


def _on_groups(source: Source, namespace: str) -> Iterator[Right]:
    """The rights on the objects behind gangs."""
    api_version, plural = OBJECTS[source]
    group = api_version.partition("/")[0]
    yield Right("get", plural, f"for gangs of {source}", group=group, namespace=namespace)
    if source in TOLD_BY_PHASE:
        yield Right(
            "patch",
            f"{plural}/status",
            f"to say on the objects of {source} how their gangs stand",
            group=group,
            namespace=namespace,
            needed=False,
        )


def _on_events(namespace: str) -> Iterator[Right]:
    for verb in ("create", "patch"):
        yield Right(verb, "events", "to record Events", namespace=namespace)


def _for_checks(settings: Settings) -> Iterator[Right]:
    """The rights to list Nodes, other pods, claims and volumes, and to identify the cluster."""
    yield from _to_list("nodes", settings.node_access, "to check Nodes before a bind")
    if settings.watch_namespace:
        beside = "to check that pods fit beside those of other schedulers"
        yield from _to_list("pods", settings.pod_access, beside)
    for namespace in settings.watch_namespace or ("",):
        claims = "persistentvolumeclaims"
        yield from _to_list(claims, settings.volume_access, _VOLUMES, namespace=namespace)
    yield from _to_list("persistentvolumes", settings.volume_access, _VOLUMES)
    if not settings.cluster_id and not settings.watch_namespace:
        yield Right(
            "get", "namespaces", _IDENTITY, namespace=SYSTEM_NAMESPACE, name=SYSTEM_NAMESPACE
        )


def _to_list(resource: str, access: str, purpose: str, *, namespace: str = "") -> Iterator[Right]:
    """The rights to keep a list of these objects; none if the setting is "none"."""
    for verb in () if access == "none" else ("list", "watch"):
        yield Right(verb, resource, purpose, namespace=namespace, needed=access == "read")


def _for_the_page(settings: Settings) -> Iterator[Right]:
    if settings.page_bind_address is None:
        return
    for namespace in settings.watch_namespace or ("",):
        yield Right("list", "events", _PAGE, namespace=namespace, needed=False)
    if settings.page_access == "token":
        yield Right("create", "tokenreviews", _PAGE, group="authentication.k8s.io")
        yield Right("create", "subjectaccessreviews", _PAGE, group="authorization.k8s.io")


def _in_its_own_namespace(settings: Settings, own: str) -> Iterator[Right]:
    if settings.watch_namespace and own not in {"", *settings.watch_namespace}:
        yield from _on_events(own)
    if settings.watch_namespace and own and not settings.cluster_id:
        yield Right("get", "namespaces", _IDENTITY, namespace=own, name=own)
    home = settings.leader_elect_resource_namespace or own
    if not settings.leader_elect or not home:
        return
    for verb in ("create", "get", "update"):
        yield Right(
            verb,
            "leases",
            "to elect a leader",
            group="coordination.k8s.io",
            namespace=home,
            name="" if verb == "create" else settings.leader_elect_resource_name,
        )
