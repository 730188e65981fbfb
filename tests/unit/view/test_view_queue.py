"""`queue` as people call it, on the sandbox's API server."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import yaml
from aiohttp import web

from scheduler.__main__ import main
from scheduler.kube.session import KubeSession
from scheduler.sandbox.kube import KubeServer, resources
from scheduler.view.listing import Listing, Wanted
from scheduler.view.row import row_of
from tests.unit.kube import server as stub_server
from tests.unit.kube.server import ApiStub, set_namespace, write_kubeconfig
from tests.unit.view.conftest import Call
from tests.unit.view.pods import NAMES, SUNK, add, change, pod, waiting

ROOT = Path(__file__).parents[3]
SECONDS = 120.0
PODS_PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
def call(kubeconfig: Path, command_line: Call) -> Call:
    """Carries out this command with these words."""
    return partial(command_line, "queue")


async def test_pods_of_the_scheduler_are_listed(server: KubeServer, call: Call) -> None:
    add(server, pod("waits", annotations={SUNK + "qos": "high"}, status=waiting()))
    add(server, pod("runs", nodeName="node-1", status={"phase": "Running"}))
    add(server, pod("ended", nodeName="node-1", status={"phase": "Succeeded"}))
    add(server, pod("foreign", schedulerName="default-scheduler"))
    status, out, err = await call()
    heading, *lines = (line.split() for line in out.splitlines())
    assert (status, err, heading[:2]) == (0, "", ["NAME", "STATE"])
    assert [it[:3] for it in lines] == [["waits", "PENDING", "Resources"], ["runs", "RUNNING", "-"]]
    assert (await call("-t", "all"))[1].count("\n") == 4
    assert (await call("-t", "R,CD", "-o", "name"))[1] == "pod/runs\npod/ended\n"
    assert (await call("-p", "gpu", "-o", "name"))[1] == "pod/waits\n"
    assert (await call("--sort=name", "-o", "name"))[1] == "pod/runs\npod/waits\n"
    assert (await call("--scheduler-name=default-scheduler", "-o", "name"))[1] == "pod/foreign\n"


async def test_forms_for_programs_have_all_that_is_known(server: KubeServer, call: Call) -> None:
    add(server, pod("waits", status=waiting()))
    (item,) = json.loads((await call("-o", "json"))[1])["items"]
    assert (item["name"], item["partition"], item["priority"]) == ("waits", "gpu", 100)
    assert yaml.safe_load((await call("-o", "yaml"))[1]) == {"items": [item]}
    wide = (await call("-o", "wide"))[1]
    assert "Slurm job 7 is pending: Resources" in wide


async def test_namespaces_and_labels_choose(server: KubeServer, call: Call) -> None:
    server.model.create(resources.NAMESPACES, "", {"metadata": {"name": "other"}})
    add(server, pod("here", meta={"labels": {"app": "a"}}))
    add(server, pod("there", meta={"labels": {"app": "b"}}), namespace="other")
    assert (await call("-n", "other", "-o", "name"))[1] == "pod/there\n"
    heading, *lines = (line.split() for line in (await call("-A"))[1].splitlines())
    assert heading[:2] == ["NAMESPACE", "NAME"]
    assert [it[:2] for it in lines] == [["default", "here"], ["other", "there"]]
    assert (await call("-A", "-l", "app=b", "-o", "name"))[1] == "pod/there\n"
    status, out, err = await call("-n", "nowhere")
    assert (status, out) == (0, "")
    assert err == "no pods with schedulerName slurm-scheduler in namespace nowhere\n"
    err = (await call("-t", "F"))[2]
    assert err == (
        "1 pod with schedulerName slurm-scheduler in namespace default, but only in other states "
        "(PENDING): see -t all\n"
    )
    err = (await call("-p", "gpu"))[2]
    assert err.startswith("none of the 1 pods with schedulerName slurm-scheduler in namespace def")


async def test_namespace_of_the_context_counts(
    server: KubeServer, kubeconfig: Path, call: Call
) -> None:
    server.model.create(resources.NAMESPACES, "", {"metadata": {"name": "other"}})
    add(server, pod("there"), namespace="other")
    set_namespace(kubeconfig, "other")
    assert (await call("-o", "name"))[1] == "pod/there\n"


@pytest.fixture
def calls_stub(stub: ApiStub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    """As `call`, on the scripted API server."""
    config = write_kubeconfig(tmp_path / "kubeconfig", stub.url, {"token": "secret"})

    async def call(*words: str) -> tuple[int, str, str]:
        status = await asyncio.to_thread(main, ["queue", *words, f"--kubeconfig={config}"])
        out, err = capfd.readouterr()
        return status, out, err

    return call


async def test_pods_come_in_pages_and_only_ours(stub: ApiStub, calls_stub: Call) -> None:
    pages = stub_server.page(stub_server.pod("a"), token="next"), stub_server.page()
    stub.answer("GET", PODS_PATH, *pages)
    assert (await calls_stub("-o", "name"))[1] == "pod/a\n"
    first = {"limit": "500", "fieldSelector": "spec.schedulerName=slurm-scheduler"}
    assert [it.query for it in stub.seen] == [first, first | {"continue": "next"}]


async def test_fewer_large_pods_are_asked_for_at_once(stub: ApiStub, calls_stub: Call) -> None:
    """A namespace with 500 pods of a megabyte made each list of all pods take as much memory."""
    text, limits = "x" * 300_000, list[int]()

    async def listed(request: web.Request) -> web.StreamResponse:
        begin, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        limits.append(limit)
        found = [
            stub_server.pod(f"p{it}", metadata={"annotations": {"a": text}})
            for it in range(60)[begin : begin + limit]
        ]
        more = str(begin + limit) if begin + limit < 60 else ""
        return await stub_server.page(*found, token=more)(request)

    stub.answer("GET", PODS_PATH, listed)
    status, out, _ = await calls_stub("-o", "name")
    assert (status, out.count("\n")) == (0, 60)
    assert limits == [500, 50, 50]


async def test_deep_pod_ends_no_watch() -> None:
    """Whoever creates a pod may nest its managedFields 10 000 levels deep, in 20 kB."""
    levels = 5000
    deep: bytes = msgspec.json.encode({"type": "ADDED", "object": pod("deep")})
    fields = b'"managedFields":[' + b'{"f:a":' * levels + b"{}" + b"}" * levels + b"],"
    deep = deep.replace(b'"metadata":{', b'"metadata":{' + fields)

    class Session:
        async def stream(self, _path: str, *, query: object) -> AsyncGenerator[bytes]:
            yield deep
            yield msgspec.json.encode({"type": "ADDED", "object": pod("other")})

    wanted = Wanted("slurm-scheduler", "", "")
    listing = Listing(cast("KubeSession", Session()), wanted, read=partial(row_of, names=NAMES))
    assert [new and new.name async for _, new in listing.changes()] == ["deep", "other"]


async def test_list_that_took_too_long_is_begun_anew(stub: ApiStub, calls_stub: Call) -> None:
    first, expired = stub_server.page(stub_server.pod("a"), token="next"), stub_server.status(410)
    rest = stub_server.page(stub_server.pod("b"))
    stub.answer("GET", PODS_PATH, first, expired, first, rest)
    assert (await calls_stub("-o", "name"))[1] == "pod/a\npod/b\n"


@pytest.mark.parametrize(
    ("answer", "words", "named"),
    [
        (
            stub_server.status(403, reason="Forbidden"),
            [],
            "the right `list` on `pods` is missing there; name another",
        ),
        (
            stub_server.status(403, reason="Forbidden"),
            ["-A"],
            "you may not list pods in all namespaces: the right",
        ),
        (stub_server.status(401, reason="Unauthorized"), [], "log in again"),
        (stub_server.status(400, message="bad \x1b[2J"), ["-l", "a=b=c"], "-l: 'a=b=c': expected"),
        (stub_server.status(500, message="etcd"), [], "refuses the request: 500"),
        (stub_server.raw(b"<html>"), [], "does not answer as it should (not JSON"),
    ],
)
async def test_refusal_is_told_in_one_line(
    stub: ApiStub, calls_stub: Call, answer: Any, words: list[str], named: str
) -> None:
    stub.answer("GET", PODS_PATH, answer)
    stub.answer("GET", "/api/v1/pods", answer)
    status, out, err = await calls_stub(*words)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("slurm-pod-scheduler queue: ")
    assert named in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--kubeconfig=/nowhere/config"], "kubeconfig /nowhere/config: no such file"),
        (["--context=none"], "none"),
        (["-n", "A/../b?x\x1b[2J"], "-n: 'A/../b?x\\\\x1b[2J': expected the name of a namespace"),
        (["-n", ""], "-n: ''"),
    ],
)
async def test_wrong_place_is_told_in_one_line(call: Call, words: list[str], named: str) -> None:
    status, out, err = await call(*words)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert named in err


@pytest.mark.parametrize(
    ("server", "token"),
    [
        ("http://a..b:1", "t"),
        (f"http://{'a' * 70}.example:1", "t"),
        ("", "two\nlines"),
        ("", "a\0"),
    ],
)
async def test_what_no_request_can_have_is_told_in_one_line(
    stub: ApiStub, tmp_path: Path, command_line: Call, server: str, token: str
) -> None:
    config = write_kubeconfig(tmp_path / "odd", server or stub.url, {"token": token})
    status, out, err = await command_line("queue", f"--kubeconfig={config}")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "does not answer as it should" in err
    assert "two" not in err


async def test_page_that_cannot_be_asked_is_told_in_one_line(
    stub: ApiStub, tmp_path: Path, command_line: Call
) -> None:
    stub.answer("GET", PODS_PATH, stub_server.page())
    config = write_kubeconfig(tmp_path / "odd", stub.url, {"token": "two\nlines"})
    token = tmp_path / "token"
    token.write_text("token")
    for page, given in (("https://a..b", token), (stub.url, None)):
        words = [f"--page-url={page}", f"--kubeconfig={config}"]
        words += [] if given is None else [f"--page-token-file={given}"]
        status, _, err = await command_line("partitions", *words)
        assert (status, "Traceback" in err) == (1, False)
        assert f"{page} does not answer: " in err


async def test_server_that_is_away_is_named(
    kubeconfig: Path, server: KubeServer, call: Call
) -> None:
    await server.stop(kill=True)
    status, _, err = await call()
    assert (status, err.count("\n")) == (1, 1)
    assert f"the API server {server.url} does not answer" in err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["-t", "waiting"], "--states: 'waiting': expected one of PENDING (PD)"),
        (["--sort=colour"], "--sort: 'colour': expected some of namespace, name"),
        (["-o", "xml"], "--output: invalid choice: 'xml'"),
        (["-A", "-n", "x"], "not allowed with argument"),
        (["extra"], "unexpected argument extra"),
        (["--device-resources=x"], "--device-resources: 'x': expected KEY=VALUE"),
    ],
)
def test_wrong_words_are_named_in_one_line(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(["queue", *words])
    except SystemExit as ended:
        status = ended.code
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert named in err


async def test_settings_of_the_service_do_not_matter(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_POD_SCHEDULER_WORKERS", "none")
    monkeypatch.setenv("SLURM_POD_SCHEDULER_SCHEDULER_NAME", "batch")
    status, _, err = await call()
    assert (status, err) == (0, "no pods with schedulerName batch in namespace default\n")


async def test_pods_that_have_all_ended_are_counted(server: KubeServer, call: Call) -> None:
    add(server, pod("done", status={"phase": "Succeeded"}))
    status, _, err = await call()
    assert status == 0
    assert "1 pod with schedulerName slurm-scheduler in namespace default, but only in" in err
    assert "other states (COMPLETED): see -t all" in err
    _, out, _ = await call("-t", "all")
    assert "done" in out


# What a shell starts in the background ignores SIGINT, and so would everything that it starts.
_PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from scheduler.__main__ import main
sys.exit(main(["queue", *sys.argv[1:]]))
"""


@asynccontextmanager
async def started(
    *words: str, stdout: int = subprocess.PIPE
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PROGRAM, *words),
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES"}},
        stdout=stdout,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def state_in(process: asyncio.subprocess.Process) -> str:
    """The state in the next line."""
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        return str(json.loads(await process.stdout.readline())["state"])


@pytest.mark.usefixtures("kubeconfig")
async def test_watch_prints_each_change_until_ctrl_c(server: KubeServer) -> None:
    add(server, pod("train", status=waiting()))
    async with started("-w", "-o", "json") as process:
        assert await state_in(process) == "PENDING"
        add(server, pod("foreign", schedulerName="default-scheduler"))
        change(server, "train", {"phase": "Failed"})
        assert await state_in(process) == "FAILED"
        add(server, pod("next"))
        assert await state_in(process) == "PENDING"
        server.model.store.remove(resources.PODS.storage, ("default", "next"))
        assert await state_in(process) == "GONE"
        process.send_signal(signal.SIGINT)
        rest, err = await process.communicate()
    assert (process.returncode, rest, err) == (130, b"", b"")


@pytest.mark.usefixtures("kubeconfig")
async def test_reader_that_leaves_is_no_trouble(server: KubeServer) -> None:
    for number in range(5):
        add(server, pod(f"p{number}"))
    reading, writing = os.pipe()
    os.close(reading)
    async with started("-o", "json", stdout=writing) as process:
        os.close(writing)
        _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")


@pytest.mark.usefixtures("kubeconfig")
async def test_output_that_takes_nothing_is_told_in_one_line(server: KubeServer) -> None:
    add(server, pod())
    for redirection, why in ((">/dev/full", b"No space left"), (">&-", b"output is closed")):
        line = f'exec "$@" {redirection}'
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", line, "sh", sys.executable, "-m", "scheduler", "queue"),
            cwd=ROOT,
            stderr=subprocess.PIPE,
        )
        _, err = await process.communicate()
        assert (process.returncode, err.count(b"\n")) == (1, 1)
        assert why in err


@pytest.mark.usefixtures("kubeconfig")
async def test_terminal_is_repainted_within_its_size(server: KubeServer) -> None:
    evil = "\x1b]0;owned\x07 not for terminals"
    for number in range(30):
        add(server, pod(f"p{number}", status=waiting(evil, "Reason\x1b[31m")))
    reading, writing = os.openpty()
    fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 60, 0, 0))
    async with started("-w", "-o", "wide", stdout=writing) as process:
        os.close(writing)
        seen = await until_more(reading)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    os.close(reading)
    assert (process.returncode, err) == (130, b"")
    painting = re.sub("\x1b\\[(?:H|J|33m|0m)", "", seen.decode())
    assert "\x1b" not in painting
    assert "\x07" not in painting
    lines = painting.splitlines()
    assert lines[-1] == "and 23 more"
    assert len(lines) == 9
    assert max(map(len, lines)) <= 60


async def until_more(reading: int) -> bytes:
    """What the terminal got, up to the line after its last row."""
    seen = b""
    async with asyncio.timeout(SECONDS):
        while b"more\r\n" not in seen:
            seen += await asyncio.to_thread(os.read, reading, 65536)
    return seen
