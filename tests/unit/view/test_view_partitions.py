"""`partitions` as people call it: with the scheduler's page, without it, and with a wrong one."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from aiohttp import web

from scheduler.sandbox.kube import KubeServer
from scheduler.view import page_client
from scheduler.view.page_address import VARIABLE, page_url
from scheduler.view.partition_row import (
    LONGEST_ANSWER,
    GpuCount,
    NodeKind,
    PartitionRow,
    PartitionsTold,
    SizeTold,
)
from scheduler.view.partition_table import (
    PARTITION_COLUMNS,
    WIDE_PARTITION_COLUMNS,
    partition_table,
)
from tests.unit.kube.server import ApiStub, write_kubeconfig
from tests.unit.view.conftest import Call
from tests.unit.view.pods import SUNK, add, pod, waiting

GIB = 1024
WHOLE = SizeTold(64, 256 * GIB, {"h100": 8})
KIND = NodeKind(shape=WHOLE, nodes=8, usable=6, idle=2, gang=2, room=WHOLE)
GPU = PartitionRow(
    name="gpu",
    state="UP",
    default=True,
    allowed=True,
    time_limited=True,
    max_seconds=86_400,
    nodes=8,
    usable=6,
    gpus={"h100": GpuCount(20, 64)},
    kinds=(KIND,),
    now=(WHOLE,),
    limits=("at most 3 nodes in a job",),
    notes=("2 of 8 nodes are drained in Slurm",),
)
ANSWER = PartitionsTold(
    namespace="default", source="scheduler", items=(GPU,), age_seconds=3.0, notes=("not known",)
)


@pytest.fixture
def call(command_line: Call) -> Call:
    """Carries out this command with these words."""
    return partial(command_line, "partitions")


@pytest.fixture
def page(stub: ApiStub, monkeypatch: pytest.MonkeyPatch) -> ApiStub:
    """A scripted page, which the environment names."""
    monkeypatch.setenv(VARIABLE, f"{stub.url}/")
    return stub


def says(stub: ApiStub, *answers: Any, status: int = 200) -> None:
    """The page gives these answers, one after the other."""

    def saying(value: Any) -> Callable[[web.Request], Awaitable[web.Response]]:
        body = value if isinstance(value, bytes) else msgspec.json.encode(value)

        async def answer(_request: web.Request) -> web.Response:
            return web.Response(body=body, status=status, content_type="application/json")

        return answer

    stub.answer("GET", "/api/partitions", *map(saying, answers))


@pytest.mark.usefixtures("kubeconfig")
async def test_page_is_asked_with_the_users_own_token(page: ApiStub, call: Call) -> None:
    says(page, ANSWER)
    status, out, err = await call("-n", "research")
    assert status == 0
    heading, line = out.splitlines()
    assert heading.split() == [
        *("NAME", "STATE", "DEFAULT", "ALLOWED", "TIME", "NODES", "NODE", "GPUS(F/T)", "POD-NOW"),
        "GANG-NOW",
    ]
    whole = "64cpu,256Gi,8xh100"
    expected = ["gpu", "UP", "yes", "yes", "1d", "6/8", whole, "h100:20/64", whole, f"2*{whole}"]
    assert line.split() == expected
    assert err == "slurm-pod-scheduler partitions: not known\n"
    (asked,) = page.requests("GET")
    assert (asked.query, asked.headers["Authorization"]) == (
        {"namespace": "research"},
        "Bearer secret",
    )


@pytest.mark.usefixtures("kubeconfig")
async def test_forms_for_programs_have_all_that_the_page_says(page: ApiStub, call: Call) -> None:
    says(page, ANSWER)
    _, out, err = await call("-o", "json")
    found = json.loads(out)
    assert err == ""
    assert found["items"][0]["now"] == [{"cpus": 64, "memoryMiB": 262_144, "gpus": {"h100": 8}}]
    assert "continue" not in found
    _, out, _ = await call("-o", "yaml")
    assert yaml.safe_load(out) == found
    assert (await call("-o", "name"))[:2] == (0, "gpu\n")
    _, out, _ = await call("-o", "wide")
    assert "at most 3 nodes in a job" in out
    assert "2 of 8 nodes are drained in Slurm" in out
    status, out, err = await call("-p", "other")
    assert (status, out) == (0, "")
    assert "none of the partitions asked for" in err


@pytest.mark.usefixtures("kubeconfig")
async def test_answer_that_goes_on_is_read_to_its_end(page: ApiStub, call: Call) -> None:
    first = msgspec.structs.replace(ANSWER, continue_="gpu")
    second = msgspec.structs.replace(ANSWER, items=(PartitionRow(name="late"),))
    says(page, first, second)
    assert (await call("-o", "name"))[:2] == (0, "gpu\nlate\n")
    assert [it.query.get("after") for it in page.requests("GET")] == [None, "gpu"]


@pytest.mark.usefixtures("kubeconfig")
async def test_page_that_goes_on_for_ever_is_left(page: ApiStub, call: Call) -> None:
    says(page, msgspec.structs.replace(ANSWER, continue_="gpu"))
    assert (await call("-o", "name"))[0] == 0
    assert len(page.requests("GET")) == page_client.MOST_ANSWERS


@pytest.mark.usefixtures("kubeconfig")
async def test_without_a_page_the_pods_are_told(server: KubeServer, call: Call) -> None:
    add(server, pod("one", annotations={f"{SUNK}partition": "main,\x1b[2J"}))
    add(server, pod("two", annotations={f"{SUNK}partition": "main"}, status={"phase": "Running"}))
    add(server, pod("three", status=waiting()))
    status, out, err = await call("-o", "wide")
    assert status == 0
    _heading, *lines = out.splitlines()
    assert [it.split()[0] for it in lines] == [r"\x1b[2J", "gpu", "main"]
    assert "pods of this namespace: 0 with a Node, 2 that wait" in lines[2]
    assert VARIABLE in err
    assert "neither sizes and limits nor what is free are known" in err
    found = json.loads((await call("-o", "json"))[1])
    assert (found["source"], found["items"][1]["nodes"]) == ("pods", None)


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize("status", [502, 503, 504])
async def test_page_that_cannot_tell_now_is_replaced_by_the_pods(
    page: ApiStub, call: Call, status: int
) -> None:
    says(page, {"error": "Slurm is away"}, status=status)
    found, out, err = await call()
    assert (found, out) == (0, "")
    assert "Slurm is away" in err
    assert "no partition for namespace default" in err


@pytest.mark.usefixtures("kubeconfig")
async def test_page_where_nobody_listens_is_replaced_by_the_pods(call: Call) -> None:
    status, _, err = await call("--page-url=http://127.0.0.1:9")
    assert status == 0
    assert "nothing listens at http://127.0.0.1:9: start the scheduler with" in err
    assert "or correct --page-url" in err


REFUSALS: list[tuple[int, Any, str]] = [
    (401, {"error": "Kubernetes does not accept this token"}, "--page-token-file=FILE"),
    (403, {"error": "you may not list pods in namespace a\x1b"}, r"you may not list pods in"),
    (404, b"<html>", "HTTP status 404"),
    (302, b"", "HTTP status 302"),
    (200, b"<html>", "expected the page's address"),
    (200, b"{}", "expected the page's address"),
    (200, b'{"namespace": "a", "source": "x", "items": [{"name": 1}]}', "expected the page's"),
    (200, b'{"namespace": "' + b"x" * LONGEST_ANSWER, "an answer of more than"),
]


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize(("status", "body", "told"), REFUSALS)
async def test_page_that_refuses_or_is_another_server_is_one_line(
    page: ApiStub, call: Call, status: int, body: Any, told: str
) -> None:
    says(page, body, status=status)
    found, out, err = await call()
    assert (found, out, err.count("\n")) == (1, "", 1)
    assert told in err
    assert "secret" not in err
    assert "\x1b" not in err


async def test_kubeconfig_without_a_token_is_told_what_to_do(
    page: ApiStub, call: Call, tmp_path: Path
) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", page.url, {})
    says(page, {"error": "Kubernetes does not accept this token"}, status=401)
    status, _, err = await call(f"--kubeconfig={kubeconfig}")
    assert status == 1
    assert "your kubeconfig has none, or give one in a file" in err
    token = tmp_path / "token"
    token.write_text("alice\n")
    page.answers.clear()
    says(page, ANSWER)
    words = (f"--kubeconfig={kubeconfig}", f"--page-token-file={token}", "-o", "name")
    assert (await call(*words))[:2] == (0, "gpu\n")
    assert page.requests("GET")[-1].headers["Authorization"] == "Bearer alice"


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize("content", [None, b"", b"a b\n", b"\xff", b"x" * 4001, b"a\r\nb: c"])
async def test_token_file_that_holds_no_token_is_one_line(
    call: Call, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    status, out, err = await call("--page-url=https://page.example", f"--page-token-file={path}")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"--page-token-file: {path}: " in err


@pytest.mark.parametrize(
    "url",
    [
        "https://page.example",
        "https://page.example:8443/slurm/",
        "http://127.0.0.1:8082/",
        "http://[::1]:8082",
        "http://localhost:1",
    ],
)
def test_page_is_asked_where_the_token_is_safe(url: str) -> None:
    assert page_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        *("", "page.example", "http://page.example", "http://127.0.0.1.evil.example"),
        *("ftp://127.0.0.1", "https://", "https://a:99999", "https://user@a", "https://a?b=c"),
        *("https://a#b", "https://a b", "https://\x1b", "http://[::1", "https://ä.example"),
    ],
)
def test_page_is_not_asked_where_the_token_would_be_seen(url: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected https://HOST"):
        page_url(url)


@pytest.mark.usefixtures("kubeconfig")
async def test_wrong_variable_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "http://page.example")
    status, out, err = await call()
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert f"{VARIABLE}: 'http://page.example': expected https://HOST" in err


def test_page_describes_each_column() -> None:
    page = (Path(__file__).parents[3] / "docs/partitions.md").read_text(encoding="utf-8")
    described = re.findall(r"^\| `([A-Z()/-]+)`(?: \(`-o wide`\))? \|", page, re.MULTILINE)
    assert ["NAME", *described] == [*PARTITION_COLUMNS, *WIDE_PARTITION_COLUMNS]


def test_table_is_not_wider_than_the_terminal() -> None:
    unknown = PartitionRow(name="main", notes=("x" * 300,))
    for line in partition_table([GPU, unknown], wide=True, most=60).splitlines():
        assert len(line) <= 60
    narrow = partition_table([unknown], wide=False, most=20).splitlines()
    assert narrow == ["NAME", "main"]


@pytest.mark.parametrize(
    ("seconds", "limited", "text"),
    [
        (86_400, True, "1d"),
        (5400, True, "90m"),
        (129_600, True, "36h"),
        (90, True, "90s"),
        (None, False, "unlimited"),
        (None, None, "-"),
    ],
)
def test_time_is_exact(seconds: int | None, limited: bool | None, text: str) -> None:
    row = PartitionRow(name="p", time_limited=limited, max_seconds=seconds)
    _, line = partition_table([row], wide=False, most=None).splitlines()
    assert line.split()[4] == text
