"""What the doctor asks of an API server, and that it comes to an end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from scheduler.config.settings import Address, Settings
from scheduler.doctor.asking import Progress
from scheduler.doctor.facts import (
    AdmissionPolicy,
    PodsOnNodes,
    Running,
    Unread,
    seconds_apart,
)
from scheduler.doctor.read_kube import MOST_NODES, MOST_PODS, KubeReader
from scheduler.doctor.read_scheduler import running_scheduler
from scheduler.kube.errors import Forbidden, KubeTooLarge, NotFound
from scheduler.kube.pages import MOST_PAGE_BYTES
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import PAGE_SIZE
from scheduler.service.probes import probes
from tests.support.ports import free_ports

SERVER = "https://kube.example"
VERSION = {"gitVersion": "v1.36.3"}
ALLOWED = {"status": {"allowed": True}}
EMPTY: dict[str, Any] = {"metadata": {}, "items": []}
ENDLESS: dict[str, Any] = {"metadata": {"continue": "more"}, "items": []}


class Stub:
    """Answers each path by `of`; any other list is empty. `asked` are all requests."""

    server = SERVER

    def __init__(self, of: dict[str, Any] | None = None, *, seconds_off: float = 0.0) -> None:
        self._of = {"/version": VERSION, **(of or {})}
        self._off = seconds_off
        self.asked: list[tuple[str, str]] = []

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        """As KubeSession's."""
        self.asked.append((method, path))
        if method == "POST":
            return msgspec.json.encode(ALLOWED)
        answer = self._of.get(path, EMPTY)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            await answer()
        return msgspec.json.encode(answer)

    async def server_time(self, *, timeout: float) -> datetime:  # noqa: ASYNC109 - as the session
        """As KubeSession's."""
        return datetime.now(UTC) + timedelta(seconds=self._off)


class Large(Stub):
    """Has 120 pods of 300 kB each, as an API server lists them."""

    PODS = 120

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []
        self.longest = 0

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        assert (method, path) == ("GET", "/api/v1/pods")
        query = more["query"]
        begin, limit = int(query.get("continue", 0)), int(query["limit"])
        self.limits.append(limit)
        found = range(self.PODS)[begin : begin + limit]
        page = {"continue": str(found[-1] + 1)} if found[-1] + 1 < self.PODS else {}
        text = "x" * 300_000
        pods = [
            {
                "metadata": {"name": f"p{it}", "uid": f"u{it}", "annotations": {"a": text}},
                "spec": {"nodeName": "n", "schedulerName": "other"},
            }
            for it in found
        ]
        body = msgspec.json.encode({"metadata": page, "items": pods})
        if len(body) > (more.get("most_bytes") or 10**9):
            raise KubeTooLarge("too large")
        self.longest = max(self.longest, len(body))
        return body


def reader(stub: Stub, *, seconds: float = 5.0, **settings: Any) -> KubeReader:
    given = Settings.model_validate({key.replace("_", "-"): it for key, it in settings.items()})
    session = cast("KubeSession", stub)
    return KubeReader(
        given,
        session,
        reads_labels=False,
        seconds=seconds,
        progress=Progress(lambda _line: None),
    )


async def test_lists_without_an_end_are_left_after_a_number_of_pages() -> None:
    stub = Stub({"/api/v1/nodes": ENDLESS, "/api/v1/pods": ENDLESS})
    looked = reader(stub)
    await looked.read()
    crowd = await looked.crowd()
    assert isinstance(crowd, PodsOnNodes)
    assert not crowd.whole
    assert stub.asked.count(("GET", "/api/v1/nodes")) == MOST_NODES // PAGE_SIZE
    assert stub.asked.count(("GET", "/api/v1/pods")) == MOST_PODS // PAGE_SIZE


async def test_fewer_large_objects_are_asked_for_at_once() -> None:
    """Pods may have a megabyte each; the doctor may run beside the scheduler, in its memory."""
    stub = Large()
    crowd = await reader(cast("Stub", stub)).crowd()
    assert isinstance(crowd, PodsOnNodes)
    assert (crowd.whole, sum(it.pods for it in crowd.on.values())) == (True, Large.PODS)
    assert stub.longest <= MOST_PAGE_BYTES
    assert set(stub.limits) == {PAGE_SIZE, PAGE_SIZE // 10}


async def test_nothing_is_written_but_reviews() -> None:
    stub = Stub()
    await reader(stub, watch_namespace="a,b").read()
    assert {path for method, path in stub.asked if method != "GET"} == {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    }


async def test_server_without_its_version_is_asked_nothing_else() -> None:
    stub = Stub({"/version": Forbidden(403, reason="Forbidden")})
    found = await reader(stub).read()
    assert isinstance(found.version, Unread)
    assert stub.asked == [("GET", "/version")]


async def test_request_without_an_answer_ends_and_names_the_limit() -> None:
    stub = Stub({"/api/v1/nodes": asyncio.Event().wait})
    found = await reader(stub, seconds=0.05).read()
    assert isinstance(found.nodes, Unread)
    limit = f"the API server {SERVER} does not answer within 0.05 s (asked for the Nodes)"
    assert found.nodes == Unread(limit, "timeout")
    assert found.version == "v1.36.3"
    assert not isinstance(found.rights, Unread)


async def test_list_that_may_not_be_read_is_told_from_one_without_an_answer() -> None:
    stub = Stub({"/api/v1/nodes": Forbidden(403, reason="Forbidden", message="no")})
    assert (await reader(stub).read()).nodes == Unread("403 Forbidden no", "denied")


async def test_served_namespace_that_is_not_there_is_named() -> None:
    found = {
        "/api/v1/namespaces/a": {"metadata": {"name": "a", "uid": "1"}},
        "/api/v1/namespaces/b": NotFound(404, reason="NotFound"),
        "/api/v1/namespaces/c": Forbidden(403, reason="Forbidden"),
    }
    assert (await reader(Stub(found), watch_namespace="a,b,c").read()).absent == ("b",)


async def test_clock_of_the_server_is_compared_with_ours() -> None:
    found = await reader(Stub(seconds_off=90.0)).read()
    assert found.seconds_off == pytest.approx(89.5, abs=5.0)


def test_answer_that_takes_long_says_little_about_clocks() -> None:
    assert seconds_apart(1012.0, before=1000.4, after=1013.0) == 0.0
    assert seconds_apart(1020.0, before=1000.4, after=1013.0) == pytest.approx(7.0)
    assert seconds_apart(990.0, before=1000.4, after=1013.0) == pytest.approx(-9.4)
    assert seconds_apart(1000.0, before=1000.4, after=1000.5) == 0.0


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SETTINGS = "{ 'scheduler-name': 'slurm-scheduler', 'slurm-kill-wait': '30s', }"


def policy(name: str, settings: str) -> dict[str, Any]:
    variables = [{"name": "settings", "expression": settings}]
    return {"metadata": {"name": name}, "spec": {"variables": variables}}


async def test_policies_for_our_scheduler_are_found_with_their_settings_and_bindings() -> None:
    of_others = SETTINGS.replace("slurm-scheduler", "other")
    listed = [policy("ours", SETTINGS), policy("other", of_others), policy("foreign", "1 + 1")]
    bindings = [{"spec": {"policyName": "ours"}}]
    stub = Stub(
        {
            f"{ADMISSION}/validatingadmissionpolicies": {**EMPTY, "items": listed},
            f"{ADMISSION}/validatingadmissionpolicybindings": {**EMPTY, "items": bindings},
        }
    )
    settings = {"scheduler-name": "slurm-scheduler", "slurm-kill-wait": "30s"}
    assert (await reader(stub).read()).policies == (AdmissionPolicy("ours", settings, bound=True),)


async def test_server_without_admission_policies_has_none() -> None:
    stub = Stub({f"{ADMISSION}/validatingadmissionpolicies": NotFound(404)})
    assert (await reader(stub).read()).policies == ()


async def test_what_takes_long_is_said() -> None:
    said: list[str] = []
    heard = asyncio.Event()

    def hear(line: str) -> None:
        said.append(line)
        heard.set()

    shown = Progress(hear)
    async with asyncio.timeout(30), shown.shown():
        with shown.waiting("Slurm: its \x1b[2Jnodes"):
            await heard.wait()
    assert said[0].startswith("waiting for Slurm: its \\x1b[2Jnodes (")


async def answer_of(app: web.Application, host: str = "127.0.0.1") -> Running | Unread | None:
    """What the doctor makes of this server, which listens on a port of the loopback address."""
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address = Address(host=host, port=runner.addresses[0][1])
        return await running_scheduler(address, progress=Progress(lambda _line: None))
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
async def test_scheduler_is_asked_on_this_machine(host: str) -> None:
    found = await answer_of(probes(list, lambda: "leads: here"), host)
    assert isinstance(found, Running)
    assert (found.ready, found.words) == (True, ("ok", "leads: here"))
    found = await answer_of(probes(lambda: ["pods are not listed yet"]), host)
    assert isinstance(found, Running)
    assert (found.ready, found.words) == (False, ("pods are not listed yet",))


async def test_server_that_is_no_scheduler_is_told_from_one() -> None:
    assert isinstance(await answer_of(web.Application()), Unread)


async def test_port_where_nothing_listens_is_no_scheduler() -> None:
    (port,) = free_ports(1)
    address = Address(host=None, port=port)
    assert await running_scheduler(address, progress=Progress(lambda _line: None)) is None
    assert await running_scheduler(None, progress=Progress(lambda _line: None)) is None
