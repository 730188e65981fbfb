"""Gangs as `queue` and `explain` show them: what the pods say, and no guesses."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from scheduler.__main__ import main
from scheduler.core.gang_sources import Membership, Source
from scheduler.sandbox.kube import KubeServer
from scheduler.view.gang import InGang, gang_of
from scheduler.view.gang_rows import by_gang
from scheduler.view.row import Row, State
from tests.support.costs import least_cpu_seconds
from tests.unit.kube import server as stub_server
from tests.unit.kube.server import ApiStub, write_kubeconfig
from tests.unit.view.conftest import Call
from tests.unit.view.pods import NAMES, OURS, SUNK, add, change, decoded, pod, row, waiting

KEY: Final = Membership(
    source=Source.ANNOTATIONS, namespace="default", name="train", identity="train"
).key
OWNER: Final = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u1"}
OF_JOB: Final[dict[str, Any]] = {
    "labels": {"batch.kubernetes.io/job-name": "job", "batch.kubernetes.io/controller-uid": "u1"},
    "ownerReferences": [OWNER | {"controller": True}],
}
JOB_KEY: Final = Membership(source=Source.JOB, namespace="default", name="job", identity="u1").key
MISSING: Final = (
    "Gang train (2 of 3 pods exist): waiting for train-2. One Slurm job is submitted for all of "
    "them"
)


def member(rank: int, *, node: str = "", key: str = KEY, **more: Any) -> dict[str, Any]:
    """A pod of the gang `train`, whose job the scheduler has submitted."""
    said = {SUNK + "gang": "train", SUNK + "gang-size": "3", OURS + "gang": key}
    if node:
        of_binding = {"gang-rank": str(rank), "gang-size": "3", "gang-first-node": "node-0"}
        said |= {OURS + name: value for name, value in of_binding.items()}
        more = {"nodeName": node, "status": {"phase": "Running"}} | more
    return pod(f"train-{rank}", annotations=said | {OURS + "job-id": "7"}, **more)


def new(name: str, **more: Any) -> dict[str, Any]:
    """A pod that names the gang, which the scheduler has not seen yet."""
    return pod(name, annotations={SUNK + "gang": "train", SUNK + "gang-size": "3"}, **more)


def of(body: dict[str, Any]) -> InGang | None:
    return gang_of(decoded(body), NAMES.prefixes).gang


def test_bound_pod_shows_name_rank_size_and_first_node() -> None:
    assert of(member(1, node="node-1")) == InGang(
        key=KEY, name="train", rank=1, size=3, first_node="node-0"
    )


def test_pod_that_the_scheduler_has_not_seen_is_in_no_gang() -> None:
    """Its annotations alone do not say it: settings and policy decide."""
    assert of(new("train-0")) is None


def test_name_is_believed_only_if_the_key_is_computed_from_it() -> None:
    found = of(member(1, node="node-1", key="0" * 32))
    assert found is not None
    assert (found.key, found.name, found.rank) == ("0" * 32, "", 1)


@pytest.mark.parametrize("key", ["", "train", "0" * 33, "G" * 32])
def test_key_that_the_scheduler_never_writes_is_no_gang(key: str) -> None:
    assert of(member(1, node="node-1", key=key)) is None


def test_batch_job_is_named_by_its_key() -> None:
    found = of(pod("job-0", annotations={OURS + "gang": JOB_KEY}, meta=OF_JOB))
    assert found is not None
    assert (found.name, found.selector) == ("job", "batch.kubernetes.io/controller-uid=u1")


def test_pod_that_waits_for_others_shows_its_gang_by_its_condition() -> None:
    found = of(new("train-1", status=waiting(MISSING, "GangIncomplete")))
    assert found is not None
    assert (found.key, found.name, found.rank, found.size) == (KEY, "train", 1, 3)
    assert found.missing == "train-2"
    culprit = "Gang train waits because its pod train-0 cannot be served: the condition of that pod"
    found = of(new("train-1", status=waiting(culprit, "GangIncomplete")))
    assert found is not None
    assert (found.name, found.size, found.missing) == ("train", 3, "")


@pytest.mark.parametrize(
    "message",
    ["", "Gang other (2 of 3 pods exist): waiting for x. One Slurm job", "Gang " + "x" * 100_000],
)
def test_condition_that_names_another_gang_proves_nothing(message: str) -> None:
    assert of(new("train-1", status=waiting(message, "GangIncomplete"))) is None


def test_pod_beside_a_gang_belongs_to_none() -> None:
    told = "Gang train has its 2 pods without this one"
    said = {SUNK + "gang": "train", SUNK + "gang-size": "3"}
    beside = [
        new("train-2", status=waiting(told, "WaitsForGang")),
        pod("train-3", annotations=said | {OURS + "gang": "none", OURS + "job-id": "8"}),
    ]
    rows = [row(it) for it in (member(0, node="node-0"), *beside)]
    assert [it.name for it in by_gang(rows)] == ["train-2", "train-3", "train"]


def test_gang_is_one_row_and_other_pods_stay_as_they_are() -> None:
    rows = [row(it) for it in (member(0, node="node-0"), member(1, node="node-1"), pod("alone"))]
    rows.append(row(new("train-2", status=waiting())))
    alone, gang = by_gang(rows)
    assert (alone.name, alone.pods) == ("alone", ())
    assert (gang.name, gang.state, gang.reason) == ("train", State.PENDING, "Resources")
    assert (gang.cpus, gang.gpus, gang.memory_bytes, gang.job) == (6, 3, 6 << 30, 7)
    assert [it.name for it in gang.pods] == ["train-0", "train-1", "train-2"]
    assert gang.node == "node-0"


def test_pods_that_have_ended_hide_no_pod_that_runs() -> None:
    ended = member(0, node="node-0") | {"status": {"phase": "Succeeded"}}
    rows = [row(ended), row(member(1, node="node-1"))]
    (gang,) = by_gang(rows)
    assert (gang.state, gang.cpus, len(gang.pods)) == (State.RUNNING, 2, 2)
    (over,) = by_gang(rows[:1])
    assert over.state is State.COMPLETED


def test_gangs_of_two_namespaces_stay_apart() -> None:
    other = member(0, node="node-0")
    other["metadata"]["namespace"] = "other"
    assert len(by_gang([row(member(0, node="node-0")), row(other)])) == 2


def test_many_pods_cost_no_more_each_than_a_few() -> None:
    def rows(count: int) -> list[Row]:
        return [row(member(it, node=f"node-{it}")) for it in range(count)]

    few, many = rows(50), rows(2000)
    most = 80 * least_cpu_seconds(lambda: by_gang(few)) + 0.02
    assert least_cpu_seconds(lambda: by_gang(many)) < most


@pytest.fixture
def call(command_line: Call) -> Call:
    """Carries out a command line."""
    return command_line


def fill(server: KubeServer) -> None:
    """Two pods of the gang run, one waits, and one belongs to none."""
    add(server, member(0, node="node-0"))
    add(server, member(1, node="node-1"))
    add(server, new("train-2", status=waiting()))
    add(server, pod("alone", status=waiting()))


@pytest.mark.usefixtures("kubeconfig")
async def test_queue_has_a_line_for_each_gang(server: KubeServer, call: Call) -> None:
    fill(server)
    status, out, err = await call("queue", "--gangs", "--sort=name")
    heading, *lines = (line.split() for line in out.splitlines())
    assert (status, err, heading[:3]) == (0, "", ["NAME", "PODS", "STATE"])
    assert [it[:4] for it in lines] == [
        ["alone", "-", "PENDING", "Resources"],
        ["train", "2/3", "PENDING", "Resources"],
    ]
    assert (await call("queue", "--gangs", "-t", "R"))[1] == ""
    assert (await call("queue", "--gangs", "-t", "R", "-o", "name"))[1].count("pod/train") == 2
    items = json.loads((await call("queue", "--gangs", "--sort=name", "-o", "json"))[1])["items"]
    assert items[0]["gang"] is None
    assert items[1]["gang"] == {
        "name": "train",
        "size": 3,
        "firstNode": "node-0",
        "pods": [
            {"name": "train-0", "rank": 0, "state": "RUNNING", "node": "node-0"},
            {"name": "train-1", "rank": 1, "state": "RUNNING", "node": "node-1"},
            {"name": "train-2", "rank": None, "state": "PENDING", "node": None},
        ],
    }
    assert items[1]["uid"] is None


def test_watch_of_gangs_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """It is a wrong command line, so no cluster is asked: there is no kubeconfig."""
    with pytest.raises(SystemExit, match="2"):
        main(["queue", "--gangs", "--watch"])
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "--gangs with --watch needs a terminal" in err


@pytest.mark.usefixtures("kubeconfig")
async def test_wide_queue_has_gang_and_rank(server: KubeServer, call: Call) -> None:
    fill(server)
    out = (await call("queue", "-o", "wide", "--sort=name"))[1]
    heading, *lines = (line.split() for line in out.splitlines())
    assert heading[:4] == ["NAME", "GANG", "RANK", "STATE"]
    assert [it[:3] for it in lines][:2] == [["alone", "-", "-"], ["train-0", "train", "0/3"]]
    items = json.loads((await call("queue", "-o", "json", "--sort=name"))[1])["items"]
    assert items[2]["gang"] == {"name": "train", "size": 3, "firstNode": "node-0", "rank": 1}


@pytest.mark.usefixtures("kubeconfig")
async def test_story_of_a_pod_has_its_gang(server: KubeServer, call: Call) -> None:
    fill(server)
    status, out, _ = await call("explain", "train-1")
    assert status == 0
    section = out.partition("Its gang\n")[2].partition("\n\n")[0]
    assert {tuple(line.split(None, 1)) for line in section.splitlines()} == {
        ("name", "train"),
        ("rank", "and size   1 of 3"),
        ("pods", "3 exist, 2 have a Node"),
        ("without", "a Node  train-2"),
        ("first", "Node      node-0"),
    }
    change(server, "train-0", {"phase": "Failed"})
    told = json.loads((await call("explain", "train-1", "-o", "json"))[1])["gang"]
    assert (told["name"], told["rank"], told["size"], told["missing"]) == ("train", 1, 3, None)
    assert [it["state"] for it in told["pods"]] == ["FAILED", "RUNNING", "PENDING"]


@pytest.mark.usefixtures("kubeconfig")
async def test_story_says_who_is_missing(server: KubeServer, call: Call) -> None:
    for name in ("train-0", "train-1"):
        add(server, new(name, status=waiting(MISSING, "GangIncomplete")))
    assert "missing         train-2\n" in (await call("explain", "train-1"))[1]
    add(server, new("train-9", meta={"name": "train-9"}))
    assert json.loads((await call("explain", "train-9", "-o", "json"))[1])["gang"] is None


@pytest.mark.usefixtures("kubeconfig")
async def test_missing_pod_of_a_running_gang_is_named_by_its_rank(
    server: KubeServer, call: Call
) -> None:
    for rank in (0, 2):
        add(server, member(rank, node=f"node-{rank}"))
    assert "missing         rank 1\n" in (await call("explain", "train-2"))[1]


async def test_without_the_right_to_list_pods_the_rest_is_told(
    stub: ApiStub, call: Call, tmp_path: Any
) -> None:
    config = write_kubeconfig(tmp_path / "kubeconfig", stub.url, {"token": "secret"})
    pods_path = "/api/v1/namespaces/default/pods"
    stub.answer("GET", f"{pods_path}/train-1", stub_server.ok(member(1, node="node-1")))
    stub.answer("GET", "/api/v1/namespaces/default/events", stub_server.page())
    stub.answer("GET", pods_path, stub_server.status(403, reason="Forbidden"))
    status, out, _ = await call("explain", "train-1", f"--kubeconfig={config}")
    assert status == 0
    assert "rank and size   1 of 3" in out
    assert "the right `list` on `pods`" in out.partition("Not read")[2]
