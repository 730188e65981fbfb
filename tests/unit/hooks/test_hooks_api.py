"""The API on a socket: who is let in, what is said, and that bad callers cost little."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest
import trustme

from scheduler.config.settings import Address
from scheduler.hooks.api import (
    BODY_SECONDS,
    LARGEST_BODY,
    LONGEST_WAIT_SECONDS,
    MOST_WAITS_OF_A_UNIT,
    CallerLimits,
    HooksApi,
    JobNews,
)
from scheduler.hooks.pem import Certificate
from scheduler.listen.listener import (
    HANDSHAKE_SECONDS,
    HOOKS,
    KNOWN_SECONDS,
    LONGEST_FIELD,
    MOST_FIELDS,
    STRANGER_SECONDS,
    Listener,
)
from scheduler.listen.places import Capacity
from slurmapi import SlurmUnreachable
from tests.support.loop_time import pass_time
from tests.unit.hooks.conftest import SECRET, Scene

HERE = Address(host="127.0.0.1", port=0)
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
KNOWN = {"Authorization": f"Bearer {SECRET}"}
# What is to be cut off is so soon; everything else has time, however busy the machine is.
PATIENT = CallerLimits(wait_seconds=40, waits=3, body_seconds=40)


class Served:
    """The API of a scene, on a port of its own."""

    def __init__(self, scene: Scene, secrets, listener: Listener, *, limits: CallerLimits) -> None:
        self.scene = scene
        self.listener = listener
        self.hinted: list[int] = []
        self.begun: list[int] = []
        self.answered: list[int] = []
        self.beats: list[int] = []
        self.leads = True
        self.api = HooksApi(
            scene.guard,
            secrets=secrets,
            news=JobNews(
                begins=self.begun.append,
                answered=self.answered.append,
                changed=self.hinted.append,
            ),
            beat=lambda: self.beats.append(1),
            leads=lambda: self.leads,
            waits_on=listener.know,
            metrics=scene.metrics,
            clock=asyncio.get_running_loop().time,
            limits=limits,
        )
        self.port = 0

    async def open(self, tls: ssl.SSLContext | None = None) -> None:
        self.port = await self.listener.open(self.api.app(), HERE, tls=tls)

    async def post(self, path: str, *, headers=KNOWN, body: object = None, **fields):
        data = body if body is not None else urlencode(fields).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        timeout = aiohttp.ClientTimeout(total=55)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, data=data, headers={**FORM, **headers}) as answer,
        ):
            return answer.status, await answer.text()

    async def raw(self, sent: bytes) -> bytes:
        """What comes back on a connection of its own, until it is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(sent)
            async with asyncio.timeout(45):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


@pytest.fixture
def limits() -> CallerLimits:
    return PATIENT


@pytest.fixture
def stranger_seconds() -> float:
    return 40


@pytest.fixture
async def served(scene, secrets, limits, stranger_seconds) -> AsyncIterator[Served]:
    listener = Listener(
        Capacity(connections=16, strangers=16),
        stranger_seconds=stranger_seconds,
        handshake_seconds=HANDSHAKE_SECONDS,
    )
    served = Served(scene, secrets, listener, limits=limits)
    await served.open()
    yield served
    await listener.close()


async def test_free_node(served):
    assert await served.post("/v1/guard", job=7, nodes="n[1-2],m3") == (200, "free\n")
    assert (served.begun, served.answered, served.hinted) == ([7], [7], [])
    assert len(served.beats) == 1


async def test_busy_node_names_who_is_in_the_way(served):
    served.scene.departing_pod("a")
    assert await served.post("/v1/guard", job=7, nodes="n1", wait=3) == (409, "busy: ns/a\n")


def waits(served: Served) -> float | None:
    """How many of Slurm's prologs wait now."""
    value = served.scene.metrics.registry.get_sample_value
    return value("slurm_pod_scheduler_hook_waits", {"hook": "guard"})


async def one_waits(served: Served) -> None:
    async with asyncio.timeout(45):
        while waits(served) != 1:  # noqa: ASYNC110 - a mere number
            await asyncio.sleep(0.01)


async def test_wait_ends_when_the_pod_is_gone(served):
    served.scene.departing_pod("a")
    asking = asyncio.create_task(served.post("/v1/guard", job=7, nodes="n1", wait=50))
    await one_waits(served)
    served.scene.stop("a")
    assert await asking == (200, "freed\n")
    assert waits(served) == 0


@pytest.mark.parametrize("limits", [replace(PATIENT, wait_seconds=1)], ids=["1 s"])
async def test_nobody_waits_longer_than_the_bound(served):
    served.scene.departing_pod("a")
    assert (await served.post("/v1/guard", job=7, nodes="n1", wait=999999999))[0] == 409


async def test_what_is_not_known_is_said(served):
    served.scene.synced.clear()
    assert await served.post("/v1/guard", job=7, nodes="n1") == (503, "unknown\n")


async def test_placeholder_asks_with_its_own_token(served, secrets):
    served.scene.departing_pod("a")
    token = {"Authorization": f"Bearer {secrets.job_token('a')}"}
    assert (await served.post("/v1/units/a/gone", headers=token))[0] == 409
    served.scene.stop("a")
    assert await served.post("/v1/units/a/gone", headers=token) == (200, "free\n")
    assert (await served.post("/v1/units/b/gone", headers=token))[0] == 401
    assert (await served.post("/v1/guard", headers=token, job=7, nodes="n1"))[0] == 401
    assert (await served.post("/v1/hints", headers=token, job=7, event="ended"))[0] == 401
    assert not served.beats, "a job's user is no evidence of the guard"


async def test_hints(served):
    assert await served.post("/v1/hints", job=7, event="ended") == (202, "heard\n")
    assert served.hinted == [7]
    assert (await served.post("/v1/hints", job=7, event="eaten"))[0] == 400


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": SECRET},
        {"Authorization": f"Basic {SECRET}"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {SECRET}x"},
        {"Authorization": "Bearer \u00e9"},
    ],
)
async def test_strangers_are_refused(served, headers):
    for path in ("/v1/guard", "/v1/hints", "/v1/units/a/gone"):
        status, text = await served.post(path, headers=headers, job=7, nodes="n1", event="ended")
        assert (status, text) == (401, "Unauthorized\n")
    assert (served.begun, served.answered, served.hinted) == ([], [], [])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"nodes": "n1"}, "job: ''"),
        ({"job": "x", "nodes": "n1"}, "job: 'x'"),
        ({"job": "-1", "nodes": "n1"}, "job: '-1'"),
        ({"job": "0", "nodes": "n1"}, "job: '0'"),
        ({"job": "\u0664", "nodes": "n1"}, "job: "),
        ({"job": "9" * 11, "nodes": "n1"}, "job: "),
        ({"job": "7"}, "nodes: ''"),
        ({"job": "7", "nodes": ""}, "nodes: ''"),
        ({"job": "7", "nodes": "n[1-"}, "nodes: "),
        ({"job": "7", "nodes": "n[1-999999999]"}, "nodes: "),
        ({"job": "7", "nodes": "n[1-999][1-999][1-999]"}, "nodes: "),
        ({"job": "7", "nodes": "n1", "wait": "-1"}, "wait: '-1'"),
        ({"job": "7", "nodes": "n1", "wait": "inf"}, "wait: 'inf'"),
        ({str(n): "x" for n in range(20)}, "body: "),
    ],
)
async def test_bad_field_is_named(served, fields, said):
    status, text = await served.post("/v1/guard", **fields)
    assert status == 400
    assert text.startswith(said)


@pytest.mark.parametrize("seed", range(20))
async def test_garbage_is_answered_and_harms_nobody(served, seed):
    dice = random.Random(seed)
    body = dice.randbytes(dice.randrange(1, 2000))
    assert (await served.post("/v1/guard", body=body))[0] == 400
    assert b"200 OK" not in await served.raw(body + b"\r\n\r\n")
    head = b"POST /v1/guard HTTP/1.1\r\nAuthorization: Bearer " + body[:200] + b"\r\n\r\n"
    assert b"200 OK" not in await served.raw(head)
    assert (await served.post("/v1/guard", job=7, nodes="n1"))[0] == 200


async def test_nodes_of_the_largest_job_without_a_common_pattern_are_asked_about(served):
    """A refusal would end the guard of this job, and drain all of its nodes."""
    nodes = ",".join(f"pool-{number * 7919 % 100_003:05x}-{number:06d}" for number in range(7000))
    assert 120 * 1024 < len(nodes) < 128 * 1024 - len("SLURM_JOB_NODELIST=")
    assert await served.post("/v1/guard", job=7, nodes=nodes) == (200, "free\n")


async def test_huge_body_is_refused(served, secrets):
    assert (await served.post("/v1/guard", body=b"job=7&nodes=" + b"n" * LARGEST_BODY))[0] == 413
    token = {"Authorization": f"Bearer {secrets.job_token('a')}"}
    for body in (b"wait=1&x=" + b"n" * 2000, b"n" * 200_000):
        assert (await served.post("/v1/units/a/gone", headers=token, body=body))[0] == 413


async def test_endless_body_is_refused(served):
    async def drip() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield b"x" * 1024

    try:
        status, _text = await served.post("/v1/guard", body=drip())
    except aiohttp.ClientError:
        return  # cut off while it was still sending
    assert status == 413


@pytest.mark.parametrize("limits", [replace(PATIENT, body_seconds=0.2)], ids=["0.2 s"])
async def test_body_that_drips_is_cut_off(served):
    head = (
        f"POST /v1/guard HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
        "Content-Length: 100\r\n\r\njob="
    )
    assert b" 408 " in await served.raw(head.encode())


@pytest.mark.parametrize("stranger_seconds", [0.2])
@pytest.mark.parametrize("sent", [b"", b"POST /v1/gua", b"POST /v1/guard HTTP/1.1\r\nHost: x\r\n"])
async def test_connection_that_says_nothing_is_cut_off(served, sent):
    assert b"200 OK" not in await served.raw(sent)


@pytest.mark.parametrize(
    "beyond",
    [
        b"".join(b"X-%d: y\r\n" % number for number in range(MOST_FIELDS + 1)),
        b"X: " + b"y" * (LONGEST_FIELD + 1) + b"\r\n",
    ],
    ids=["fields", "bytes"],
)
async def test_head_beyond_its_bounds_is_refused(served, beyond):
    said = await served.raw(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + beyond + b"\r\n")
    assert b" 400 " in said.splitlines()[0]


async def test_connection_serves_one_request(served):
    asked = b"POST /v1/guard HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    assert (await served.raw(asked * 3)).count(b"HTTP/1.1 ") == 1


def test_longest_question_is_over_before_its_connection_is_cut():
    assert BODY_SECONDS + LONGEST_WAIT_SECONDS < KNOWN_SECONDS


@pytest.mark.parametrize("stranger_seconds", [20])
async def test_known_caller_is_not_cut_off_while_it_waits(served, monkeypatch):
    served.scene.departing_pod("a")
    asking = asyncio.create_task(served.post("/v1/guard", job=7, nodes="n1", wait=40))
    await one_waits(served)
    pass_time(monkeypatch, 30)
    served.scene.stop("a")
    assert await asking == (200, "freed\n")


async def test_too_many_waits_are_refused_and_others_served(served):
    served.scene.departing_pod("a")
    asked = [
        asyncio.create_task(served.post("/v1/guard", job=7, nodes="n1", wait=40)) for _ in range(5)
    ]
    async with asyncio.timeout(45):
        while sum(it.done() for it in asked) < 2:  # noqa: ASYNC110 - any two
            await asyncio.sleep(0.01)
    served.scene.stop("a")
    answers = await asyncio.gather(*asked)
    assert sorted(status for status, _ in answers) == [200, 200, 200, 429, 429]
    assert (await served.post("/v1/guard", job=7, nodes="n2"))[0] == 200


async def test_crowd_of_waits_holds_up_no_job_whose_nodes_are_free(served):
    """One user's jobs may take all places: the guard of the others must not end by that."""
    served.scene.departing_pod("a")
    crowd = [
        asyncio.create_task(served.post("/v1/guard", job=7, nodes="n1", wait=40))
        for _ in range(PATIENT.waits)
    ]
    async with asyncio.timeout(45):
        while waits(served) != PATIENT.waits:  # noqa: ASYNC110 - until all wait
            await asyncio.sleep(0.01)
    assert await served.post("/v1/guard", job=8, nodes="n2", wait=40) == (200, "free\n")
    assert (await served.post("/v1/guard", job=8, nodes="n1", wait=40))[0] == 429
    served.scene.slurm.fail["states"].extend(SlurmUnreachable("down") for _ in range(1000))
    assert (await served.post("/v1/guard", job=8, nodes="n1", wait=1))[0] == 503
    served.scene.slurm.fail["states"].clear()
    served.scene.stop("a")
    assert {status for status, _ in await asyncio.gather(*crowd)} == {200}


@pytest.mark.parametrize("limits", [replace(PATIENT, waits=100)], ids=["100"])
async def test_token_of_a_job_takes_few_of_all_waits(served, secrets):
    served.scene.departing_pod("a")
    token = {"Authorization": f"Bearer {secrets.job_token('a')}"}

    async def ask() -> int:
        status, _text = await served.post("/v1/units/a/gone", headers=token, wait=40)
        return int(status)

    asked = [asyncio.create_task(ask()) for _ in range(7)]
    async with asyncio.timeout(45):
        while sum(it.done() for it in asked) < 3:  # noqa: ASYNC110 - any three
            await asyncio.sleep(0.01)
    served.scene.stop("a")
    assert sorted(await asyncio.gather(*asked)) == [200] * MOST_WAITS_OF_A_UNIT + [429] * 3
    assert await ask() == 200


async def test_who_hangs_up_waits_no_longer(served):
    served.scene.departing_pod("a")
    for _ in range(2 * PATIENT.waits):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(served.post("/v1/guard", job=7, nodes="n1", wait=50), 0.02)
        await asyncio.sleep(0.01)
    assert (await served.post("/v1/guard", job=7, nodes="n2"))[0] == 200


async def test_waits_are_measured(served):
    await served.post("/v1/guard", job=7, nodes="n1")
    value = served.scene.metrics.registry.get_sample_value
    labels = {"hook": "guard", "answer": "free"}
    assert value("slurm_pod_scheduler_hook_seconds_count", labels) == 1


async def test_certificate_is_renewed_while_serving(scene, secrets, tmp_path):
    listener = Listener(
        HOOKS, stranger_seconds=STRANGER_SECONDS, handshake_seconds=HANDSHAKE_SECONDS
    )
    served = Served(scene, secrets, listener, limits=PATIENT)
    authority = trustme.CA()
    certificate = _certificate(authority, tmp_path)
    await served.open(tls=certificate.context)
    port = served.port
    first = await _serial(port, authority)
    (tmp_path / "tls.key").write_text("half written")
    with pytest.raises(OSError, match=r"PEM|SSL"):
        certificate.files.load()
    assert await _serial(port, authority) == first
    _issue(authority, tmp_path)
    certificate.files.load()
    assert await _serial(port, authority) != first
    await listener.close()


def _certificate(authority: trustme.CA, folder: Path) -> Certificate:
    _issue(authority, folder)
    certificate = Certificate(folder / "tls.crt", folder / "tls.key")
    certificate.files.load()
    return certificate


def _issue(authority: trustme.CA, folder: Path) -> None:
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "tls.crt")


async def _serial(port: int, authority: trustme.CA) -> str:
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    _reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
    try:
        return str(writer.get_extra_info("peercert")["serialNumber"])
    finally:
        writer.close()
        await writer.wait_closed()


async def test_request_that_comes_with_the_end_of_the_handshake_is_answered(
    scene, secrets, tmp_path
):
    """A client of TLS 1.3 may send its last word of the handshake and its request in one packet."""
    listener = Listener(
        HOOKS, stranger_seconds=STRANGER_SECONDS, handshake_seconds=HANDSHAKE_SECONDS
    )
    served = Served(scene, secrets, listener, limits=PATIENT)
    authority = trustme.CA()
    await served.open(tls=_certificate(authority, tmp_path).context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    answer = await _in_one_packet(served.port, trusting, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404 ")
    await listener.close()


async def _in_one_packet(port: int, trusting: ssl.SSLContext, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    try:
        async with asyncio.timeout(45):
            while True:
                try:
                    secured.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    incoming.write(await reader.read(65536))
            secured.write(request)
            writer.write(outgoing.read())  # the end of the handshake, and the request behind it
            while True:
                try:
                    return secured.read()
                except ssl.SSLWantReadError:
                    incoming.write(await reader.read(65536))
    finally:
        writer.transport.abort()


class TestStandby:
    """Another process leads: what only the pods tell is answered, the rest is for the leader."""

    async def test_guard_is_answered(self, scene, served):
        served.leads = False
        scene.running_pod("p1", node="n1")
        assert (await served.post("/v1/guard", job=7, nodes="n1"))[0] == 200
        scene.departing_pod("p2", node="n2")
        status, answer = await served.post("/v1/guard", job=7, nodes="n2", wait=3)
        assert (status, answer) == (409, "busy: ns/p2\n")

    async def test_hint_is_sent_back_to_find_the_leader(self, scene, served):
        served.leads = False
        status, answer = await served.post("/v1/hints", job=7, event="ended")
        assert (status, answer) == (503, "another process leads, ask again\n")
        assert served.hinted == []

    async def test_placeholder_hears_of_a_pod_that_is_gone(self, scene, served):
        served.leads = False
        scene.running_pod("p1")
        assert (await served.post("/v1/units/p1/gone", wait=1))[0] == 503
        scene.finish("p1")
        assert (await served.post("/v1/units/p1/gone", wait=1))[0] == 503, "the leader knows more"
        scene.stop("p1")
        assert (await served.post("/v1/units/p1/gone", wait=1))[0] == 200

    async def test_placeholder_hears_nothing_before_the_pods_are_known(self, scene, served):
        served.leads = False
        scene.synced.clear()
        assert (await served.post("/v1/units/p1/gone", wait=1))[0] == 503
