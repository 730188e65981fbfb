"""The doctor's checks of Kubernetes, and the rights that the scheduler needs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from scheduler.config.settings import Settings
from scheduler.doctor.facts import AdmissionPolicy, Unread
from scheduler.doctor.rights import Right, rights_used
from tests.unit.doctor.facts import healthy, only, told, with_kube

MANIFESTS = Path(__file__).parents[3] / "deploy/manifests"
OWN = "slurm-pod-scheduler"
LWS = "leaderworkerset.x-k8s.io"


def granted(*names: str | Path) -> set[tuple[str, str, str, str]]:
    """Verb, resource, group and object of each right in these files."""
    bodies = [it for name in names for it in yaml.safe_load_all((MANIFESTS / name).read_text())]
    rules = [rule for body in bodies for rule in body.get("rules", ())]
    return {
        (verb, resource, group, name)
        for rule in rules
        for verb in rule["verbs"]
        for resource in rule["resources"]
        for group in rule["apiGroups"]
        for name in rule.get("resourceNames", [""])
    }


def wanted(**settings: object) -> set[tuple[str, str, str, str]]:
    given = Settings.model_validate({key.replace("_", "-"): it for key, it in settings.items()})
    found = rights_used(given, own=OWN)
    assert len(set(found)) == len(found)
    return {(it.verb, it.resource, it.group, it.name) for it in found}


def test_rights_are_those_of_the_manifests_for_the_cluster() -> None:
    assert wanted(leader_elect=True) == granted("rbac.yaml")


def test_rights_are_those_of_the_manifests_for_single_namespaces() -> None:
    names = ("rbac-namespaced.yaml", "rbac-nodes.yaml", "rbac-pods.yaml", "rbac-volumes.yaml")
    assert wanted(leader_elect=True, watch_namespace="team-a") == granted(*names)
    none = {f"{it}_access": "none" for it in ("node", "pod", "volume")}
    assert wanted(leader_elect=True, watch_namespace="team-a", **none) == granted(names[0])


def test_rights_follow_the_settings() -> None:
    assert ("create", "pods/eviction", "", "") in wanted(eviction_policy="budget")
    assert not {it for it in wanted(cluster_id="here") if it[1] == "namespaces"}
    assert not {it for it in wanted(leader_elect=False) if it[1] == "leases"}


@pytest.mark.parametrize(
    ("sources", "read"),
    [
        ("", set()),
        ("annotations,kueue", set()),
        ("job", {("jobs", "batch")}),
        ("lws,jobset", {("leaderworkersets", LWS), ("jobsets", "jobset.x-k8s.io")}),
    ],
)
def test_object_of_a_gang_is_read_where_its_source_is_on(
    sources: str, read: set[tuple[str, str]]
) -> None:
    more = wanted(gangs=sources) - wanted(gangs="")
    assert more == {("get", plural, group, "") for plural, group in read}


@pytest.mark.parametrize(
    ("source", "group"),
    [("pod-group", "scheduling.k8s.io"), ("scheduler-plugins", "scheduling.x-k8s.io")],
)
def test_pod_group_is_read_and_written_on_where_its_source_is_on(source: str, group: str) -> None:
    more = wanted(gangs=source) - wanted(gangs="")
    assert more == {("get", "podgroups", group, ""), ("patch", "podgroups/status", group, "")}


def test_page_needs_reviews_and_events() -> None:
    more = wanted(page_bind_address="127.0.0.1:8082") - wanted()
    assert more == {
        ("list", "events", "", ""),
        ("create", "tokenreviews", "authentication.k8s.io", ""),
        ("create", "subjectaccessreviews", "authorization.k8s.io", ""),
    }


def test_policy_that_selects_by_labels_needs_the_right_of_its_example() -> None:
    settings = Settings.model_validate({})
    more = set(rights_used(settings, own=OWN, reads_labels=True)) - set(
        rights_used(settings, own=OWN)
    )
    path = MANIFESTS.parent / "examples/rbac-namespaces.yaml"
    assert {(it.verb, it.resource, it.group, it.name) for it in more} == granted(path)
    assert all(it.needed for it in more)


def test_api_server_without_an_answer_is_one_error() -> None:
    facts = with_kube(
        healthy(), version=Unread("nothing listens", "refused"), rights=Unread(""), nodes=Unread("")
    )
    assert told(facts, "kubernetes-api") == [("error", "nothing listens")]
    assert told(facts, "rights") == []


def test_missing_right_is_an_error_that_names_it_and_its_purpose() -> None:
    facts = healthy()
    assert isinstance(facts.kube.rights, dict)
    lacking = {it: it.resource != "pods/binding" for it in facts.kube.rights}
    found = only(with_kube(facts, rights=lacking), "rights")
    assert found.severity.word == "error"
    assert "create pods/binding (to bind pods)" in found.what


def test_right_that_the_scheduler_does_without_is_noted() -> None:
    facts = healthy()
    assert isinstance(facts.kube.rights, dict)
    lacking = {it: it.needed for it in facts.kube.rights}
    found = only(with_kube(facts, rights=lacking), "rights")
    assert found.severity.word == "note"
    assert "list nodes" in found.what


def test_right_is_written_with_group_object_and_place() -> None:
    lease = Right("get", "leases", "", group="coordination.k8s.io", namespace="here", name="one")
    assert str(lease) == "get leases.coordination.k8s.io one in here"


def test_namespace_that_does_not_exist_is_a_warning() -> None:
    facts = with_kube(healthy(watch_namespace="team-a,team-b"), absent=("team-b",))
    assert "team-b" in only(facts, "namespaces").what
    assert only(facts, "namespaces").severity.word == "warning"


def test_election_without_a_namespace_is_an_error() -> None:
    facts = with_kube(healthy(leader_elect=True), own_namespace="")
    assert only(facts, "own-namespace").severity.word == "error"
    assert told(healthy(leader_elect=True), "own-namespace") == []


@pytest.mark.parametrize(
    ("policies", "severity", "words"),
    [
        ((), "note", "no admission policy"),
        (Unread("403", "denied"), "note", "may not read"),
        ((AdmissionPolicy("p", {}, bound=False),), "warning", "without a binding: p"),
        (
            (AdmissionPolicy("p", {"slurm-kill-wait": "30s"}, bound=True),),
            "warning",
            "'30s' for '60s'",
        ),
        ((AdmissionPolicy("p", {"slurm-kill-wait": "1m"}, bound=True),), "ok", "p"),
        (
            (AdmissionPolicy("p", {"grace-policy": "guarded"}, bound=True),),
            "warning",
            "for 'strict'",
        ),
    ],
)
def test_admission_policies_are_in_force_with_the_settings_of_the_scheduler(
    policies: tuple[AdmissionPolicy, ...] | Unread, severity: str, words: str
) -> None:
    found = only(with_kube(healthy(), policies=policies), "admission")
    assert found.severity.word == severity
    assert words in found.what


def test_policy_that_refuses_what_the_guard_allows_is_one_that_differs(tmp_path: Path) -> None:
    """Without the hooks API, `auto` is what `strict` is, and nothing differs."""
    policies = (AdmissionPolicy("p", {"grace-policy": "strict"}, bound=True),)
    assert only(with_kube(healthy(), policies=policies), "admission").severity.word == "ok"
    guarded = healthy(hooks_api_token_file=tmp_path / "token")
    found = only(with_kube(guarded, policies=policies), "admission")
    assert "p has grace-policy 'strict' for 'auto'" in found.what
