"""`queue` and `explain` with what the scheduler's page adds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.sandbox.kube import KubeServer
from scheduler.view.page_address import VARIABLE
from scheduler.view.partition_row import PartitionsTold
from scheduler.view.queue_place import PlacesTold, QueuePlace
from tests.unit.kube.server import ApiStub
from tests.unit.view.conftest import Call
from tests.unit.view.pods import OURS, add, pod, uid_of, waiting
from tests.unit.view.test_view_partitions import GPU


@pytest.fixture
def call(kubeconfig: Path, command_line: Call) -> Call:
    """Carries out a command line."""
    return command_line


@pytest.fixture
def page(stub: ApiStub, monkeypatch: pytest.MonkeyPatch) -> ApiStub:
    """A scripted page, which the environment names."""
    monkeypatch.setenv(VARIABLE, stub.url)
    return stub


def says(stub: ApiStub, path: str, value: Any, *, status: int = 200) -> None:
    async def answer(_request: web.Request) -> web.Response:
        body = msgspec.json.encode(value)
        return web.Response(body=body, status=status, content_type="application/json")

    stub.answer("GET", path, answer)


def waits(server: KubeServer, name: str = "train") -> None:
    add(server, pod(name, annotations={OURS + "job-id": "7"}, status=waiting()))


def place_of(server: KubeServer, name: str, place: int) -> QueuePlace:
    return QueuePlace(uid=uid_of(server, name), partition="gpu", place=place, of=17)


async def test_queue_has_a_column_for_the_place(
    server: KubeServer, page: ApiStub, call: Call
) -> None:
    waits(server, "second")
    waits(server, "third")
    add(server, pod("runs", nodeName="n", status={"phase": "Running"}))
    first, second = PlacesTold(continue_="x"), PlacesTold()
    first = msgspec.structs.replace(first, items=(place_of(server, "second", 2),))
    second = msgspec.structs.replace(second, items=(place_of(server, "third", 3),))
    answers = iter((first, second))

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(next(answers)))

    page.answer("GET", "/api/places", answer, answer)
    status, out, err = await call("queue", "--sort=name")
    assert (status, err) == (0, "")
    heading, *lines = (line.split() for line in out.splitlines())
    assert heading[-1] == "PLACE"
    assert [(it[0], it[-1]) for it in lines] == [
        ("runs", "-"),
        ("second", "2/17"),
        ("third", "3/17"),
    ]
    asked = page.requests("GET")
    assert [it.query for it in asked] == [
        {"namespace": "default"},
        {"namespace": "default", "after": "x"},
    ]
    assert {it.headers["Authorization"] for it in asked} == {"Bearer secret"}


async def test_place_is_for_programs_too(server: KubeServer, page: ApiStub, call: Call) -> None:
    waits(server)
    says(page, "/api/places", PlacesTold(items=(place_of(server, "train", 2),)))
    (item,) = json.loads((await call("queue", "-o", "json"))[1])["items"]
    assert item["place"] == "2/17"


@pytest.mark.parametrize("words", [["-o", "name"], []], ids=["names", "without a page"])
async def test_page_is_not_asked_for_what_nobody_wants(
    words: list[str],
    server: KubeServer,
    page: ApiStub,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not words:
        monkeypatch.delenv(VARIABLE)
    waits(server)
    assert "train" in (await call("queue", *words))[1]
    assert page.requests("GET") == []


@pytest.mark.parametrize(
    ("status", "why"),
    [(403, "you may not list pods"), (404, "Not Found"), (503, "try again")],
)
async def test_queue_goes_on_without_a_page(
    status: int, why: str, server: KubeServer, page: ApiStub, call: Call
) -> None:
    waits(server)
    says(page, "/api/places", {"error": why}, status=status)
    code, out, err = await call("queue")
    assert (code, "PLACE" in out) == (0, False)
    assert "train" in out
    assert err.startswith("slurm-pod-scheduler queue: without places: ")
    assert why in err
    assert err.count("\n") == 1


async def test_story_has_the_place_and_what_the_partition_has(
    server: KubeServer, page: ApiStub, call: Call
) -> None:
    waits(server)
    says(page, "/api/places", PlacesTold(items=(place_of(server, "train", 2),)))
    says(
        page,
        "/api/partitions",
        PartitionsTold(namespace="default", source="scheduler", items=(GPU,)),
    )
    status, out, _ = await call("explain", "train")
    assert status == 0
    (told,) = (it for it in out.split("\n\n") if it.startswith("What there is now"))
    lines = [line.split(maxsplit=2) for line in told.splitlines()[1:]]
    assert " ".join(lines[0]) == "place 2 of the 17 waiting jobs of this scheduler in partition gpu"
    assert "largest node    64cpu,256Gi,8xh100" in told
    assert "free GPUs       h100:20/64" in told
    elsewhere = out.partition("Not on the pod\n")[2]
    assert "Which jobs of Slurm's own stand before it" in elsewhere
    assert "sinfo" not in elsewhere
    found = json.loads((await call("explain", "train", "-o", "json"))[1])["room"]
    assert found["place"] == {
        "uid": uid_of(server, "train"),
        "partition": "gpu",
        "place": 2,
        "of": 17,
    }
    assert found["partition"]["name"] == "gpu"


async def test_story_says_what_the_page_did_not_answer(
    server: KubeServer, page: ApiStub, call: Call
) -> None:
    waits(server)
    says(page, "/api/places", {"error": "too many questions wait"}, status=503)
    says(page, "/api/partitions", {"error": "too many questions wait"}, status=503)
    status, out, _ = await call("explain", "train")
    assert status == 0
    assert "too many questions wait" in out.partition("Not read\n")[2]
    assert "sinfo" in out


async def test_page_is_not_asked_about_a_pod_that_runs(
    server: KubeServer, page: ApiStub, call: Call
) -> None:
    add(server, pod(nodeName="n", status={"phase": "Running"}))
    assert (await call("explain", "train"))[0] == 0
    assert page.requests("GET") == []
