from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from blockbuster import blockbuster_ctx
from kubernetes_asyncio.config import incluster_config

from groundwork.retry import retry_policy
from scheduler.kube import errors
from scheduler.kube.causes import cause_of
from scheduler.kube.session import LONGEST_LINE, WATCH_IDLE_SECONDS, KubeConfigError, KubeSession
from tests.support.loop_time import pass_time
from tests.support.names import lose_reserved_names
from tests.unit.kube import server
from tests.unit.kube.server import ApiStub, set_namespace, write_kubeconfig

PODS = "/api/v1/pods"


async def test_request_carries_token_agent_query_and_body(
    stub: ApiStub, session: KubeSession
) -> None:
    stub.answer("POST", "/x", server.ok({"a": 1}, 201))
    body = await session.request("POST", "/x", query={"f": "a=b"}, body={"é": (1, 2)})
    seen = stub.seen[0]
    assert json.loads(body) == {"a": 1}
    assert seen.headers["Authorization"] == "Bearer secret"
    assert seen.headers["User-Agent"] == "test/1"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.query == {"f": "a=b"}
    assert seen.body == {"é": [1, 2]}


async def test_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9", {})
    async with await KubeSession.open(config, user_agent="test/1") as session:
        assert session.namespace == ""
    set_namespace(config, "research")
    async with await KubeSession.open(config, user_agent="test/1") as session:
        assert session.namespace == "research"


@pytest.mark.parametrize(
    ("told", "time_of_day"),
    [
        ("Tue, 24 Nov 2026 03:45:21 GMT", datetime(2026, 11, 24, 3, 45, 21, tzinfo=UTC)),
        ("Tue, 24 Nov 2026 03:45:21 -0000", datetime(2026, 11, 24, 3, 45, 21, tzinfo=UTC)),
        ("Tue, 99 Nov 2026 03:45:21 GMT", None),
        ("soon", None),
    ],
)
async def test_time_of_the_server_is_that_of_its_answer(
    stub: ApiStub, session: KubeSession, told: str, time_of_day: datetime | None
) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(headers={"Date": told})

    stub.answer("GET", "/version", answer)
    assert await session.server_time(timeout=10.0) == time_of_day


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (302, errors.KubeRefused, False),
        (400, errors.KubeRefused, False),
        (401, errors.Unauthorized, False),
        (403, errors.Forbidden, False),
        (404, errors.NotFound, False),
        (409, errors.Conflict, False),
        (410, errors.VersionTooOld, False),
        (422, errors.Invalid, False),
        (429, errors.TooMany, True),
        (500, errors.KubeRefused, True),
        (503, errors.KubeRefused, True),
    ],
)
async def test_status_becomes_its_error(
    stub: ApiStub,
    session: KubeSession,
    code: int,
    kind: type[errors.KubeRefused],
    retryable: bool,
) -> None:
    stub.answer("GET", "/x", server.status(code, reason="Why", message="because"))
    with pytest.raises(errors.KubeRefused) as caught:
        await session.request("GET", "/x")
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason) == (code, "Why")
    assert str(caught.value) == f"{code} Why because"
    assert caught.value.retryable is retryable


async def test_namespace_that_ends_is_no_lack_of_rights(
    stub: ApiStub, session: KubeSession
) -> None:
    details = {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]}
    stub.answer("POST", "/x", server.status(403, reason="Forbidden", details=details))
    with pytest.raises(errors.NamespaceEnds) as caught:
        await session.request("POST", "/x", body={})
    assert caught.value.outcome == "namespace_ends"


@pytest.fixture
async def permitted(
    stub: ApiStub, tmp_path: Path
) -> AsyncIterator[tuple[KubeSession, list[float]]]:
    """A session, and the permits it is given: each but the last once."""
    permits = [0.0]

    def permit() -> float:
        return permits.pop(0) if len(permits) > 1 else permits[0]

    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", stub.url, {"token": "secret"})
    opening = KubeSession.open(kubeconfig, user_agent="test/1", permit=permit)
    async with await opening as session:
        yield session, permits


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_write_without_a_permit_is_never_sent(
    stub: ApiStub, permitted: tuple[KubeSession, list[float]], method: str
) -> None:
    session, _ = permitted
    stub.answer("GET", "/x", server.ok({}))
    with pytest.raises(errors.KubeFenced) as caught:
        await session.request(method, "/x", body={})
    assert not caught.value.retryable
    await session.request("GET", "/x")
    assert [seen.method for seen in stub.seen] == ["GET"], "reading is always allowed"


async def test_write_that_is_tried_again_asks_again(
    stub: ApiStub, permitted: tuple[KubeSession, list[float]]
) -> None:
    session, permits = permitted
    permits[:] = [5.0, 5.0, 0.0]
    stub.answer("POST", "/x", server.status(503), server.ok({}))
    policy = retry_policy(errors.KubeError)
    with pytest.raises(errors.KubeFenced):
        await policy(lambda: session.request("POST", "/x", body={}))
    assert len(stub.seen) == 1


async def test_write_ends_with_its_permit(
    stub: ApiStub, permitted: tuple[KubeSession, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, permits = permitted
    permits[:] = [30.0]
    stub.answer("POST", "/x", server.hang())
    task = asyncio.ensure_future(session.request("POST", "/x", body={}, timeout=60))
    await stub.wait_for_requests(1, "POST")
    pass_time(monkeypatch, 40)
    with pytest.raises(errors.KubeInterrupted):
        await task


async def test_404_of_a_gateway_says_nothing_of_the_object(
    stub: ApiStub, session: KubeSession
) -> None:
    """Else a pod that runs would count as gone, and lose what it holds."""
    stub.answer("GET", "/x", server.raw(b"404 page not found", 404))
    with pytest.raises(errors.KubeRefused) as caught:
        await session.request("GET", "/x")
    assert type(caught.value) is errors.KubeRefused
    assert str(caught.value) == "404 Not Found, and the answer is not one of the Kubernetes API"


async def test_status_that_arrives_in_pieces_is_read_to_its_end(
    stub: ApiStub, session: KubeSession
) -> None:
    """Else a pod that is gone would never count as gone, and its job would hold its node."""
    body = b'{"kind": "Status", "reason": "NotFound", "code": 404}'
    answer = server.pieces(body[:9], body[9:], then="close", code=404, seconds_apart=0.01)
    stub.answer("GET", "/x", answer)
    with pytest.raises(errors.NotFound):
        await session.request("GET", "/x")


@pytest.mark.parametrize("then", ["cut", "hold"])
async def test_refusal_whose_body_does_not_end_is_one(
    stub: ApiStub, session: KubeSession, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    monkeypatch.setattr("scheduler.kube.session.ERROR_BODY_SECONDS", 0.05)
    stub.answer("POST", "/x", server.pieces(b'{"kind": "Sta', then=then, code=403))
    with pytest.raises(errors.Forbidden):
        await session.request("POST", "/x", body={})


async def test_body_that_is_no_status_is_not_repeated(stub: ApiStub, session: KubeSession) -> None:
    stub.answer("GET", "/x", server.raw(b'{"password": "hunter2"}', 502))
    with pytest.raises(errors.KubeRefused) as caught:
        await session.request("GET", "/x")
    assert str(caught.value) == "502 Bad Gateway"


@pytest.mark.parametrize(("said", "meant"), [("7", 7.0), ("100000", 60.0), ("soon", None)])
async def test_retry_after_is_read_and_bounded(
    stub: ApiStub, session: KubeSession, said: str, meant: float | None
) -> None:
    stub.answer("GET", "/x", server.status(429, retry_after=said))
    with pytest.raises(errors.TooMany) as caught:
        await session.request("GET", "/x")
    assert caught.value.retry_after == meant


async def test_nobody_there_is_unreachable(tmp_path: Path, unused_tcp_port: int) -> None:
    config = write_kubeconfig(tmp_path / "c", f"http://127.0.0.1:{unused_tcp_port}", {})
    async with await KubeSession.open(config, user_agent="t") as session:
        with pytest.raises(errors.KubeUnreachable):
            await session.request("GET", "/x")


async def test_dropped_and_late_answers_are_interrupted(
    stub: ApiStub, session: KubeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.answer("POST", "/cut", server.cut())
    stub.answer("POST", "/hang", server.hang())
    with pytest.raises(errors.KubeInterrupted):
        await session.request("POST", "/cut")
    late = asyncio.ensure_future(session.request("POST", "/hang", timeout=30))
    await stub.wait_for_requests(2, "POST")
    pass_time(monkeypatch, 40)
    with pytest.raises(errors.KubeInterrupted):
        await late


async def test_peer_that_speaks_no_http_is_garbled(tmp_path: Path) -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as peer:
        port = peer.sockets[0].getsockname()[1]
        config = write_kubeconfig(tmp_path / "c", f"http://127.0.0.1:{port}", {})
        async with await KubeSession.open(config, user_agent="t") as session:
            with pytest.raises(errors.KubeGarbled):
                await session.request("GET", "/x")


async def test_observer_hears_operation_outcome_and_time(stub: ApiStub, tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    config = write_kubeconfig(tmp_path / "c", stub.url, {})
    stub.answer("GET", "/good", server.ok({}))
    stub.answer("GET", "/bad", server.status(404))
    async with await KubeSession.open(
        config, user_agent="t", observe=lambda what, how, _seconds: heard.append((what, how))
    ) as session:
        await session.request("GET", "/good", operation="look")
        with pytest.raises(errors.NotFound):
            await session.request("GET", "/bad")
    assert heard == [("look", "ok"), ("get", "not_found")]


async def test_stream_gives_lines_until_the_server_closes(
    stub: ApiStub, session: KubeSession
) -> None:
    stub.answer("WATCH", PODS, server.pieces(b"on", b"e\ntwo\n", then="close"))
    lines = [line async for line in session.stream(PODS, query={"watch": "true"})]
    assert lines == [b"one", b"two"]


async def test_request_that_is_cancelled_in_the_turn_of_its_deadline_is_cancelled(
    stub: ApiStub, session: KubeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stood still finds all its timers due at once when it goes on."""
    stub.answer("POST", "/hang", server.hang())
    task = asyncio.ensure_future(session.request("POST", "/hang", timeout=30))
    await stub.wait_for_requests(1, "POST")
    asyncio.get_running_loop().call_later(20, task.cancel)
    pass_time(monkeypatch, 60)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_silent_stream_ends_after_its_idle_time(
    stub: ApiStub, session: KubeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.answer("WATCH", PODS, server.pieces(b"one\n", b"half a li", then="hold"))
    lines = session.stream(PODS, query={"watch": "true"})
    assert await anext(lines) == b"one"
    # in the turn after the one in which the next line is first waited for
    asyncio.get_running_loop().call_soon(pass_time, monkeypatch, WATCH_IDLE_SECONDS + 10)
    with pytest.raises(errors.KubeInterrupted):
        await anext(lines)


async def test_slow_consumer_is_not_an_idle_stream(
    stub: ApiStub, session: KubeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.answer("WATCH", PODS, server.pieces(b"one\n", b"two\n", then="close"))
    got = []
    async for line in session.stream(PODS, query={"watch": "true"}):
        got.append(line)
        pass_time(monkeypatch, WATCH_IDLE_SECONDS + 10)  # on our side
        await asyncio.sleep(0)
    assert got == [b"one", b"two"]


@pytest.mark.parametrize("sized", [True, False], ids=["a size is told", "no size"])
async def test_body_above_the_limit_is_not_read(
    stub: ApiStub, session: KubeSession, *, sized: bool
) -> None:
    body = b"x" * 1001
    answer = server.raw(body) if sized else server.pieces(body, then="close")
    stub.answer("GET", PODS, answer)
    assert await session.request("GET", PODS, most_bytes=1001) == body
    with pytest.raises(errors.KubeTooLarge) as failed:
        await session.request("GET", PODS, most_bytes=1000)
    assert cause_of(failed.value, server=session.server) is None, "the server is there"
    assert await session.request("GET", PODS) == body


async def test_cut_stream_is_interrupted(stub: ApiStub, session: KubeSession) -> None:
    stub.answer("WATCH", PODS, server.pieces(b"one\n", then="cut"))
    with pytest.raises(errors.KubeInterrupted):
        _ = [line async for line in session.stream(PODS, query={"watch": "true"})]


async def test_largest_object_is_one_line(stub: ApiStub, session: KubeSession) -> None:
    """1.5 MiB of `<`, each of which the API server writes as six bytes."""
    pod = server.pod("p", metadata={"annotations": {"a": "<" * (3 << 19)}})
    line = json.dumps(server.event("MODIFIED", pod)).replace("<", "\\u003c").encode()
    stub.answer("WATCH", PODS, server.pieces(line + b"\n", then="close"))
    got = [it async for it in session.stream(PODS, query={"watch": "true"})]
    assert got == [line]


async def test_line_above_the_limit_is_garbled(stub: ApiStub, session: KubeSession) -> None:
    stub.answer("WATCH", PODS, server.pieces(b"x" * (LONGEST_LINE + 1), then="close"))
    with pytest.raises(errors.KubeGarbled):
        _ = [line async for line in session.stream(PODS, query={"watch": "true"})]


async def test_refused_stream_is_refused(stub: ApiStub, session: KubeSession) -> None:
    stub.answer("WATCH", PODS, server.status(429, retry_after="3"))
    with pytest.raises(errors.TooMany) as caught:
        _ = [line async for line in session.stream(PODS, query={"watch": "true"})]
    assert caught.value.retry_after == 3.0


async def test_abandoned_streams_give_their_connections_back(stub: ApiStub, tmp_path: Path) -> None:
    stub.answer("WATCH", PODS, server.pieces(b"one\n", then="hold"))
    stub.answer("GET", "/x", server.ok({}))
    config = write_kubeconfig(tmp_path / "c", stub.url, {})
    async with await KubeSession.open(config, user_agent="t", max_connections=1) as session:
        for _ in range(3):
            async with aclosing(session.stream(PODS, query={"watch": "true"})) as lines:
                async for _line in lines:
                    break
        await session.request("GET", "/x", timeout=30)


async def test_requests_that_hang_hold_up_no_other(stub: ApiStub, session: KubeSession) -> None:
    stub.answer("POST", "/hangs", server.hang())
    stub.answer("GET", "/x", server.ok({}))
    hung = [
        asyncio.ensure_future(session.request("POST", "/hangs", timeout=600)) for _ in range(150)
    ]
    await stub.wait_for_requests(len(hung), "POST")
    await session.request("GET", "/x", timeout=30)
    for task in hung:
        task.cancel()
    await asyncio.gather(*hung, return_exceptions=True)


async def test_two_sessions_do_not_share_credentials(stub: ApiStub, tmp_path: Path) -> None:
    stub.answer("GET", "/x", server.ok({}))
    one = write_kubeconfig(tmp_path / "1", stub.url, {"token": "one"})
    two = write_kubeconfig(tmp_path / "2", stub.url, {"token": "two"})
    async with (
        await KubeSession.open(one, user_agent="t") as first,
        await KubeSession.open(two, user_agent="t") as second,
    ):
        await first.request("GET", "/x")
        await second.request("GET", "/x")
    assert [s.headers["Authorization"] for s in stub.seen] == ["Bearer one", "Bearer two"]


def _accept_only(token: str) -> server.Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        good = request.headers.get("Authorization") == f"Bearer {token}"
        return await (server.ok({}) if good else server.status(401))(request)

    return handle


async def test_token_file_is_read_again_after_a_refusal(stub: ApiStub, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    config = write_kubeconfig(tmp_path / "c", stub.url, {"tokenFile": str(token)})
    stub.answer("GET", "/x", _accept_only("new"))
    async with await KubeSession.open(config, user_agent="t") as session:
        with pytest.raises(errors.Unauthorized):
            await session.request("GET", "/x")
        token.write_text("new\n")
        await asyncio.gather(*(session.request("GET", "/x") for _ in range(5)))
        refused = len(stub.seen)
        await session.request("GET", "/x")
    assert len(stub.seen) == refused + 1


EXEC_PLUGIN = """
import json, pathlib, sys
runs = pathlib.Path(sys.argv[1])
count = int(runs.read_text()) + 1 if runs.exists() else 1
runs.write_text(str(count))
if count > int(sys.argv[2]):
    sys.exit("the cloud is away")
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {"token": f"token-{count}", "expirationTimestamp": sys.argv[3]}}))
"""


def _exec_kubeconfig(tmp_path: Path, url: str, *, good_runs: int, lifetime: timedelta) -> Path:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(EXEC_PLUGIN)
    expiry = (datetime.now(UTC) + lifetime).strftime("%Y-%m-%dT%H:%M:%SZ")
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin), str(tmp_path / "runs"), str(good_runs), expiry],
        }
    }
    return write_kubeconfig(tmp_path / "kubeconfig-exec", url, user)


async def test_exec_plugin_runs_once_for_many_refusals(stub: ApiStub, tmp_path: Path) -> None:
    config = _exec_kubeconfig(tmp_path, stub.url, good_runs=9, lifetime=timedelta(hours=1))
    stub.answer("GET", "/x", _accept_only("token-2"))
    async with await KubeSession.open(config, user_agent="t") as session:
        await asyncio.gather(*(session.request("GET", "/x") for _ in range(8)))
    assert (tmp_path / "runs").read_text() == "2"


async def test_broken_exec_plugin_leaves_the_refusal(stub: ApiStub, tmp_path: Path) -> None:
    config = _exec_kubeconfig(tmp_path, stub.url, good_runs=1, lifetime=timedelta(hours=1))
    stub.answer("GET", "/x", server.status(401, reason="Unauthorized"))
    async with await KubeSession.open(config, user_agent="t") as session:
        with pytest.raises(errors.Unauthorized):
            await session.request("GET", "/x")
    assert len(stub.seen) == 1


async def test_credentials_in_the_address_beside_a_token_are_refused(tmp_path: Path) -> None:
    config = write_kubeconfig(tmp_path / "both", "http://u:p4ss@127.0.0.1:9", {"token": "x"})
    with pytest.raises(
        KubeConfigError, match="both a user in the server's URL and a token"
    ) as refused:
        await KubeSession.open(config, user_agent="t")
    assert "p4ss" not in str(refused.value)


def _children(pid: int) -> list[str]:
    """What it has started and what still runs."""
    listed = subprocess.run(
        ("ps", "-o", "args=", "--ppid", str(pid)), capture_output=True, text=True, check=False
    )
    return [line for line in listed.stdout.splitlines() if "sleep 600" in line]


@pytest.mark.looptime
async def test_exec_plugin_that_does_not_end_is_named_and_not_waited_for(tmp_path: Path) -> None:
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", "exec sleep 600"],
        }
    }
    config = write_kubeconfig(tmp_path / "kubeconfig-hangs", "http://127.0.0.1:9", user)
    with pytest.raises(KubeConfigError, match=r"over 15 s: the exec plugin 'sh' does not end"):
        await KubeSession.open(config, user_agent="t")
    assert asyncio.get_running_loop().time() == pytest.approx(15.0, abs=1.0)
    until = time.monotonic() + 10.0
    while _children(os.getpid()):
        assert time.monotonic() < until, "the plugin was left behind"
        time.sleep(0.01)  # noqa: ASYNC251 - the loop's own time does not pass


async def test_in_cluster_files_are_used(
    stub: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = stub.url.rpartition(":")[2]
    (tmp_path / "token").write_text("from-the-kubelet\n")
    (tmp_path / "ca.crt").write_bytes(_certificate())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    async with await KubeSession.open(None, user_agent="t") as session:
        assert session.server == f"https://127.0.0.1:{port}"
        with pytest.raises(errors.KubeUnreachable):  # the stub speaks no TLS
            await session.request("GET", "/x")


def _certificate() -> bytes:
    import trustme

    return trustme.CA().cert_pem.bytes()


async def test_kubeconfig_variable_comes_before_the_cluster_around_us(
    stub: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_kubeconfig(tmp_path / "c", stub.url, {})
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent:{config}")
    async with await KubeSession.open(None, user_agent="t") as session:
        assert session.server == stub.url


@pytest.mark.parametrize("content", ["", "- a list", "a: [", "{}", '{"current-context": "none"}'])
async def test_unusable_kubeconfig_is_named(tmp_path: Path, content: str) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(content)
    with pytest.raises(KubeConfigError):
        await KubeSession.open(config, user_agent="t")


_SHAPE = "expected clusters, users, contexts and current-context"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", _SHAPE),
        (b"- a list", _SHAPE),
        (b"clusters: 5", _SHAPE),
        (b"current-context: a\ncontexts: [{name: a, context: 7}]", _SHAPE),
        (b"\xff\xfe\x00", "expected text in UTF-8"),
    ],
)
async def test_kubeconfig_of_another_shape_is_told_in_words(
    tmp_path: Path, content: bytes, told: str
) -> None:
    config = tmp_path / "kubeconfig"
    config.write_bytes(content)
    with pytest.raises(KubeConfigError, match=rf"kubeconfig: {told}"):
        await KubeSession.open(config, user_agent="t")


@pytest.mark.parametrize("server", ["foo", "localhost:6443", "//x", "http://", "ftp://x"])
async def test_server_that_is_no_url_is_named(tmp_path: Path, server: str) -> None:
    config = write_kubeconfig(tmp_path / "kubeconfig", server, {})
    told = f"server: '{server}/?': expected https://HOST:PORT"
    with pytest.raises(KubeConfigError, match=told):
        await KubeSession.open(config, user_agent="t")


async def test_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match="expected a file; it is a folder"):
        await KubeSession.open(tmp_path, user_agent="t")


async def test_absent_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeConfigError, match="nowhere: no such file"):
        await KubeSession.open(tmp_path / "nowhere", user_agent="t")


async def test_proxy_of_the_environment_is_used(
    stub: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_kubeconfig(tmp_path / "c", "http://kubernetes.invalid", {})
    stub.answer("GET", "/x", server.ok({}))
    monkeypatch.setenv("http_proxy", stub.url)
    async with await KubeSession.open(config, user_agent="t") as session:
        await session.request("GET", "/x")
    assert stub.seen[0].headers["Host"] == "kubernetes.invalid"


async def test_proxy_is_not_used_where_the_environment_says_so(
    stub: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_reserved_names(monkeypatch)
    config = write_kubeconfig(tmp_path / "c", "http://kubernetes.invalid", {})
    monkeypatch.setenv("http_proxy", stub.url)
    monkeypatch.setenv("no_proxy", "kubernetes.invalid")
    async with await KubeSession.open(config, user_agent="t") as session:
        with pytest.raises(errors.KubeUnreachable):
            await session.request("GET", "/x")
    assert not stub.seen


async def test_proxy_is_not_used_for_this_very_machine(
    stub: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_kubeconfig(tmp_path / "c", stub.url, {})
    stub.answer("GET", "/x", server.ok({}))
    monkeypatch.setenv("http_proxy", "http://proxy.invalid")
    monkeypatch.delenv("no_proxy", raising=False)
    async with await KubeSession.open(config, user_agent="t") as session:
        await session.request("GET", "/x")


async def test_requests_do_not_block_the_loop(stub: ApiStub, session: KubeSession) -> None:
    stub.answer("POST", "/x", server.ok({}))
    stub.answer("WATCH", PODS, server.pieces(b"one\n", then="close"))
    with blockbuster_ctx("scheduler"):
        await session.request("POST", "/x", body={"a": 1})
        assert [line async for line in session.stream(PODS, query={"watch": "true"})] == [b"one"]


async def test_write_asks_again_when_it_has_its_connection(
    stub: ApiStub, permitted: tuple[KubeSession, list[float]]
) -> None:
    session, permits = permitted
    stub.answer("POST", "/x", server.ok({}))
    for _ in range(2):  # on a new connection, and on one that was kept
        permits[:] = [5.0, 0.0]
        with pytest.raises(errors.KubeFenced):
            await session.request("POST", "/x", body={})
        permits[:] = [5.0, 5.0]
        await session.request("POST", "/x", body={})
    assert len(stub.seen) == 2
