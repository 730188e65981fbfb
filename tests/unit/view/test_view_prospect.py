"""What is asked, what is next and which command is named, by what stands on the pod."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from scheduler.core.event_reasons import MEANINGS, Reason
from scheduler.core.pending_reasons import REASONS
from scheduler.view.asked import asked
from scheduler.view.prospect import meaning_of
from scheduler.view.seen import Sighting
from scheduler.view.story import Story, story
from tests.unit.view.pods import NAMES, OURS, SITE, SUNK, decoded, pod, waiting

GOING = {"deletionTimestamp": "2026-11-24T05:30:00Z", "deletionGracePeriodSeconds": 20}


def told(body: dict[str, Any]) -> Story:
    found = decoded(body)
    owner = next(iter(found.metadata.owner_references), None)
    seen = Sighting(namespace="default", name="train", pod=found, owner=owner)
    return story(seen, NAMES, "slurm-scheduler")


def pends(reason: str, more: str = "") -> dict[str, Any]:
    return waiting(f"Slurm job 7 is pending: {reason}{more}", "SlurmPending")


@pytest.mark.parametrize(
    ("annotations", "status", "first"),
    [
        ({}, pends("Resources"), "kubectl wait --for=condition=PodScheduled"),
        ({}, pends("JobHeldAdmin"), "scontrol release 7"),
        (
            {SUNK + "hold": "true"},
            pends("JobHeldUser"),
            "kubectl annotate --overwrite -n default pod/train sunk.coreweave.com/hold=false",
        ),
        (
            {SITE + "timeout": "9"},
            pends("PartitionTimeLimit"),
            "kubectl annotate --overwrite -n default pod/train slurm.example.com/timeout=VALUE",
        ),
        (
            {},
            pends("PartitionTimeLimit"),
            "kubectl annotate --overwrite -n default pod/train sunk.coreweave.com/timeout=VALUE",
        ),
        (
            {SUNK + "qos": "x"},
            waiting("Slurm refused: sunk.coreweave.com/qos is 'x'", "SlurmRejected"),
            "kubectl annotate --overwrite -n default pod/train sunk.coreweave.com/qos=VALUE",
        ),
        (
            {},
            waiting("None of the 2 Nodes can take the pod", "NoNodeFits"),
            "kubectl get -n default pod/train -o yaml > pod.yaml",
        ),
        (
            {SUNK + "qoss": "x"},
            waiting("sunk.coreweave.com/qoss is 'x'; expected ...", "SchedulingFailed"),
            "kubectl annotate --overwrite -n default pod/train sunk.coreweave.com/qoss-",
        ),
        (
            {},
            waiting("spec.terminationGracePeriodSeconds is '30'", "SchedulingFailed"),
            "kubectl get -n default pod/train -o yaml > pod.yaml",
        ),
        ({}, {}, "kubectl get pods -A -l app.kubernetes.io/name=slurm-pod-scheduler"),
        ({}, {"phase": "Running"}, "kubectl logs -n default pod/train"),
        ({}, {"phase": "Failed"}, "kubectl logs -n default pod/train"),
    ],
)
def test_first_command_fits_the_case(
    annotations: dict[str, str], status: dict[str, Any], first: str
) -> None:
    node = "n" if "phase" in status else ""
    body = pod(annotations={OURS + "job-id": "7", **annotations}, status=status, nodeName=node)
    steps = told(body).prospect.steps
    assert steps[0].command.startswith(first)
    assert len(steps) <= 3


def test_partition_that_is_refused_leads_to_those_that_there_are() -> None:
    status = waiting("Slurm refused: sunk.coreweave.com/partition is 'x'", "SlurmRejected")
    steps = told(pod(annotations={SUNK + "partition": "x"}, status=status)).prospect.steps
    assert steps[1].command == "kubectl slurm partitions -n default"


def test_gated_pod_is_told_whose_turn_it_is() -> None:
    found = told(pod(schedulingGates=[{"name": "quota.example.com/wait"}]))
    assert "scheduling gate quota.example.com/wait is removed" in found.prospect.what
    assert ("scheduling gate", "quota.example.com/wait") in [
        (it.what, it.value) for it in found.asked
    ]


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ([], "nobody makes it again"),
        (
            [{"apiVersion": "x.io/v1", "kind": "Set", "name": "s", "controller": True}],
            "Set s decides whether another pod follows",
        ),
    ],
)
def test_pod_that_goes_says_whether_another_follows(owner: list[Any], said: str) -> None:
    meta = GOING | {"ownerReferences": owner}
    assert said in told(pod(nodeName="n", status={"phase": "Running"}, meta=meta)).prospect.what


def test_owner_of_another_group_is_named_as_kubectl_takes_it() -> None:
    owner = {"apiVersion": "x.io/v1", "kind": "Set", "name": "s", "controller": True}
    status = waiting("None of the 2 Nodes can take the pod", "NoNodeFits")
    steps = told(pod(status=status, meta={"ownerReferences": [owner]})).prospect.steps
    assert "kubectl edit -n default set.v1.x.io/s" in [it.command for it in steps]


def test_end_of_a_pod_that_runs_is_told() -> None:
    ends = {OURS + "ends-at": "2026-11-24T07:00:00+01:00"}
    body = pod(annotations=ends, nodeName="n", status={"phase": "Running"})
    assert "Slurm ends it at 2026-11-24 06:00:00 UTC" in told(body).prospect.what


@pytest.mark.parametrize("reason", [*REASONS, *Reason, "QOSGrpCpuLimit"])
def test_command_for_each_reason_is_one_that_a_shell_reads(reason: str) -> None:
    """The tables of reasons grow; no remedy in them may become half a command."""
    condition = "SlurmPending" if reason not in set(Reason) else reason
    text = f"Slurm job 7 is pending: {reason}" if reason not in set(Reason) else "words"
    evil = {OURS + "job-id": "7", SUNK + "partition": "a b;c"}
    steps = told(pod(annotations=evil, status=waiting(text, condition))).prospect.steps
    assert steps
    for step in steps:
        assert "`" not in step.command
        assert " ID" not in step.command
        subprocess.run(["sh", "-n", "-c", step.command], check=True, timeout=60)


def test_every_reason_of_the_tables_has_a_meaning_without_links() -> None:
    for reason in (*REASONS, *MEANINGS):
        found = meaning_of(reason)
        assert found is not None
        assert "](" not in found.meaning + found.remedy
    assert meaning_of("NoSuchReason") is None


def rows(body: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {it.what: (it.value, it.source, it.problem) for it in asked(decoded(body), NAMES)}


def test_each_value_names_the_field_that_it_comes_from() -> None:
    half = {"name": "s", "resources": {"requests": {"cpu": "500m"}}, "restartPolicy": "Always"}
    found = rows(
        pod(
            annotations={SUNK + "qos": "high", SITE + "account": "a", "other.io/x": "y"},
            initContainers=[half],
            overhead={"memory": "1Gi"},
            nodeSelector={"disk": "ssd"},
            activeDeadlineSeconds=90,
            terminationGracePeriodSeconds=7,
        )
    )
    cpu = "resources.requests.cpu"
    assert found["cpus"] == ("2", f"spec.initContainers[s].{cpu}, spec.containers[c].{cpu}", "")
    memory = "spec.containers[c].resources.requests.memory, spec.overhead.memory"
    assert found["memory"] == ("3Gi", memory, "")
    assert found["qos"] == ("high", "annotation sunk.coreweave.com/qos", "")
    assert found["account"] == ("a", "annotation slurm.example.com/account", "")
    assert found["partition"] == ("", "default: the cluster's default", "")
    assert found["time limit"] == ("90 s", "spec.activeDeadlineSeconds", "")
    assert "timeout" not in found  # the pod has a limit, so the partition's default does not count
    assert found["grace period"] == ("7 s", "spec.terminationGracePeriodSeconds", "")
    assert found["node label"] == ("disk=ssd", "spec.nodeSelector", "")
    assert "x" not in found


def test_value_that_is_not_acceptable_says_what_would_be() -> None:
    found = rows(pod(annotations={SUNK + "hold": "yes", SUNK + "partitoin": "x"}))
    assert found["hold"][2] == "expected true or false"
    assert found["partitoin"][2] == "not the name of an annotation"


def test_resources_of_the_pod_as_a_whole_come_first() -> None:
    whole = {"requests": {"cpu": "4"}}
    assert rows(pod(resources=whole))["cpus"] == ("4", "spec.resources.requests.cpu", "")


def test_pod_without_requests_is_told_that_it_needs_some() -> None:
    bare = rows(pod(containers=[{"name": "c"}]))
    assert bare["cpus"] == ("", "no container requests any, and a job needs some", "")
    assert "gpus" not in bare


def test_thousands_of_annotations_stay_a_short_list() -> None:
    body = pod(annotations={f"{SUNK}x{number}": 1000 * "v" for number in range(5000)})
    found = asked(decoded(body), NAMES)
    assert len(found) < 80
    assert all(len(it.value) <= 256 for it in found)


@pytest.mark.parametrize("grace", [10**11, 2**62])
def test_grace_of_thousands_of_years_is_told(grace: int) -> None:
    found = told(pod(meta=GOING | {"deletionGracePeriodSeconds": grace}, nodeName="n"))
    (deleted,) = (it for it in found.history if it.what == "Deleted")
    assert (deleted.at, str(grace) in deleted.message) == (None, True)


@pytest.mark.parametrize(
    "owner",
    [
        {"kind": "--filename=https://evil.example", "apiVersion": "apps/v1", "name": "web"},
        {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "--raw=x"},
        {"kind": "Thing", "apiVersion": "x y/v1", "name": "web"},
    ],
)
def test_owner_that_is_no_name_is_in_no_command(owner: dict[str, str]) -> None:
    """Whoever creates a pod chooses these words, and somebody with more rights may give the
    command.
    """
    owners = [{**owner, "uid": "u", "controller": True}]
    waits = waiting("spec.terminationGracePeriodSeconds is '30'", "SchedulingFailed")
    found = told(pod(meta={"ownerReferences": owners}, status=waits))
    commands = [it.command for it in found.prospect.steps]
    assert commands == ["kubectl describe -n default pod/train"] * len(commands)
