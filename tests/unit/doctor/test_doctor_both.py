"""The doctor's checks that compare Slurm with Kubernetes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.doctor.facts import NodePods, Pair, PodsOnNodes, Running, Unread
from tests.unit.doctor.facts import (
    healthy,
    kube_node,
    only,
    pair,
    slurm_node,
    told,
    with_kube,
    with_pairs,
)


def test_healthy_servers_get_no_warning() -> None:
    facts = healthy()
    names = ("node-mapping", "node-readiness", "capacity", "foreign-pods", "clocks")
    assert [only(facts, name).severity.word for name in names] == ["ok"] * len(names)


@pytest.mark.parametrize(("lost", "severity"), [(1, "note"), (2, "error")])
def test_slurm_nodes_without_a_node_are_named_with_the_reason(lost: int, severity: str) -> None:
    gone = [Pair(slurm_node(f"x{it}"), "", "maps to no Kubernetes Node") for it in range(lost)]
    found = only(with_pairs(healthy(), [*gone, *[pair("a")] * (2 - lost)]), "node-mapping")
    assert found.severity.word == severity
    assert "x0 maps to no Kubernetes Node" in found.what


def test_map_file_that_cannot_be_read_is_an_error() -> None:
    facts = replace(healthy(), pairs=Unread("--node-mapping: /map: No such file", "map_file"))
    assert told(facts, "node-mapping") == [("error", "--node-mapping: /map: No such file")]


def test_mapping_that_could_not_be_checked_is_a_warning_that_says_why() -> None:
    facts = replace(healthy(), pairs=Unread("no answer within 15 s", "timeout"))
    (found,) = told(facts, "node-mapping")
    assert found == ("warning", "mappings could not be checked: no answer within 15 s")
    assert told(replace(healthy(), pairs=Unread("")), "node-mapping") == []


def test_nodes_that_may_not_be_read_are_noted() -> None:
    assert only(with_kube(healthy(), nodes=Unread("403", "denied")), "node-mapping").remedy


@pytest.mark.parametrize("state", ["IDLE", "MIXED", "ALLOCATED", "CLOUD"])
def test_cordoned_node_that_slurm_offers_is_a_warning(state: str) -> None:
    closed = [
        pair("a", kube_node("a", cordoned=True), states=frozenset({state})),
        pair("b", kube_node("b", ready=False), states=frozenset({state})),
    ]
    found = only(with_pairs(healthy(), closed), "node-readiness")
    assert found.severity.word == "warning"
    assert "a (cordoned), b (not ready)" in found.what


def test_cordoned_node_that_is_drained_is_as_it_should_be() -> None:
    drained = pair("a", kube_node("a", cordoned=True), states=frozenset({"IDLE", "DRAIN"}))
    assert only(with_pairs(healthy(), [drained, pair("b")]), "node-readiness").severity.word == "ok"


def test_what_slurm_reserves_for_the_system_is_not_counted() -> None:
    """CoreSpecCount and MemSpecLimit, as the remedies of both checks advise."""
    node = kube_node("a", {"cpu": "62", "memory": "1500Mi"})
    system = PodsOnNodes({"a": NodePods(3, {"cpu": 2000, "memory": 100 * 2**20})}, {"default": 3})
    reserved = pair("a", node, job_cpus=60, specialized_memory_mib=600)
    facts = replace(with_pairs(healthy(), [reserved]), crowd=system)
    for check in ("capacity", "foreign-pods"):
        assert only(facts, check).severity.word == "ok", told(facts, check)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cpu": "63500m"}, "more cpu"),
        ({"memory": "1999Mi"}, "more memory in MiB"),
        ({"nvidia.com/gpu": "7"}, "more nvidia.com/gpu"),
    ],
)
def test_more_in_slurm_than_on_the_node_is_a_warning(given: dict[str, str], words: str) -> None:
    found = only(with_pairs(healthy(), [pair("a", kube_node("a", given))]), "capacity")
    assert found.severity.word == "warning"
    assert words in found.what
    assert "a (" in found.what


def test_gpus_that_slurm_does_not_know_of_are_noted() -> None:
    found = only(with_pairs(healthy(), [pair("a", gres="gpu:h100:6")]), "capacity")
    assert found.severity.word == "note"
    assert "6 in Slurm, 8 on its Node" in found.what


def test_node_whose_kubelet_has_not_reported_is_not_compared() -> None:
    silent = kube_node("a")
    silent = type(silent)(silent.metadata, silent.spec)
    assert only(with_pairs(healthy(), [pair("a", silent)]), "capacity").severity.word == "ok"


def crowd(node: str, *, whole: bool = True, **requests: int) -> PodsOnNodes:
    return PodsOnNodes({node: NodePods(2, requests)}, {"default-scheduler": 2}, whole)


def test_foreign_pods_that_take_what_slurm_gives_are_a_warning() -> None:
    facts = replace(healthy(), crowd=crowd("a", cpu=1500))
    found = only(facts, "foreign-pods")
    assert found.severity.word == "warning"
    assert "a (64 cpu in Slurm, 62 left)" in found.what
    assert "default-scheduler" in found.what


def test_foreign_pods_in_the_room_that_slurm_leaves_are_as_they_should_be() -> None:
    roomy = [pair("a", cpus=62), pair("b")]
    facts = with_pairs(replace(healthy(), crowd=crowd("a", cpu=1500)), roomy)
    assert "2 pods of other schedulers" in only(facts, "foreign-pods").what
    assert only(facts, "foreign-pods").severity.word == "ok"


def test_foreign_pods_elsewhere_do_not_matter() -> None:
    facts = replace(healthy(), crowd=crowd("elsewhere", cpu=99_000))
    assert only(facts, "foreign-pods").severity.word == "ok"


def test_more_pods_than_are_read_are_noted() -> None:
    found = told(replace(healthy(), crowd=crowd("a", whole=False)), "foreign-pods")
    assert found[0][0] == "note"


@pytest.mark.parametrize(
    ("slurm", "kube", "severity", "words"),
    [
        (2.0, -2.0, "ok", "agree"),
        (30.0, 0.0, "warning", "slurmctld is 30 s ahead of that of this machine"),
        (0.0, -9.0, "warning", "9 s ahead of that of the API server"),
        (None, 0.5, "ok", "this machine, the API server agree"),
    ],
)
def test_clocks_are_compared(slurm: float | None, kube: float, severity: str, words: str) -> None:
    facts = with_kube(replace(healthy(), slurm_seconds_off=slurm), seconds_off=kube)
    found = only(facts, "clocks")
    assert found.severity.word == severity
    assert words in found.what


def test_nodes_that_may_not_be_read_are_not_judged() -> None:
    facts = with_pairs(healthy(), [Pair(slurm_node("a"), "a")])
    for check in ("node-readiness", "capacity", "foreign-pods"):
        assert told(facts, check) == []


def test_policy_file_is_judged_before_the_scheduler_starts_with_it(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    assert told(healthy(), "policy-file") == []
    assert only(healthy(policy_file=path), "policy-file").severity.word == "ok"
    wrong = replace(healthy(policy_file=path), policy=f"{path}: rules: expected a list")
    found = only(wrong, "policy-file")
    assert found.severity.word == "error"
    assert "rules: expected a list" in found.what


URL = "http://127.0.0.1:8081/readyz"


@pytest.mark.parametrize(
    ("running", "severity", "words"),
    [
        (None, "note", "no scheduler listens"),
        (Unread("it answers 404"), "note", "it answers 404"),
        (Running(URL, True, ("ok", "leads: here")), "ok", "leads: here"),
        (Running(URL, False, ("Slurm has not answered yet",)), "error", "Slurm has not answered"),
    ],
)
def test_scheduler_that_runs_here_is_asked_whether_it_is_ready(
    running: Running | Unread | None, severity: str, words: str
) -> None:
    found = only(replace(healthy(), running=running), "scheduler")
    assert found.severity.word == severity
    assert words in found.what


def test_scheduler_without_probes_is_not_asked() -> None:
    assert told(healthy(health_probe_bind_address="0"), "scheduler") == []
