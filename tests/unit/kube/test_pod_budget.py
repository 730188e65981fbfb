"""What one pod costs in memory, whatever its author writes into it (I13)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from annotations import Rules
from annotations.keys import DEFINITIONS
from scheduler.core.gang_sources import OTHERS_ANNOTATIONS
from scheduler.core.naming import ENDS_AT, JOB_ID, JOB_NODES, JOB_PARTITION
from scheduler.kube import slim
from scheduler.kube.clip import MOST_TEXT_BYTES as MOST_TEXT
from scheduler.kube.clip import clipped
from scheduler.kube.neighbours import MOST_AMOUNTS
from scheduler.kube.slim import edited, slimmed
from scheduler.kube.store import Store
from scheduler.kube.wire import PODS, Added, ObjectMeta, Pod, SchedulingGroup
from tests.support.costs import measured

PREFIX = Rules().prefixes[0]
DECODE = slimmed(PODS, prefixes=Rules().prefixes)
# What is weighed, and beside it the identity, conditions and container statuses.
BUDGET_BYTES = 2 * slim.MOST_POD_BYTES
ORDINARY_BYTES = 8 * 1024
COUNT = 4
_MANY = [str(number) for number in range(slim.MOST_WORDS)]

Body = dict[str, Any]


def body(number: int = 0, **more: Any) -> Body:
    resources = {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": "1"}}
    spec = {
        "schedulerName": "slurm-scheduler",
        "containers": [{"name": f"c{n}", "image": "x", "resources": resources} for n in range(3)],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    } | more.pop("spec", {})
    meta = {"name": f"pod-{number}", "namespace": "ns", "uid": f"uid-{number}"}
    meta |= more.pop("metadata", {})
    return {"metadata": meta, "spec": spec, "status": more.pop("status", {})}


def decoded(pod: Body) -> Pod:
    event = DECODE.event(json.dumps({"type": "ADDED", "object": pod}).encode())
    assert isinstance(event, Added)
    return event.object


def affinity(terms: int, values: int) -> Body:
    expression = {"key": "k", "operator": "In", "values": [f"v{n}" for n in range(values)]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}] * terms}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def own(count: int, size: int) -> Body:
    names = [it.key for it in DEFINITIONS]
    known = {PREFIX + name: "x" * size for name in names[:count]}
    return {"annotations": known | {f"{PREFIX}a{n}": "x" * size for n in range(count - len(known))}}


HOSTILE: dict[str, Body] = {
    "foreign annotations": {"metadata": {"annotations": {"evil/a": "x" * 250_000}}},
    "own annotations": {"metadata": own(200, 1_200)},
    "many own annotations": {"metadata": own(6_000, 1)},
    "forged sizes": {"metadata": {"annotations": dict.fromkeys(OTHERS_ANNOTATIONS, "1" * 60_000)}},
    "forged records": {"metadata": {"annotations": {JOB_ID: "1" * 250_000}}},
    "under our own prefix": {"metadata": {"annotations": {f"{JOB_ID}-x": "1" * 250_000}}},
    "labels": {"metadata": {"labels": {f"l{n}": "v" * 63 for n in range(8_000)}}},
    "finalizers": {"metadata": {"finalizers": [f"x/{n}" for n in range(20_000)]}},
    "owners": {
        "metadata": {
            "ownerReferences": [
                {"kind": "K" * 60, "name": f"n{n}", "uid": "u", "apiVersion": "v1"}
                for n in range(5_000)
            ]
        }
    },
    "node selector": {"spec": {"nodeSelector": {f"k{n}": "v" for n in range(20_000)}}},
    "affinity terms": {"spec": {"affinity": affinity(10_000, 1)}},
    "affinity values": {"spec": {"affinity": affinity(1, 50_000)}},
    "few words": {"spec": {"nodeSelector": {f"k{n}": "v" for n in range(400)}}},
    "tolerations": {"spec": {"tolerations": [{"key": f"k{n}"} for n in range(20_000)]}},
    "containers": {
        "spec": {
            "containers": [
                {"name": f"c{n}", "resources": {"requests": {"cpu": "1"}}, "env": []}
                for n in range(4_000)
            ]
        }
    },
    "requests": {
        "spec": {
            "containers": [
                {"name": "c", "resources": {"requests": {f"r{n}/x": "1" for n in range(8_000)}}}
            ]
        }
    },
    "gates": {"spec": {"schedulingGates": [{"name": f"g{n}"} for n in range(20_000)]}},
    "volumes": {"spec": {"volumes": [{"name": f"v{n}"} for n in range(20_000)]}},
    "conditions": {
        "status": {
            "conditions": [
                {"type": f"T{n}", "status": "True", "message": "m" * 1000} for n in range(1_000)
            ]
        }
    },
    "condition": {
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "m" * 1_000_000}]
        }
    },
    "statuses": {
        "status": {
            "message": "m" * 100_000,
            "containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": 1, "message": "m" * 4_000}}}
            ]
            * 300,
        }
    },
}


def kept_by(*bodies: Body) -> float:
    """Bytes of the store for each pod."""
    store = Store[Pod]()
    with measured() as cost:
        for pod in bodies:
            store.apply(decoded(pod))
    return cost.kept_bytes / len(bodies)


@pytest.mark.parametrize("node", ["", "n1"], ids=["waits", "on a Node"])
@pytest.mark.parametrize("shape", HOSTILE)
def test_hostile_pod_stays_within_the_budget(shape: str, node: str) -> None:
    pods = [body(n, **json.loads(json.dumps(HOSTILE[shape]))) for n in range(COUNT)]
    for pod in pods:
        pod["spec"]["nodeName"] = node
    assert kept_by(*pods) < BUDGET_BYTES


def test_pod_that_names_thousands_of_resources_still_takes_its_cpus() -> None:
    named = {f"a{n}/x": "1" for n in range(8_000)} | {"cpu": "4", "memory": "1Gi"}
    container = {"name": "c", "resources": {"requests": named}}
    large = decoded(body(spec={"nodeName": "n1", "containers": [container]})).oversize
    assert large is not None
    assert large.shape is not None
    assert len(large.shape.requests) == MOST_AMOUNTS
    assert dict(large.shape.requests)["cpu"] == 4000


def test_nothing_is_kept_of_a_large_pod_that_has_ended() -> None:
    spec = HOSTILE["containers"]["spec"] | {"nodeName": "n1"}
    large = decoded(body(spec=spec, status={"phase": "Failed"})).oversize
    assert large is not None
    assert large.shape is None


def test_ordinary_pod_costs_little_and_keeps_all_that_is_read() -> None:
    assert kept_by(*(body(n) for n in range(COUNT))) < ORDINARY_BYTES
    pod = decoded(body(metadata={"annotations": {PREFIX + "partition": "gpu", "other/a": "b"}}))
    assert pod.oversize is None
    assert pod.metadata.annotations == {PREFIX + "partition": "gpu"}
    assert len(pod.spec.containers) == 3


def test_what_says_to_which_gang_a_pod_belongs_is_kept() -> None:
    annotations = dict.fromkeys(OTHERS_ANNOTATIONS, "4")
    given = {"annotations": {**annotations, "other/a": "b"}, "labels": {"l": "v"}}
    pod = decoded(body(metadata=given, spec={"schedulingGroup": {"podGroupName": "ring"}}))
    assert pod.metadata.annotations == annotations
    assert pod.metadata.labels == {"l": "v"}
    assert pod.spec.scheduling_group == SchedulingGroup("ring")


@pytest.mark.parametrize(
    ("spec", "large"),
    [
        ({}, False),
        ({"nodeSelector": dict.fromkeys(_MANY[: slim.MOST_WORDS // 2], "")}, False),
        ({"nodeSelector": dict.fromkeys(_MANY[: slim.MOST_WORDS // 2 + 1], "")}, True),
        ({"tolerations": [{"key": "a"}] * (slim.MOST_WORDS // 4 + 1)}, False),
        ({"affinity": affinity(1, 600)}, True),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{}] * (slim.MOST_WORDS + 1)
                        }
                    }
                }
            },
            True,
        ),
        (
            {
                "topologySpreadConstraints": [
                    {"topologyKey": "a", "labelSelector": {"matchLabels": dict.fromkeys(_MANY, "")}}
                ]
            },
            True,
        ),
    ],
    ids=["plain", "labels", "a label more", "tolerations", "values", "empty terms", "spread"],
)
def test_pod_whose_json_is_short_is_judged_as_any_other(spec: Body, large: bool) -> None:
    whole = {"metadata": {"name": "p", "uid": "u"}, "spec": spec}
    data = json.dumps(whole, separators=(",", ":")).encode()
    assert len(data) <= slim.MOST_POD_BYTES // 16, "so short that its length alone may decide"
    pod = DECODE.item(data)
    assert pod == slim.slim(PODS.item(data), Rules().prefixes)
    assert (pod.oversize is not None) is large


def test_pod_of_sixty_containers_with_all_annotations_is_no_attack() -> None:
    names = {PREFIX + it.key: "x" * 60 for it in DEFINITIONS}
    containers = [
        {"name": f"container-{n}", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
        for n in range(60)
    ]
    tolerations = [
        {"key": f"k{n}", "operator": "Exists", "effect": "NoSchedule"} for n in range(40)
    ]
    spec = {"containers": containers, "tolerations": tolerations, "affinity": affinity(4, 50)}
    assert decoded(body(metadata={"annotations": names}, spec=spec)).oversize is None


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        ("own annotations", "metadata"),
        ("labels", "metadata"),
        ("affinity values", "spec"),
        ("few words", "spec: what says where the pod may go"),
        ("containers", "spec"),
    ],
)
def test_what_is_too_large_is_named(shape: str, part: str) -> None:
    large = decoded(body(**HOSTILE[shape])).oversize
    assert large is not None
    assert large.part.startswith(part)
    assert "at most" in large.most


def test_list_is_slimmed_like_the_watch() -> None:
    page = {"metadata": {}, "items": [body(**HOSTILE["affinity values"]), body(1)]}
    large, ordinary = DECODE.page(json.dumps(page).encode()).items or ()
    assert (large.oversize is None, ordinary.oversize is None) == (False, True)


@pytest.mark.parametrize("text", ["", "short", "x" * MOST_TEXT, "ä" * (MOST_TEXT // 2)])
def test_text_that_fits_is_not_cut(text: str) -> None:
    assert clipped(text) == text


@pytest.mark.parametrize("text", ["x" * 5000, "ä" * 5000, "😀" * 5000, "\ud800" * 5000])
def test_long_text_is_cut_in_bytes_between_characters(text: str) -> None:
    cut = clipped(text)
    assert MOST_TEXT - 4 <= len(cut.encode()) <= MOST_TEXT
    assert cut.endswith("…")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, False),
        ({}, {JOB_ID: "7", JOB_NODES: "n1", JOB_PARTITION: "gpu", ENDS_AT: "never"}, False),
        ({JOB_ID: "7"}, {}, False),
        ({}, {PREFIX + "comment": "new"}, True),
        ({PREFIX + "comment": "old", JOB_ID: "7"}, {PREFIX + "comment": "new"}, True),
        ({PREFIX + "comment": "old"}, {}, True),
    ],
)
def test_edit_is_told_from_what_the_scheduler_writes_itself(
    before: dict[str, str], after: dict[str, str], expected: bool
) -> None:
    old, new = (Pod(metadata=ObjectMeta(annotations=it)) for it in (before, after))
    assert edited(old, new) is expected
