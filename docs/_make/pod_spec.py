"""The table of docs/pod-spec.md: what becomes of each part of a pod's spec.

Whether a part is refused, and in which words, is asked of the code that refuses pods: each row has
a spec to try. A test holds the rows complete: each field of `PodSpec` is read by one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec

from annotations import ContainerResources, JobRequest, PodView, Problem, Rules, parse
from scheduler.core.ignorable import Ignorable
from scheduler.facts.requirements import Requirements
from scheduler.kube.store import Store
from scheduler.kube.wire import PersistentVolume, Pod, SentClaim, decoder
from scheduler.nodes.fit import NodeFit
from scheduler.nodes.volumes import Volumes
from scheduler.policy.rulebook import Rulebook

Spec = Mapping[str, Any]
SERVED: Final = "served"
_NAMESPACE: Final = "ns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`part` is the field as a manifest writes it, `becomes` what the scheduler does with it.
    `spec` is tried on the code; `ignorable` is the name by which a site may have it ignored.
    `unchecked` says that without rights nothing is refused, and nothing compared with Nodes.
    """

    part: str
    becomes: str
    reads: tuple[str, ...] = ()
    spec: Spec = field(default_factory=dict)
    ignorable: Ignorable | None = None
    unchecked: bool = False


def _affinity(kind: str) -> Spec:
    terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _spread(when_unsatisfiable: str) -> Spec:
    term = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when_unsatisfiable}
    return {"topologySpreadConstraints": [term]}


def _volume(name: str) -> Spec:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def _container(**parts: Any) -> Spec:
    return {"containers": [{"name": "main", **parts}]}


ROWS: Final = (
    Row(
        part="`schedulerName`",
        reads=("scheduler_name",),
        becomes="chooses the scheduler: `--scheduler-name`",
    ),
    Row(
        part="`schedulingGates`",
        reads=("scheduling_gates",),
        becomes="no job is submitted before all of them are removed",
    ),
    Row(
        part="`schedulingGroup`",
        reads=("scheduling_group",),
        becomes="names the pod's PodGroup; if that has a gang policy, its pods share one job",
    ),
    Row(
        part="`nodeName`",
        reads=("node_name",),
        becomes="set by the scheduler's binding; a pod that somebody else has bound gets no job",
    ),
    Row(
        part="`resources` of containers, init containers, sidecars and of the pod; `overhead`",
        reads=("containers", "init_containers", "overhead", "resources"),
        becomes="CPU, memory and GPUs become the job's "
        "([how](annotations.md#cpu-memory-and-gpus)). All resources must also be free on the Node "
        "[beside other pods](nodes.md#beside-other-pods)",
        unchecked=True,
    ),
    Row(
        part="extended resources and huge pages that are not a GRES of Slurm "
        "(`--device-resources`)",
        becomes="must be free on the Node",
        spec=_container(resources={"requests": {"example.com/fpga": "1"}}),
        ignorable="resources",
    ),
    Row(
        part="`containers[].ports[].hostPort`, and so `hostNetwork` with ports",
        becomes="must be free on the Node",
        spec=_container(ports=[{"hostPort": 8080, "protocol": "TCP"}]),
        ignorable="host-ports",
    ),
    Row(
        part="`nodeSelector`, required `nodeAffinity`, `tolerations`",
        reads=("node_selector", "affinity", "tolerations"),
        becomes="rules out Nodes as in kube-scheduler; a Node that is not ready or cordoned gets "
        "no pod, whatever the pod tolerates",
        unchecked=True,
        spec={"nodeSelector": {"zone": "a"}},
    ),
    Row(
        part="required `podAffinity`, `podAntiAffinity`",
        becomes="rules out Nodes as in kube-scheduler, also by the anti-affinity of running pods",
        spec=_affinity("podAntiAffinity"),
        ignorable="pod-affinity",
    ),
    Row(
        part="`topologySpreadConstraints` with `DoNotSchedule`",
        reads=("topology_spread_constraints",),
        becomes="rules out Nodes as in kube-scheduler",
        spec=_spread("DoNotSchedule"),
        ignorable="topology-spread",
    ),
    Row(
        part="what is only preferred: `preferredDuringScheduling…` of any affinity, "
        "`ScheduleAnyway`",
        becomes="has no effect: Slurm chooses among the Nodes that are possible",
        spec=_spread("ScheduleAnyway"),
    ),
    Row(
        part="volumes with a PersistentVolumeClaim that is bound",
        reads=("volumes",),
        becomes="rules out Nodes that do not reach the volume (its `nodeAffinity`)",
        spec=_volume("bound"),
        ignorable="volumes",
    ),
    Row(
        part="volumes with a claim that is not bound (`WaitForFirstConsumer`), also of the kind "
        "`ephemeral`",
        becomes="nobody chooses a volume for it; served once it is bound",
        spec=_volume("unbound"),
        ignorable="volumes",
    ),
    Row(
        part="volumes with a claim that does not exist",
        becomes="served once it exists and is bound",
        spec=_volume("absent"),
        ignorable="volumes",
    ),
    Row(
        part="volumes without a claim: `emptyDir`, `configMap`, `hostPath`, ...",
        becomes="are the kubelet's concern",
        spec={"volumes": [{"name": "scratch", "emptyDir": {}}]},
    ),
    Row(
        part="`resourceClaims` (DRA)",
        reads=("resource_claims",),
        becomes="nothing is allocated for them",
        spec={"resourceClaims": [{"name": "gpu"}]},
        ignorable="resource-claims",
    ),
    Row(
        part="`terminationGracePeriodSeconds`",
        reads=("termination_grace_period_seconds",),
        becomes="must be over before Slurm gives the node to the next job: "
        "[the grace rule](annotations.md#the-grace-rule). Kubernetes' default, 30, is too long for "
        "Slurm's default KillWait, unless the handover guard is known",
        spec={"terminationGracePeriodSeconds": 30},
    ),
    Row(
        part="`activeDeadlineSeconds`",
        reads=("active_deadline_seconds",),
        becomes="the job's time limit, if `timeout` is not less "
        "([how long a pod may run](annotations.md#how-long-a-pod-may-run))",
        spec={"activeDeadlineSeconds": 3600},
    ),
    Row(
        part="`priorityClassName`, `priority`",
        reads=("priority_class_name", "priority"),
        becomes="have no effect of their own, and no pod is preempted for them; a rule of "
        "[the policy](policy.md#priorityclass) may turn a PriorityClass into a QoS, a partition or "
        "a priority",
        spec={"priorityClassName": "urgent", "priority": 1000},
    ),
    Row(
        part="everything else, such as images, commands, probes, `restartPolicy`, `hostname`, "
        "`securityContext`",
        reads=("restart_policy", "hostname"),
        becomes="is the kubelet's concern, and has no part in the choice of the Node",
    ),
)


def table() -> str:
    """What becomes of each part of the spec, then what refused pods say, in Markdown."""
    parts = ("Part of the spec", "What becomes of it", "With all rights", "Without", "Ignorable as")
    said = ("A pod with", "is refused with")
    return f"{_lines(parts, map(_cells, ROWS))}\n{_lines(said, _refusals())}"


def verdict(spec: Spec, *, rights: bool) -> str:
    """What is said of a pod with this spec: `SERVED`, or the refusal. `rights` are those to list
    pods, Nodes, claims and volumes.
    """
    found = _pod(spec)
    problems, _ = _requirements(rights=rights).judge(found)
    asked = _asked(found)
    refused = (*(() if isinstance(asked, JobRequest) else asked), *problems)
    return "; ".join(problem.text for problem in refused) or SERVED


def _lines(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


def _cells(row: Row) -> tuple[str, ...]:
    full, bare = (_word(verdict(row.spec, rights=rights)) for rights in (True, False))
    name = f"`{row.ignorable}`" if row.ignorable else ""
    return (row.part, row.becomes, full, f"{bare}, not checked" if row.unchecked else bare, name)


def _word(said: str) -> str:
    return said if said == SERVED else "refused"


def _refusals() -> Iterator[tuple[str, ...]]:
    for row in ROWS:
        found = (verdict(row.spec, rights=rights) for rights in (True, False))
        texts = dict.fromkeys(f"`{it}`" for it in found if it != SERVED)
        if texts:
            yield row.part, "; without the rights: ".join(texts)


def _pod(spec: Spec) -> Pod:
    meta = {"name": "pod", "namespace": _NAMESPACE, "uid": "uid"}
    plain = {"containers": [{"name": "main"}], "terminationGracePeriodSeconds": 20}
    return decoder(Pod)(msgspec.json.encode({"metadata": meta, "spec": {**plain, **spec}}))


def _asked(pod: Pod) -> JobRequest | tuple[Problem, ...]:
    resources = {"cpu": "1", "memory": "1Gi"}
    view = PodView(
        annotations={},
        containers=(ContainerResources(name="main", requests=resources),),
        termination_grace_period_seconds=pod.spec.termination_grace_period_seconds,
        active_deadline_seconds=pod.spec.active_deadline_seconds,
    )
    return parse(view, Rules())


def _requirements(*, rights: bool) -> Requirements:
    # It is only asked whether neighbours and volumes may be read.
    fit = cast("NodeFit", SimpleNamespace(readable=rights))
    rulebook = Rulebook(prefixes=())
    volumes = _volumes(rights=rights)
    return Requirements(fit, volumes, rulebook=rulebook, ignored=(), devices={})


def _volumes(*, rights: bool) -> Volumes:
    store = Store[PersistentVolume]()
    meta = {"name": "volume", "uid": "volume", "resourceVersion": "1"}
    belongs = {"claimRef": {"namespace": _NAMESPACE, "name": "bound"}}
    volume = msgspec.json.encode({"metadata": meta, "spec": belongs})
    store.apply(decoder(PersistentVolume)(volume))
    found = Volumes(store)
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    for name, marks, spec in (("bound", done, {"volumeName": "volume"}), ("unbound", {}, {})):
        about = {"name": name, "namespace": _NAMESPACE, "annotations": marks}
        body = {"metadata": about, "spec": spec}
        found.claim_changed(None, decoder(SentClaim)(msgspec.json.encode(body)).kept)
    if not rights:
        found.do_without()
    return found
