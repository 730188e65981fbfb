"""The kinds of objects that the model serves, and the differences between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    """A path below an object: a part of it with a right of its own, or an action on it.

    `kind`, `group` and `version` describe the body that is sent there. An empty group or version is
    that of the object.
    """

    name: str
    verbs: tuple[str, ...]
    kind: str
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of the API, as discovery lists it.

    `tracks_generation`: metadata.generation counts the changes of spec. `returns_deleted`: the
    answer to a deletion is the object instead of a Status. `notes_managers`: it is noted who has
    written which part of the status. `stored_as` names the resource that
    stores these objects, if this resource only shows them in another version.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    has_spec: bool = True
    tracks_generation: bool = False
    returns_deleted: bool = False
    orphans_by_default: bool = False
    notes_managers: bool = False
    subresources: tuple[Subresource, ...] = ()
    fields: frozenset[str] = frozenset()
    stored_as: str = ""
    verbs: tuple[str, ...] = VERBS
    api_version: str = field(init=False)
    storage: str = field(init=False)

    def __post_init__(self) -> None:
        version = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", version)
        storage = f"{self.plural}.{self.group}" if self.group else self.plural
        object.__setattr__(self, "storage", self.stored_as or storage)

    @property
    def list_kind(self) -> str:
        """The kind of a list of these objects."""
        return f"{self.kind}List"

    @property
    def singular(self) -> str:
        """The singular name of the resource."""
        return self.kind.lower()

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name; None if there is none."""
        if name == "status" and self.has_status:
            return Subresource(name="status", verbs=("get", "patch", "update"), kind=self.kind)
        return next((sub for sub in self.subresources if sub.name == name), None)


BINDING = Subresource(name="binding", verbs=("create",), kind="Binding")
EVICTION = Subresource(
    name="eviction", verbs=("create",), kind="Eviction", group="policy", version="v1"
)
SCALE = Subresource(
    name="scale", verbs=("get", "patch", "update"), kind="Scale", group="autoscaling", version="v1"
)
RESIZE = Subresource(name="resize", verbs=("get", "patch", "update"), kind="Pod")
LOG = Subresource(name="log", verbs=("get",), kind="Pod")
FINALIZE = Subresource(name="finalize", verbs=("update",), kind="Namespace")

POD_FIELDS = frozenset(
    {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    }
)
EVENT_FIELDS = frozenset(
    {
        *(
            f"involvedObject.{part}"
            for part in (
                "kind",
                "namespace",
                "name",
                "uid",
                "apiVersion",
                "resourceVersion",
                "fieldPath",
            )
        ),
        "reason",
        "reportingComponent",
        "source",
        "type",
    }
)
NEW_EVENT_FIELDS = frozenset(
    {name.replace("involvedObject.", "regarding.") for name in EVENT_FIELDS}
    | {"reportingController"}
)

PODS = Resource(
    group="",
    version="v1",
    plural="pods",
    kind="Pod",
    short=("po",),
    categories=("all",),
    has_status=True,
    tracks_generation=True,
    returns_deleted=True,
    subresources=(BINDING, EVICTION, LOG, RESIZE),
    fields=POD_FIELDS,
)
NODES = Resource(
    group="",
    version="v1",
    plural="nodes",
    kind="Node",
    namespaced=False,
    short=("no",),
    has_status=True,
    fields=frozenset({"spec.unschedulable"}),
)
NAMESPACES = Resource(
    group="",
    version="v1",
    plural="namespaces",
    kind="Namespace",
    namespaced=False,
    short=("ns",),
    has_status=True,
    subresources=(FINALIZE,),
    fields=frozenset({"status.phase"}),
    verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
)
EVENTS = Resource(
    group="",
    version="v1",
    plural="events",
    kind="Event",
    short=("ev",),
    has_spec=False,
    fields=EVENT_FIELDS,
)
CONFIGMAPS = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", short=("cm",), has_spec=False
)
SECRETS = Resource(
    group="",
    version="v1",
    plural="secrets",
    kind="Secret",
    has_spec=False,
    fields=frozenset({"type"}),
)
SERVICE_ACCOUNTS = Resource(
    group="",
    version="v1",
    plural="serviceaccounts",
    kind="ServiceAccount",
    short=("sa",),
    has_spec=False,
    returns_deleted=True,
)
SERVICES = Resource(
    group="",
    version="v1",
    plural="services",
    kind="Service",
    short=("svc",),
    categories=("all",),
    has_status=True,
    returns_deleted=True,
)
CLAIMS = Resource(
    group="",
    version="v1",
    plural="persistentvolumeclaims",
    kind="PersistentVolumeClaim",
    short=("pvc",),
    has_status=True,
    returns_deleted=True,
)
VOLUMES = Resource(
    group="",
    version="v1",
    plural="persistentvolumes",
    kind="PersistentVolume",
    namespaced=False,
    short=("pv",),
    has_status=True,
    returns_deleted=True,
)
NEW_EVENTS = Resource(
    group="events.k8s.io",
    version="v1",
    plural="events",
    kind="Event",
    short=("ev",),
    has_spec=False,
    fields=NEW_EVENT_FIELDS,
    stored_as="events",
)
LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases", kind="Lease")
DEPLOYMENTS = Resource(
    group="apps",
    version="v1",
    plural="deployments",
    kind="Deployment",
    short=("deploy",),
    categories=("all",),
    has_status=True,
    tracks_generation=True,
    subresources=(SCALE,),
)
REPLICA_SETS = Resource(
    group="apps",
    version="v1",
    plural="replicasets",
    kind="ReplicaSet",
    short=("rs",),
    categories=("all",),
    has_status=True,
    tracks_generation=True,
    subresources=(SCALE,),
    fields=frozenset({"status.replicas"}),
)
JOBS = Resource(
    group="batch",
    version="v1",
    plural="jobs",
    kind="Job",
    categories=("all",),
    has_status=True,
    tracks_generation=True,
    orphans_by_default=True,
    fields=frozenset({"status.successful"}),
)
BUDGETS = Resource(
    group="policy",
    version="v1",
    plural="poddisruptionbudgets",
    kind="PodDisruptionBudget",
    short=("pdb",),
    has_status=True,
    tracks_generation=True,
)


# Objects that stand for groups of pods. No controller acts on them here.
POD_GROUPS = Resource(
    group="scheduling.k8s.io",
    version="v1alpha2",
    plural="podgroups",
    kind="PodGroup",
    has_status=True,
    notes_managers=True,
)
PLUGINS_POD_GROUPS = Resource(
    group="scheduling.x-k8s.io",
    version="v1alpha1",
    plural="podgroups",
    kind="PodGroup",
    short=("pg", "pgs"),
    has_status=True,
    notes_managers=True,
)
LEADER_WORKER_SETS = Resource(
    group="leaderworkerset.x-k8s.io",
    version="v1",
    plural="leaderworkersets",
    kind="LeaderWorkerSet",
    short=("lws",),
)
JOB_SETS = Resource(group="jobset.x-k8s.io", version="v1alpha2", plural="jobsets", kind="JobSet")


POLICIES = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    namespaced=False,
    tracks_generation=True,
)
POLICY_BINDINGS = Resource(
    group="admissionregistration.k8s.io",
    version="v1",
    plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding",
    namespaced=False,
    tracks_generation=True,
)


def _review(group: str, plural: str, kind: str, *, namespaced: bool = False) -> Resource:
    return Resource(
        group=group,
        version="v1",
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        verbs=("create",),
    )


REVIEWS = (
    _review("authentication.k8s.io", "tokenreviews", "TokenReview"),
    _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    _review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review(
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        namespaced=True,
    ),
)

RESOURCES: tuple[Resource, ...] = (
    CONFIGMAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    CLAIMS,
    VOLUMES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    DEPLOYMENTS,
    REPLICA_SETS,
    JOBS,
    LEASES,
    NEW_EVENTS,
    BUDGETS,
    POD_GROUPS,
    PLUGINS_POD_GROUPS,
    LEADER_WORKER_SETS,
    JOB_SETS,
    POLICIES,
    POLICY_BINDINGS,
    *REVIEWS,
)

BY_PATH = {(r.group, r.version, r.plural): r for r in RESOURCES}
STORED = tuple(r for r in RESOURCES if "list" in r.verbs and not r.stored_as)
BY_STORAGE = {r.storage: r for r in STORED}
REVIEW_KINDS = frozenset(r.kind for r in REVIEWS)
