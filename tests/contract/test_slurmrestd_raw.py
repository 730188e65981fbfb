"""Unexpected behaviour of slurmrestd, byte by byte, on the models and the real servers.

Tests send plain requests, one per connection, so that our own client cannot hide a difference.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest

VERSIONS = {"26.05": "v0.0.45", "24.11": "v0.0.42"}
SCRIPT = "#!/bin/sh\nexec sleep infinity\n"
UNKNOWN_ID = 3_999_999
_SECONDS = 60.0


class Peer(Protocol):
    url: str
    token_file: Path
    major: str
    nodes: tuple[str, ...]
    partition: str

    def token(self, user: str) -> str: ...


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    responses: int

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.body)
        return document

    @property
    def error_number(self) -> int | None:
        errors = self.json.get("errors") or [{}]
        number: int | None = errors[0].get("error_number")
        return number

    @property
    def is_text(self) -> bool:
        return not self.body.lstrip().startswith(b"{")


class Raw:
    """Requests to one peer with the operator's token, in its newest version."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.version = VERSIONS[peer.major]
        self._token = peer.token_file.read_text().strip()
        self._made: list[int] = []

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str | None = None,
        **headers: str | None,
    ) -> Answer:
        """Send a request. `headers` are named with underscores; None leaves a usual header out."""
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        usual = {
            "Host": "peer",
            "Content-Length": str(len(data)),
            "Content-Type": "application/json",
            "X-SLURM-USER-TOKEN": self._token,
        }
        wanted = usual | {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"{method} /slurm/{version or self.version}/{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in wanted.items() if value is not None]
        return await self._exchange("\r\n".join([*lines, "", ""]).encode() + data)

    async def _exchange(self, request: bytes) -> Answer:
        parts = urlsplit(self.peer.url)
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                status, headers = _head(head)
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                closing = headers.get("connection", "").lower() == "close"
                rest = await reader.read() if closing else b""
            finally:
                writer.transport.abort()
        return Answer(status, headers, body, 1 + rest.count(b"HTTP/1.1 "))

    async def submit(self, **fields: Any) -> Answer:
        """Submit the verified shape with these fields (None leaves one out). The job is held, so
        it never runs.
        """
        answer = await self("POST", "job/submit", {"job": self.shape(**fields)})
        if not answer.is_text and answer.json.get("job_id"):
            self._made.append(answer.json["job_id"])
        return answer

    def shape(self, **fields: Any) -> dict[str, Any]:
        placeholder: dict[str, Any] = {
            "name": "contract-raw",
            "partition": self.peer.partition,
            "current_working_directory": "/tmp",
            "environment": ["PATH=/usr/bin:/bin"],
            "nodes": "1",
            "tasks": 1,
            "cpus_per_task": 2,
            "minimum_cpus": 2,
            "memory_per_node": {"set": True, "number": 512},
            "hold": True,
        }
        mode: dict[str, Any] = (
            {"flags": ["EXTERNAL_JOB"]} if self.peer.major == "26.05" else {"script": SCRIPT}
        )
        wanted = placeholder | mode | fields
        return {name: value for name, value in wanted.items() if value is not None}

    async def job(self, job_id: int) -> dict[str, Any]:
        (record,) = (await self("GET", f"job/{job_id}")).json["jobs"]
        found: dict[str, Any] = record
        return found

    async def cancel_all(self) -> None:
        if self._made:
            await self("DELETE", "jobs/", {"jobs": [str(job_id) for job_id in self._made]})


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    fields = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields}


@pytest.fixture
async def raw(slurm_peer: Peer) -> AsyncIterator[Raw]:
    requests = Raw(slurm_peer)
    yield requests
    await requests.cancel_all()


def measured(raw: Raw, by_release: dict[str, Any]) -> Any:
    return by_release[raw.peer.major]


@pytest.mark.parametrize("path", ["job/3999999", "nonsense"])
async def test_failed_request_is_answered_twice_by_26_05_and_once_by_24_11(
    raw: Raw, path: str
) -> None:
    answer = await raw("GET", path)
    assert answer.status == 404
    assert answer.headers["connection"].lower() == "close"
    assert answer.responses == measured(raw, {"26.05": 2, "24.11": 1})


async def test_good_request_is_answered_once_and_keeps_the_connection(raw: Raw) -> None:
    answer = await raw("GET", "ping/")
    assert (answer.status, answer.responses) == (200, 1)
    assert answer.headers.get("connection", "").lower() != "close"


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"partition": "nowhere"}, 2000),
        ({"constraints": "nofeature"}, 2029),
        # Slurm accepts a held job of this kind, and looks for its devices only at the start.
        ({"tres_per_node": "gres/gpu:99", "hold": None}, 2014),
        ({"tres_per_node": "gres/gpu:nosuchtype:1", "hold": None}, 2014),
        ({"tres_per_node": "gres/fpga:1"}, 2072),
        ({"tres_per_node": "gpu:1"}, 2115),
        ({"required_nodes": ["nosuch"]}, 2018),
        ({"reservation": "nosuch"}, 2053),
        ({"licenses": "nosuch:1"}, 2048),
        ({"dependency": "nosuch:1"}, 2038),
        ({"user_id": "nosuchuser"}, 2166),
        ({"name": "x" * 1025}, 2012),
        ({"comment": "é" * 513}, 2012),
        ({"wckey": "é" * 513}, 2012),
    ],
)
async def test_bad_submit_is_refused_by_number_and_makes_no_job(
    raw: Raw, fields: dict[str, Any], number: int
) -> None:
    answer = await raw.submit(**fields)
    assert answer.error_number == number
    assert answer.status == measured(raw, {"26.05": 422, "24.11": 500})
    assert not answer.json.get("job_id")


@pytest.mark.parametrize("fields", [{"priority": "abc"}, {"time_limit": "01:00:00"}])
async def test_value_that_cannot_be_converted_is_error_9202(
    raw: Raw, fields: dict[str, Any]
) -> None:
    answer = await raw.submit(**fields)
    assert (answer.status, answer.error_number) == (500, 9202)
    assert not answer.json.get("job_id")


async def test_integer_of_a_wrong_type_is_200_and_no_job(raw: Raw) -> None:
    answer = await raw.submit(minimum_cpus="many")
    assert answer.status == 200
    assert not answer.json.get("job_id")
    assert not answer.json["errors"]
    assert answer.json["warnings"]


async def test_unknown_flag_is_an_error_and_a_job_all_the_same(raw: Raw) -> None:
    answer = await raw.submit(shared=["zzz"])
    assert (answer.status, answer.error_number) == (500, 9207)
    assert (await raw.job(answer.json["job_id"]))["job_state"] == ["PENDING"]


async def test_syntax_error_in_gres_may_silently_give_none(raw: Raw) -> None:
    answer = await raw.submit(tres_per_node="gpu;;1")
    assert answer.status == 200
    assert "gpu" not in (await raw.job(answer.json["job_id"]))["tres_req_str"]


async def test_plain_numbers_are_accepted_for_triples(raw: Raw) -> None:
    answer = await raw.submit(time_limit=5, memory_per_node=100)
    record = await raw.job(answer.json["job_id"])
    assert record["time_limit"]["number"] == 5
    assert record["memory_per_node"]["number"] == 100


async def test_unknown_field_is_a_warning(raw: Raw) -> None:
    answer = await raw.submit(nosuchfield=1)
    assert answer.json["job_id"]
    assert answer.json["warnings"]


async def test_batch_job_without_environment_is_refused(raw: Raw) -> None:
    answer = await raw.submit(flags=None, script=SCRIPT, environment=None)
    assert answer.error_number == measured(raw, {"26.05": 2127, "24.11": 2019})
    assert not answer.json.get("job_id")


async def test_external_job_takes_no_script(raw: Raw) -> None:
    if raw.peer.major == "24.11":
        pytest.skip("this peer has no external jobs")
    answer = await raw.submit(script=SCRIPT)
    assert (answer.status, answer.error_number) == (500, 2189)


async def test_external_flag_is_unknown_in_v0_0_42(raw: Raw) -> None:
    job = raw.shape(flags=["EXTERNAL_JOB"], script=None)
    answer = await raw("POST", "job/submit", {"job": job}, version="v0.0.42")
    assert answer.status >= 400
    assert not answer.json.get("job_id")
    assert {error["error_number"] for error in answer.json["errors"]} & {9000, 9207}


@pytest.mark.parametrize(("body", "number"), [({}, 9000), ([], 9209)], ids=["no job", "a list"])
async def test_body_of_a_wrong_shape_is_refused(raw: Raw, body: Any, number: int) -> None:
    answer = await raw("POST", "job/submit", body)
    assert answer.status >= 400
    assert number in {error["error_number"] for error in answer.json["errors"]}


async def test_body_that_is_no_json_is_400_in_plain_text(raw: Raw) -> None:
    answer = await raw("POST", "job/submit", b"{nonsense")
    assert (answer.status, answer.is_text) == (400, True)


async def test_body_of_another_content_type_is_refused_in_plain_text(raw: Raw) -> None:
    answer = await raw("POST", "job/submit", b"{}", Content_Type="text/plain")
    assert answer.status == measured(raw, {"26.05": 415, "24.11": 400})
    assert answer.is_text


@pytest.mark.parametrize(
    ("method", "path", "version"),
    [("GET", "ping/", "v0.0.46"), ("GET", "ping/", "v0.0.39"), ("GET", "nonsense", None)],
)
async def test_unknown_path_or_version_is_404_in_plain_text(
    raw: Raw, method: str, path: str, version: str | None
) -> None:
    answer = await raw(method, path, version=version)
    assert (answer.status, answer.is_text) == (404, True)


async def test_conf_is_there_in_v0_0_45_only(raw: Raw) -> None:
    assert (await raw("GET", "conf", version="v0.0.42")).status == 404
    if raw.peer.major == "26.05":
        assert (await raw("GET", "conf", version="v0.0.44")).status == 404
        assert (await raw("GET", "conf")).json["slurm_conf"]["KillWait"] == 30


async def test_request_without_a_token_is_401_in_plain_text(raw: Raw) -> None:
    answer = await raw("GET", "jobs/state/", X_SLURM_USER_TOKEN=None)
    assert (answer.status, answer.is_text) == (401, True)


@pytest.mark.parametrize("path", ["jobs/state/", "jobs/", "job/1"])
async def test_bad_token_is_511_with_1007_and_no_jobs(raw: Raw, path: str) -> None:
    answer = await raw("GET", path, X_SLURM_USER_TOKEN="no.jwt.atall")
    assert (answer.status, answer.error_number) == (511, 1007)
    assert not answer.json.get("jobs")


async def test_ping_with_a_bad_token_is_200(raw: Raw) -> None:
    answer = await raw("GET", "ping/", X_SLURM_USER_TOKEN="no.jwt.atall")
    assert answer.status == 200
    assert [ping["responding"] for ping in answer.json["pings"]] == [False]


async def test_states_take_repeated_ids_and_leave_out_unknown_ones(raw: Raw) -> None:
    made = [(await raw.submit()).json["job_id"] for _ in range(2)]
    query = "&".join(f"job_id={job_id}" for job_id in [*made, UNKNOWN_ID])
    answer = await raw("GET", f"jobs/state/?{query}")
    assert answer.status == 200
    assert sorted(int(job["job_id"]) for job in answer.json["jobs"]) == sorted(made)
    assert {tuple(job["state"]) for job in answer.json["jobs"]} == {("PENDING",)}


async def test_states_of_one_unknown_id_are_an_empty_list(raw: Raw) -> None:
    answer = await raw("GET", f"jobs/state/?job_id={UNKNOWN_ID}")
    assert (answer.status, answer.json["jobs"], answer.json["errors"]) == (200, [], [])


async def test_states_do_not_take_a_comma_list(raw: Raw) -> None:
    answer = await raw("GET", "jobs/state/?job_id=1,2")
    assert answer.status == measured(raw, {"26.05": 500, "24.11": 400})
    assert answer.is_text


async def test_unknown_job_is_404_with_2017(raw: Raw) -> None:
    answer = await raw("GET", f"job/{UNKNOWN_ID}")
    assert (answer.status, answer.error_number) == (404, 2017)


async def test_unknown_node_is_200_with_error_zero(raw: Raw) -> None:
    answer = await raw("GET", "node/nosuch")
    assert (answer.status, answer.error_number) == (200, 0)
    assert not answer.json.get("nodes")


async def test_cancel_batch_tells_of_failures_only(raw: Raw) -> None:
    job_id = (await raw.submit()).json["job_id"]
    answer = await raw("DELETE", "jobs/", {"jobs": [str(job_id), str(UNKNOWN_ID)]})
    assert (answer.status, answer.json["errors"]) == (200, [])
    (failure,) = answer.json["status"]
    assert (failure["error"]["code"], failure["step_id"]) == (2017, str(UNKNOWN_ID))
    assert failure["job_id"]["set"] is False
    assert (await raw.job(job_id))["job_state"] == ["CANCELLED"]


async def test_cancel_of_an_ended_job_is_200_with_2021(raw: Raw) -> None:
    job_id = (await raw.submit()).json["job_id"]
    await raw("DELETE", "jobs/", {"jobs": [str(job_id)]})
    answer = await raw("DELETE", "jobs/", {"jobs": [str(job_id)]})
    assert answer.status == 200
    (failure,) = answer.json["status"]
    assert (failure["error"]["code"], failure["job_id"]["number"]) == (2021, job_id)


async def test_held_submit_is_accepted_with_a_warning(raw: Raw) -> None:
    answer = await raw.submit()
    assert answer.json["job_id"]
    assert any("held" in warning["description"] for warning in answer.json["warnings"])


async def test_update_of_an_unknown_job_is_404_with_2017(raw: Raw) -> None:
    answer = await raw("POST", f"job/{UNKNOWN_ID}", {"comment": "x"})
    assert (answer.status, answer.error_number) == (404, 2017)


@pytest.mark.parametrize("field", ["comment", "extra", "wckey", "name"])
@pytest.mark.parametrize("letter", ["x", "é", "€", "😀"])
async def test_text_of_more_than_1024_bytes_is_refused(raw: Raw, field: str, letter: str) -> None:
    longest = letter * (1024 // len(letter.encode()))
    longest += "x" * (1024 - len(longest.encode()))
    job_id = (await raw.submit(**{field: longest})).json["job_id"]
    assert (await raw("POST", f"job/{job_id}", {field: longest})).status == 200
    for longer in (longest + "x", longest[:-1] + 2 * letter):
        answer = await raw("POST", f"job/{job_id}", {field: longer})
        assert answer.error_number == 2012


@pytest.mark.parametrize("letter", ["x", "é"])
async def test_admin_comment_may_be_longer(raw: Raw, letter: str) -> None:
    job_id = (await raw.submit(admin_comment=letter * 2000)).json["job_id"]
    assert (await raw("POST", f"job/{job_id}", {"admin_comment": letter * 2500})).status == 200
