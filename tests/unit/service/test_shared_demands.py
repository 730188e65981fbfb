"""Pods of one template share what was read of their demands, and no other pods do."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.node_suitability import Requirement, Term, Toleration
from scheduler.kube.wire import (
    Affinity,
    Container,
    ContainerPort,
    ContainerStatus,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    PodStatus,
    Quantity,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from scheduler.nodes.fit import _Reader, demands_of

_CPU: Final[dict[str, Quantity]] = {"cpu": "4"}
_TERMS: Final = PodAffinity((PodAffinityTerm("zone", LabelSelector({"app": "web"})),))
_NODES: Final = NodeAffinity(NodeSelector((Term((Requirement("arch", "In", ("arm64",)),)),)))
_SIZED: Final = ContainerStatus(name="c", resources=ResourceRequirements(requests={"cpu": "8"}))
_REFUSED: Final = PodCondition("PodResizePending", "True", reason="Infeasible")
# For each field the value that is usual, and another one.
_META: Final[dict[str, tuple[Any, Any]]] = {
    "namespace": ("ns", "other"),
    "labels": ({"app": "web"}, {"app": "web", "rank": "1"}),
}
_SPEC: Final[dict[str, tuple[Any, Any]]] = {
    "containers": (
        (Container("c", ResourceRequirements(requests=_CPU)),),
        (Container("c", ports=(ContainerPort(8080),)),),
    ),
    "init_containers": ((), (Container("i", ResourceRequirements(requests={"cpu": "6"})),)),
    "overhead": ({}, {"cpu": "1"}),
    "resources": (None, ResourceRequirements(requests={"cpu": "9"})),
    "affinity": (None, Affinity(_TERMS, _NODES, _TERMS)),
    "node_selector": ({}, {"disk": "ssd"}),
    "tolerations": ((), (Toleration("gpu", "Exists"),)),
    "topology_spread_constraints": (
        (),
        (TopologySpreadConstraint(1, "zone", "DoNotSchedule", match_label_keys=("rank",)),),
    ),
    "hostname": ("", "web-1"),
}
_STATUS: Final[dict[str, tuple[Any, Any]]] = {
    "container_statuses": ((), (_SIZED,)),
    "conditions": ((), (_REFUSED,)),
}
_OF_NO_MATTER: Final = {
    "node_name",
    "scheduler_name",
    "termination_grace_period_seconds",
    "scheduling_gates",
    "priority",
    "priority_class_name",
    "restart_policy",
    "active_deadline_seconds",
    "volumes",
    "resource_claims",
    "scheduling_group",
}
"""Where a pod may go does not depend on these, or they are asked for each pod."""
_FIELDS: Final = (*_META, *_SPEC, *_STATUS)


def pod(others: frozenset[str]) -> Pod:
    """A pod with the other value in these fields."""
    meta, spec, status = (
        {name: values[name in others] for name, values in part.items()}
        for part in (_META, _SPEC, _STATUS)
    )
    return Pod(ObjectMeta(uid="uid", **meta), PodSpec(**spec), PodStatus(**status))


@given(st.lists(st.frozensets(st.sampled_from(_FIELDS), max_size=3), max_size=12))
def test_each_pod_gets_its_own_demands(kinds):
    reader = _Reader()
    for others in kinds:
        read = reader(pod(others))
        assert read.demands == demands_of(pod(others))
        assert read.special == read.demands.special
        assert read.plain.plain


def test_pod_that_differs_in_one_field_is_read_apart():
    for name in _FIELDS:
        reader = _Reader()
        reader(pod(frozenset()))
        found = reader(pod(frozenset({name})))
        assert found.demands == demands_of(pod(frozenset({name}))), name


def test_pods_of_one_template_share_what_was_read_but_for_their_labels():
    reader = _Reader()
    first = reader(pod(frozenset()))
    for others in ({"hostname"}, {"labels"}):
        read = reader(pod(frozenset(others)))
        assert read.plain is first.plain
        assert read.demands.requests is first.demands.requests
        assert (read.demands.labels == first.demands.labels) == ("labels" not in others)


def test_each_field_of_a_spec_was_thought_of():
    """A new one must be part of the template, if demands are read from it."""
    assert set(PodSpec.__struct_fields__) == {*_SPEC, *_OF_NO_MATTER}
