"""`explain` as people call it, on the sandbox's API server."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.__main__ import main
from scheduler.sandbox.kube import KubeServer
from tests.unit.kube import server as stub_server
from tests.unit.kube.server import ApiStub, write_kubeconfig
from tests.unit.view.conftest import Call
from tests.unit.view.pods import (
    OURS,
    PENDING,
    SUNK,
    add,
    add_event,
    change,
    condition,
    pod,
    uid_of,
    waiting,
)

CONTROLLER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
POD_PATH = "/api/v1/namespaces/default/pods/train"
EVENTS_PATH = "/api/v1/namespaces/default/events"
OWNER_PATH = "/apis/apps/v1/namespaces/default/replicasets/web"


@pytest.fixture
def call(command_line: Call) -> Call:
    """Carries out this command with these words."""
    return partial(command_line, "explain")


def sections(text: str) -> dict[str, str]:
    """The text of each section by its heading, with single blanks."""
    head, *rest = text.strip().split("\n\n")
    found = {"": head}
    for part in rest:
        heading, _, body = part.partition("\n")
        found[heading] = " ".join(body.split())
    return found


@pytest.mark.usefixtures("kubeconfig")
async def test_waiting_pod_is_told_whole(server: KubeServer, call: Call) -> None:
    asks = {SUNK + "partition": "gpu", SUNK + "timeout": "3600", OURS + "job-id": "7"}
    add(server, pod(annotations=asks, status=waiting()))
    uid = uid_of(server, "train")
    for reason, message in (
        ("SlurmPending", PENDING),
        ("PlaceholderSubmitted", "Submitted Slurm job 7, excluded nodes: n-3 (is cordoned)"),
    ):
        add_event(server, "train", uid, at="2026-11-24T05:00:03Z", reason=reason, message=message)
    add_event(server, "train", "other", at="2026-11-24T05:00:01Z", reason="Other")
    status, out, err = await call("pod/train")
    told = sections(out)
    assert (status, err) == (0, "")
    assert told[""].startswith("Pod default/train: PENDING, ")
    assert told[""].endswith("without a controller")
    asked = told["What it asks for"]
    assert "cpus 2 spec.containers[c].resources.requests.cpu" in asked
    assert "gpus 1 spec.containers[c].resources.requests.nvidia.com/gpu" in asked
    assert "timeout 3600 annotation sunk.coreweave.com/timeout" in asked
    assert "account - default: the default account of the Slurm user" in asked
    expected = "job 7, priority 100, partition gpu, expected to start 2026-11-24 06:30:00"
    assert told["Its Slurm job"] == expected
    assert told["Why"].startswith("Resources: Slurm job 7 is pending: Resources (priority 100")
    assert told["Nodes ruled out"] == "excluded nodes: n-3 (is cordoned)"
    happened = told["What happened (UTC)"]
    assert happened.index("Submitted Slurm job 7") < happened.index("SlurmPending")
    assert "Other" not in happened
    assert "kubectl slurm queue -A -t PENDING -p gpu" in told["Commands"]
    assert "scontrol show job 7" in told["Not on the pod"]
    assert "Not read" not in told
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.usefixtures("kubeconfig")
async def test_forms_for_programs_have_the_same(server: KubeServer, call: Call) -> None:
    add(server, pod(status=waiting()))
    uid = uid_of(server, "train")
    add_event(server, "train", uid, at="2026-11-24T05:00:03Z", reason="SlurmPending", count=3)
    found = json.loads((await call("train", "-o", "json"))[1])
    assert found["pod"]["reason"] == found["reason"] == "Resources"
    assert (found["exists"], found["owner"], found["unread"]) == (True, None, [])
    (event,) = (it for it in found["history"] if it["writer"])
    assert (event["time"], event["what"], event["times"]) == (
        "2026-11-24T05:00:03Z",
        "SlurmPending",
        3,
    )
    assert found["asked"][0] == {
        "what": "cpus",
        "value": "2",
        "source": "spec.containers[c].resources.requests.cpu",
        "problem": None,
    }
    assert yaml.safe_load((await call("train", "-o", "yaml"))[1]) == found


@pytest.mark.usefixtures("kubeconfig")
async def test_pod_that_is_gone_is_told_by_its_events(server: KubeServer, call: Call) -> None:
    for uid, at, reason in (
        ("former", "2026-11-24T04:00:00Z", "TimeLimit"),
        ("last", "2026-11-24T05:00:00Z", "Scheduled"),
        ("last", "2026-11-24T05:10:00Z", "Preempted"),
    ):
        add_event(server, "train", uid, at=at, reason=reason, message=f"{uid} {reason}")
    status, out, _ = await call("train")
    told = sections(out)
    assert status == 0
    assert told[""] == "Pod default/train does not exist any more. Its Events tell:"
    assert told["Why"].startswith("Preempted: last Preempted That is: Slurm preempted the job")
    assert "former" not in out
    assert json.loads((await call("train", "-o", "json"))[1])["exists"] is False


@pytest.mark.usefixtures("kubeconfig")
async def test_what_the_kubelet_reports_is_in_the_story(server: KubeServer, call: Call) -> None:
    add(server, pod(nodeName="n", status={"phase": "Running"}))
    running = {"running": {"startedAt": "2026-11-24T05:00:09Z"}}
    bound = condition("PodScheduled", "True") | {"lastTransitionTime": "2026-11-24T05:00:08Z"}
    change(
        server,
        "train",
        {"conditions": [bound], "containerStatuses": [{"name": "c", "state": running}]},
    )
    happened = sections((await call("train"))[1])["What happened (UTC)"]
    assert "05:00:08 Bound: to Node n 2026-11-24 05:00:09 Started: 1 of 1 containers" in happened
    stopped = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-24T05:01:00Z"}
    statuses = [{"name": "c", "state": {"terminated": stopped}}]
    change(server, "train", {"phase": "Failed", "containerStatuses": statuses})
    happened = sections((await call("train"))[1])["What happened (UTC)"]
    assert "05:01:00 Stopped: container c, with exit code 137 (OOMKilled)" in happened


@pytest.fixture
def calls_stub(stub: ApiStub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    """As `call`, on the scripted API server."""
    config = write_kubeconfig(tmp_path / "kubeconfig", stub.url, {"token": "secret"})

    async def call(*words: str) -> tuple[int, str, str]:
        line = ["explain", "train", *words, f"--kubeconfig={config}"]
        status = await asyncio.to_thread(main, line)
        out, err = capfd.readouterr()
        return status, out, err

    return call


def owned(body: dict[str, Any]) -> dict[str, Any]:
    body["metadata"]["ownerReferences"] = [CONTROLLER | {"name": "web", "uid": "u"}]
    return body


def controller(uid: str) -> dict[str, Any]:
    above = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "top", "controller": True}]
    return {"metadata": {"name": "web", "uid": uid, "ownerReferences": above}}


async def test_owner_is_read_and_what_is_above_it_is_edited(
    stub: ApiStub, calls_stub: Call
) -> None:
    body = owned(pod(status=waiting("None of the 2 Nodes can take the pod", "NoNodeFits")))
    stub.answer("GET", POD_PATH, stub_server.ok(body))
    stub.answer("GET", EVENTS_PATH, stub_server.page())
    stub.answer("GET", OWNER_PATH, stub_server.ok(controller("u")), stub_server.ok(controller("x")))
    told = sections((await calls_stub())[1])
    assert told[""].endswith("of ReplicaSet web of Deployment top")
    assert told["Why"].startswith("NoNodeFits: None of the 2 Nodes can take the pod")
    assert "Nodes ruled out" not in told, "it would say the same once more"
    assert "kubectl slurm partitions -n default" in told["Commands"]
    assert "kubectl edit -n default deployment/top" in told["Commands"]
    # Another object has that name by now.
    assert "kubectl edit -n default replicaset/web" in (await calls_stub())[1]
    events = stub.requests("GET", EVENTS_PATH)[0].query
    assert events["limit"] == "500"
    assert events["fieldSelector"].endswith("involvedObject.uid=uid-train")


async def test_what_may_not_be_read_is_said_and_the_rest_is_told(
    stub: ApiStub, calls_stub: Call
) -> None:
    stub.answer("GET", POD_PATH, stub_server.ok(owned(pod(status=waiting()))))
    refused = stub_server.status(403, reason="Forbidden")
    stub.answer("GET", EVENTS_PATH, refused)
    stub.answer("GET", OWNER_PATH, refused)
    status, out, err = await calls_stub()
    assert (status, err) == (0, "")
    told = sections(out)
    assert told["Why"].startswith("Resources: ")
    assert told["Not read"] == (
        "- you may not list Events there (the right `list` on `events`) - you may not read "
        "ReplicaSet web (the right `get` on `replicasets`)"
    )


async def test_events_beyond_the_first_page_are_not_read_and_that_is_said(
    stub: ApiStub, calls_stub: Call
) -> None:
    stub.answer("GET", POD_PATH, stub_server.ok(pod(status=waiting())))
    stub.answer("GET", EVENTS_PATH, stub_server.page(token="next"))
    told = sections((await calls_stub())[1])
    assert told["Not read"] == "- The pod has more Events than were read."
    assert len(stub.requests("GET", EVENTS_PATH)) == 1


async def test_owner_whose_name_leads_elsewhere_is_not_asked_for(
    stub: ApiStub, calls_stub: Call
) -> None:
    body = pod(status=waiting())
    evil = "../../secrets/x?watch=true"
    body["metadata"]["ownerReferences"] = [CONTROLLER | {"name": evil, "uid": "u"}]
    stub.answer("GET", POD_PATH, stub_server.ok(body))
    stub.answer("GET", EVENTS_PATH, stub_server.page())
    assert (await calls_stub())[0] == 0
    assert [it.path for it in stub.seen] == [POD_PATH, EVENTS_PATH]


async def test_what_the_pods_author_writes_is_harmless(stub: ApiStub, calls_stub: Call) -> None:
    message = "Slurm job 7 is pending: Resources (partition a;reboot). \x1b]0;owned\x07"
    body = pod(annotations={OURS + "job-id": "7"}, status=waiting(message))
    body["metadata"]["annotations"][SUNK + "comment"] = "\x1b[2J" + 5000 * "x"
    stub.answer("GET", POD_PATH, stub_server.ok(body))
    event = {
        "metadata": {"name": "e"},
        "reason": "\x1b[2J" + 5000 * "r",
        "message": "\x07" + 500_000 * "m",
    }
    stub.answer("GET", EVENTS_PATH, stub_server.page(event))
    _, out, _ = await calls_stub()
    assert "\x1b" not in out
    assert "\x07" not in out
    assert len(out) < 10_000
    assert "-p 'a;reboot'" in out


@pytest.mark.parametrize(
    ("answers", "named"),
    [
        (
            [stub_server.status(404, reason="NotFound"), stub_server.page()],
            "there is no pod train in namespace default, and no Events tell of one",
        ),
        (
            [
                stub_server.status(404, reason="NotFound"),
                stub_server.status(403, reason="Forbidden"),
            ],
            "there is no pod train in namespace default, and you may not list Events there",
        ),
        ([stub_server.status(403, reason="Forbidden")], "the right `get` on `pods` is missing"),
        ([stub_server.raw(b"<html>")], "does not answer as it should (not JSON"),
        (
            [stub_server.ok(pod(schedulerName="other\x1b[2J")), stub_server.page()],
            "pod train is for the scheduler 'other\\x1b[2J', so Slurm has no part in it",
        ),
    ],
    ids=["gone", "gone and no right", "no right", "not JSON", "of another scheduler"],
)
async def test_nothing_to_tell_is_one_line(
    stub: ApiStub, calls_stub: Call, answers: list[Any], named: str
) -> None:
    for path, answer in zip((POD_PATH, EVENTS_PATH), answers, strict=False):
        stub.answer("GET", path, answer)
    status, out, err = await calls_stub()
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("slurm-pod-scheduler explain: ")
    assert named in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["explain"], "the following arguments are required: POD"),
        (["explain", "node/x"], "argument POD: 'node/x': expected the name of a pod"),
        (["explain", "../x\x1b[2J"], "argument POD: '../x\\x1b[2J': expected the name of a pod"),
        (["explain", "x", "-o", "wide"], "--output: invalid choice: 'wide'"),
        (["explain", "x", "y"], "unexpected argument y"),
    ],
)
def test_wrong_words_are_named_in_one_line(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert named in err


@pytest.mark.usefixtures("kubeconfig")
async def test_event_of_a_newer_writer_has_its_times(server: KubeServer, call: Call) -> None:
    add(server, pod(status=waiting()))
    uid = uid_of(server, "train")
    series = {"count": 4, "lastObservedTime": "2026-11-24T05:09:00.000000Z"}
    body: dict[str, Any] = {
        "firstTimestamp": None,
        "lastTimestamp": None,
        "count": 0,
        "eventTime": "2026-11-24T05:05:00.000000Z",
        "series": series,
        "source": {},
        "reportingComponent": "kubelet",
    }
    add_event(server, "train", uid, at="2026-11-24T05:05:00Z", reason="BackOff", **body)
    happened = sections((await call("train"))[1])["What happened (UTC)"]
    expected = "2026-11-24 05:05:00 BackOff (4 times, last 2026-11-24 05:09:00) [kubelet]"
    assert expected in happened


async def test_deep_pod_is_told(stub: ApiStub, tmp_path: Path, command_line: Call) -> None:
    levels = 5000
    fields = b'"managedFields":[' + b'{"f:a":' * levels + b"{}" + b"}" * levels + b"],"
    body = json.dumps(pod()).encode().replace(b'"metadata": {', b'"metadata": {' + fields)
    stub.answer("GET", POD_PATH, stub_server.raw(body))
    stub.answer("GET", EVENTS_PATH, stub_server.page())
    config = write_kubeconfig(tmp_path / "kubeconfig", stub.url, {"token": "secret"})
    status, out, err = await command_line("explain", "train", f"--kubeconfig={config}")
    assert (status, err) == (0, "")
    assert out.startswith("Pod default/train: PENDING")
