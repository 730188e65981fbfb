"""What becomes of manifests that were written for SUNK or for slurm-bridge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml

from annotations import Rules
from annotations.keys import DEFINITIONS
from scheduler.migrate.bridge import ROWS, translated
from scheduler.migrate.objects import TEMPLATES
from tests.unit.migrate.manifests import (
    BRIDGE,
    SITE,
    SUNK,
    after,
    annotations_of,
    bridge_job,
    examined,
    pod_spec,
    sunk_pod,
    texts,
)

OF_SUNK = {it.key: it.example for it in DEFINITIONS if it.sunk}


@pytest.mark.parametrize(("name", "value"), OF_SUNK.items())
def test_annotation_of_sunk_stays_as_it_is(name: str, value: str) -> None:
    found = examined(sunk_pod(**{name: value}))
    assert (found.edits, texts(found)) == ([], [])


@pytest.mark.parametrize("word", ["none", "ok", "user", "mcs", "topo", "true", "false"])
def test_words_of_sunk_for_exclusive_stay_as_they_are(word: str) -> None:
    found = examined(sunk_pod(exclusive=word))
    assert (found.edits, texts(found)) == ([], [])


def test_name_of_sunks_scheduler_stays_unless_another_is_wanted() -> None:
    other = replace(SITE, scheduler_name="trial")
    assert not examined(sunk_pod()).edits
    assert after(sunk_pod(), site=other)["spec"]["schedulerName"] == "trial"


def test_pod_of_another_scheduler_stays_as_it_is() -> None:
    pod = sunk_pod() | {"metadata": {"name": "p"}}
    pod["spec"]["schedulerName"] = "volcano"
    del pod["spec"]["terminationGracePeriodSeconds"]
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "slurm"}}
    assert not examined(pod, about).edits
    assert examined(pod, about, site=replace(SITE, old_names=frozenset({"volcano"}))).edits


def test_annotation_of_sunk_that_is_not_known_here_is_told_with_a_remedy() -> None:
    found = examined(sunk_pod(partitions="gpu"))
    assert not found.edits
    assert texts(found) == [
        f"{SUNK}partitions is 'gpu'; expected a known annotation, such as 'partition'"
    ]


def test_annotations_of_sunk_around_a_pod_are_told_of() -> None:
    job = bridge_job()
    job["metadata"]["annotations"] = {f"{SUNK}account": "physics"}
    job["spec"]["template"]["spec"]["schedulerName"] = "slurm-scheduler"
    (told,) = texts(examined(job))
    assert told.startswith(f"metadata.annotations[{SUNK}account] is 'physics'; expected it in ")
    assert "spec.template.metadata.annotations" in told


@pytest.mark.parametrize(
    ("grace", "rules", "left"),
    [
        (None, Rules(), 24),
        (30, Rules(), 24),
        (24, Rules(), 24),
        (300, Rules(kill_wait_seconds=60), 54),
        (None, Rules(grace_policy="guarded"), None),
        (None, Rules(kill_wait_seconds=3), None),
    ],
)
def test_grace_period_that_is_refused_is_cut(grace, rules, left) -> None:
    pod = sunk_pod()
    pod["spec"]["terminationGracePeriodSeconds"] = grace
    if grace is None:
        del pod["spec"]["terminationGracePeriodSeconds"]
    changed = after(pod, site=replace(SITE, rules=rules))
    assert changed["spec"].get("terminationGracePeriodSeconds") == left


def test_what_the_scheduler_refuses_is_told_in_its_words() -> None:
    pod = sunk_pod(exclusive="ok", timeout="1h")
    pod["spec"]["containers"] = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    told = "\n".join(texts(examined(pod)))
    assert f"{SUNK}timeout is '1h'; expected a whole number of seconds" in told
    assert "resources.requests.cpu" in told
    assert "resources.requests.memory" in told


def test_annotations_of_the_job_move_to_its_pods() -> None:
    job = after(bridge_job(account="foo", timelimit="5", licenses="matlab:2"))
    assert "annotations" not in job["metadata"]
    assert annotations_of(job) == {
        "account": "foo",
        "timeout": "300",
        "licenses": "matlab:2",
        "exclusive": "whole-node",
    }
    assert job["spec"]["template"]["spec"]["schedulerName"] == "slurm-scheduler"


def test_old_name_of_slurm_bridge_becomes_the_name_here() -> None:
    job = bridge_job(account="a")
    job["spec"]["template"]["spec"]["schedulerName"] = "batch"
    assert after(job)["spec"]["template"]["spec"]["schedulerName"] == "batch"
    site = replace(SITE, old_names=frozenset({"batch"}))
    assert after(job, site=site)["spec"]["template"]["spec"]["schedulerName"] == "slurm-scheduler"


def test_second_time_there_is_nothing_to_change() -> None:
    job = after(bridge_job(account="foo", exclusive="false"))
    found = examined(job)
    assert (found.edits, texts(found)) == ([], [])


@pytest.mark.parametrize(
    ("value", "ours"), [("false", "false"), (" False ", "false"), ("yes", "whole-node")]
)
def test_exclusive_of_slurm_bridge_is_a_switch(value: str, ours: str) -> None:
    found = after(bridge_job(exclusive=value, account="a"))
    assert annotations_of(found)["exclusive"] == ours


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", "300"),
        ("90s", "120"),
        ("2h", "7200"),
        ("1w", "604800"),
        ("1:30", "120"),
        ("1:30:00", "5400"),
        ("1-0", "86400"),
        ("1-2:30", "95400"),
        ("1-2:30:30", "95460"),
    ],
)
def test_time_limit_is_in_seconds_here(value: str, seconds: str) -> None:
    assert translated("timelimit", value) == ("timeout", seconds)


@pytest.mark.parametrize("value", ["", "0", "soon", "1:2:3:4", "٣", "9" * 10, "UNLIMITED"])
def test_time_limit_that_nobody_reads_is_told(value: str) -> None:
    found = examined(bridge_job(timelimit=value))
    assert f"{BRIDGE}timelimit is {value!r}; expected minutes" in texts(found)[0]
    assert after(bridge_job(timelimit=value))["metadata"]["annotations"]


@pytest.mark.parametrize("name", [it for it, row in ROWS.items() if row.ours is None])
def test_annotation_without_an_equivalent_stays_and_is_told(name: str) -> None:
    job = bridge_job(None, **{name: "2"})
    assert after(job)["metadata"]["annotations"] == {BRIDGE + name: "2"}
    assert [
        it.startswith(f"{BRIDGE}{name} is '2'; expected no such") for it in texts(examined(job))
    ]


@pytest.mark.parametrize("name", ["min-nodes", "max-nodes"])
def test_one_node_is_what_a_pod_is_anyway(name: str) -> None:
    job = bridge_job(None, **{name: "1"})
    assert "annotations" not in after(job)["metadata"]
    assert texts(examined(job)) == []


def test_annotation_that_is_none_of_slurm_bridge_is_told() -> None:
    assert "expected an annotation of slurm-bridge" in texts(examined(bridge_job(colour="red")))[0]


def test_annotation_on_the_template_is_renamed_and_told_because_it_did_nothing_there() -> None:
    job = bridge_job({f"{BRIDGE}qos": "high", f"{BRIDGE}account": "theirs"}, account="ours")
    assert annotations_of(after(job)) == {
        "qos": "high",
        "account": "ours",
        "exclusive": "whole-node",
    }
    (told,) = texts(examined(job))
    assert f"metadata.annotations[{SUNK}qos] is 'high'; expected it on purpose" in told


def test_two_values_for_one_annotation_are_left_to_people() -> None:
    job = bridge_job({f"{SUNK}account": "theirs"}, account="ours")
    assert after(job)["metadata"]["annotations"] == {f"{BRIDGE}account": "ours"}
    assert f"expected the value of {SUNK}account, 'theirs'" in texts(examined(job))[0]


def test_the_same_value_twice_is_one() -> None:
    job = bridge_job({f"{SUNK}account": "a", f"{BRIDGE}account": "a"}, account="a")
    assert annotations_of(after(job)) == {"account": "a", "exclusive": "whole-node"}
    assert texts(examined(job)) == []


def test_pods_own_annotations_are_renamed_in_their_place() -> None:
    pod = sunk_pod()
    pod["metadata"]["annotations"] = {"first": "1", f"{BRIDGE}qos": "high", "last": "2"}
    assert list(after(pod)["metadata"]["annotations"]) == [
        *("first", f"{SUNK}qos", "last", f"{SUNK}exclusive")
    ]


def wrapped(kind: str, template: dict[str, Any]) -> dict[str, Any]:
    """An object of this kind around a pod template, with an account where slurm-bridge reads it."""
    own = {"name": "x", "annotations": {f"{BRIDGE}account": "a"}}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": own, "spec": template["spec"]}
    spec: dict[str, Any] = {"template": template}
    if kind == "CronJob":
        spec = {"jobTemplate": {"metadata": {"annotations": own.pop("annotations")}, "spec": spec}}
    if kind == "JobSet":
        spec = {"replicatedJobs": [{"name": "a", "template": {"spec": spec}}]}
    if kind == "LeaderWorkerSet":
        spec = {"leaderWorkerTemplate": {"workerTemplate": template}}
    groups = {
        "ReplicationController": "v1",
        "Job": "batch/v1",
        "CronJob": "batch/v1",
        "JobSet": "jobset.x-k8s.io/v1alpha2",
        "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    }
    group = groups.get(kind, "apps/v1")
    return {"apiVersion": group, "kind": kind, "metadata": own, "spec": spec}


@pytest.mark.parametrize("kind", sorted(kind for _, kind in TEMPLATES))
@pytest.mark.parametrize("listed", [False, True])
def test_pods_of_each_kind_are_found(kind: str, listed: bool) -> None:
    body = wrapped(kind, {"spec": pod_spec()})
    if listed:
        body = {"apiVersion": "v1", "kind": "List", "items": [{"kind": "Other"}, body]}
    text = examined(body).new_text
    assert f"{SUNK}account: a\n" in text
    assert BRIDGE not in text


def test_kind_that_is_not_known_stays_as_it_is_and_is_told() -> None:
    body = wrapped("Deployment", {"spec": pod_spec()}) | {"apiVersion": "example.com/v1"}
    found = examined(body)
    assert not found.edits
    assert any("what a Deployment is, is not known here" in it for it in texts(found))
    spec = pod_spec(schedulerName="default-scheduler")
    other = {"apiVersion": "x/v1", "kind": "X", "spec": {"deep": [{"template": {"spec": spec}}]}}
    assert texts(examined(other, {"note": "slurm"})) == []


def test_group_of_pods_is_told_of() -> None:
    group: dict[str, Any] = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "annotations": {f"{BRIDGE}partition": "gpu"}},
    }
    group["metadata"]["annotations"][f"{BRIDGE}job-name"] = "n"
    job = bridge_job()
    job["spec"]["template"]["metadata"] = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
    told = texts(examined(group, job))
    assert "expected it in the pod templates" in told[0]
    assert "expected no such annotation: the job is called" in told[1]


def test_job_with_several_pods_at_once_is_told_of() -> None:
    job = bridge_job()
    job["spec"] |= {"parallelism": 4, "completions": 4}
    assert "spec.parallelism is '4'; expected pods that start together" in texts(examined(job))[0]
    job["spec"]["completions"] = 40
    assert not any("start together" in it for it in texts(examined(job)))


def test_job_set_with_several_pods_is_told_of() -> None:
    job_set = wrapped("JobSet", {"spec": pod_spec(schedulerName="slurm-bridge-scheduler")})
    (part,) = job_set["spec"]["replicatedJobs"]
    assert not any("start together" in it for it in texts(examined(job_set)))
    part["replicas"] = 3
    part["template"]["spec"]["parallelism"] = 2
    told = texts(examined(job_set))[0]
    assert "spec.replicatedJobs is '6 pods'; expected pods that start together" in told
    part |= {"replicas": "3", "template": {"spec": part["template"]["spec"]}}
    assert "is '2 pods'" in texts(examined(job_set))[0]


def test_what_slurm_bridge_has_written_is_told_of() -> None:
    job = bridge_job()
    own = {"labels": {"scheduler.slinky.slurm.net/slurm-jobid": "7"}}
    job["spec"]["template"]["metadata"] = own
    assert "slurm-bridge writes it on pods" in texts(examined(job))[0]


@pytest.mark.parametrize("name", ["amd.com/gpu", "deviceclass.resource.kubernetes.io/gpu.x"])
def test_devices_that_are_not_counted_here_are_told_of(name: str) -> None:
    job = bridge_job()
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {name: "1"}
    assert f"resources.limits[{name}] is '1'; expected" in texts(examined(job))[0]


@pytest.mark.parametrize(
    "given",
    [
        {"args": ["--slurm-api-base=slurm-controller:6817"]},
        {"args": ["--slurm-api-base", "slurm-controller:6817"]},
        {"env": [{"name": "SLURM_POD_SCHEDULER_SLURM_API_BASE", "value": "http://h:6817/"}]},
        {"slurm-api-base": "slurm-controller:6817"},
        {"scheduler": {"config": {"slurm": {"apiBase": "slurm-controller:6817"}}}},
        {"sharedConfig": {"slurmRestApi": "slurm-restapi:6820"}},
    ],
)
def test_address_of_slurmctld_is_told(given: dict[str, Any]) -> None:
    assert any("expected the URL of slurmrestd" in it for it in texts(examined(given)))


@pytest.mark.parametrize("base", ["http://h:6820", "https://h/", "unix:/run/s", "$(BASE)", ""])
def test_address_of_slurmrestd_is_not_told(base: str) -> None:
    assert texts(examined({"slurm-api-base": base, "args": ["--slurm-api-base"]})) == []


def test_values_of_sunks_chart_need_slurmrestd_and_no_second_scheduler() -> None:
    values = {"scheduler": {"enabled": True}, "rest": {}, "syncer": {}}
    rest, scheduler = texts(examined(values))
    assert rest.startswith("rest.enabled is not set; expected true")
    assert scheduler.startswith("scheduler.enabled is 'true'; expected false")
    done = {"scheduler": {"enabled": False}, "rest": {"enabled": True}}
    assert texts(examined(done)) == []


def test_values_of_slurm_bridges_chart_are_told_with_what_does_the_same_here() -> None:
    values = {"schedulerConfig": {"partition": "p"}, "sharedConfig": {"slurmRestApi": "http://r:1"}}
    partition, address = texts(examined(values))
    assert "a policy with defaults" in partition
    assert "--slurm-api-base" in address


def oddities() -> list[Any]:
    name = f"{BRIDGE}account"
    job = bridge_job(account="a")
    return [
        {"kind": "Pod", "apiVersion": "v1", "metadata": [], "spec": {"containers": [1]}},
        {**sunk_pod(), "spec": {**pod_spec(), "schedulerName": {"slurm": 1}}},
        {**sunk_pod(), "spec": {**pod_spec(), "terminationGracePeriodSeconds": "soon"}},
        {**sunk_pod(), "spec": {**pod_spec(), "containers": [{"resources": "slurm"}]}},
        {**sunk_pod(), "spec": {**pod_spec(), "containers": ["slurm"]}},
        {**sunk_pod(), "metadata": {"name": ["slurm"], "annotations": {name: 7, 7: 7}}},
        {**job, "spec": {"template": {**job["spec"]["template"], "metadata": {"labels": 3}}}},
        {**job, "spec": {"template": {**job["spec"]["template"], "metadata": None}}},
        {**job, "spec": []},
        {**job, "kind": ["slurm"]},
        {"kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1", "spec": {"replicatedJobs": "slurm"}},
        {"kind": "List", "items": ["slurm", None, {"kind": "List", "items": {"a": 1}}]},
        {"scheduler": "slurm", "rest": 1},
        {"schedulerConfig": [], "sharedConfig": {"slurmRestApi": {"a": 1}}},
        ["slurm", ["--slurm-api-base"]],
        "slurm",
    ]


@pytest.mark.parametrize("odd", oddities(), ids=str)
def test_what_is_no_manifest_makes_no_trouble(odd: Any) -> None:
    found = examined(odd)
    assert list(yaml.safe_load_all(found.new_text))
