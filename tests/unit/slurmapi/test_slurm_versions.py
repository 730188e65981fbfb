"""The newest common version is found, kept, and given up when the server has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from slurmapi import (
    KNOWN_VERSIONS,
    ApiVersion,
    Call,
    JobSubmission,
    SlurmBusy,
    SlurmClient,
    SlurmDenied,
    SlurmInvalid,
    SlurmNoApi,
    SlurmUnreachable,
)
from tests.unit.slurmapi.server import Server, cut, error, fail, ok, raw

PING = "GET ping/"


@pytest.mark.parametrize(
    ("served", "version", "external", "conf"),
    [
        ({42, 43, 44, 45}, "v0.0.45", True, True),
        ({41, 42, 43}, "v0.0.43", True, False),
        ({40, 41, 42}, "v0.0.42", False, False),
        ({39, 40}, "v0.0.40", False, False),
        ({44, 45, 46}, "v0.0.45", True, True),
    ],
    ids=["26.05", "25.05", "24.11", "23.11", "future"],
)
async def test_newest_common_version_is_taken(
    server: Server, client: SlurmClient, served: set[int], version: str, external: bool, conf: bool
) -> None:
    server.versions = served
    agreed = await client.negotiate()
    assert (agreed.text, agreed.supports_external, agreed.supports_conf) == (
        version,
        external,
        conf,
    )


async def test_version_is_asked_for_once(server: Server, client: SlurmClient) -> None:
    server.versions = {42}
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(client.negotiate())
    assert [seen.version for seen in server.calls(PING)] == [45, 44, 43, 42, 45, 44, 43]


async def test_those_who_waited_get_the_failure_of_the_one_who_asked(
    server: Server, client: SlurmClient
) -> None:
    server.on(PING, cut())

    async def ask() -> str:
        with pytest.raises(SlurmUnreachable) as failed:
            await client.negotiate()
        return str(failed.value)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask()) for _ in range(5)]
    assert len({task.result() for task in tasks}) == 1
    assert len(server.calls(PING)) == 1


async def test_failed_negotiation_is_tried_again_by_the_next_call(
    server: Server, client: SlurmClient
) -> None:
    server.on(PING, cut(), ok({"pings": []}))
    with pytest.raises(SlurmUnreachable):
        await client.negotiate()
    assert await client.negotiate() == ApiVersion(45)


async def test_bad_token_does_not_look_like_an_unknown_version(
    server: Server, client: SlurmClient
) -> None:
    server.on(PING, fail(401, "Authentication failure"))
    with pytest.raises(SlurmDenied):
        await client.negotiate()
    assert len(server.calls(PING)) == 1


async def test_error_in_json_still_shows_that_the_version_is_served(
    server: Server, client: SlurmClient
) -> None:
    server.on(PING, error(1007, status=511))
    assert await client.negotiate() == ApiVersion(45)


async def test_busy_proxy_settles_no_version(server: Server, client: SlurmClient) -> None:
    server.on(PING, fail(503, "starting"))
    with pytest.raises(SlurmBusy):
        await client.negotiate()


async def test_server_of_none_of_our_versions_is_no_slurm_for_us(
    server: Server, client: SlurmClient
) -> None:
    server.versions = {36, 37, 38}
    with pytest.raises(SlurmNoApi, match=r"v0\.0\.45 to v0\.0\.40"):
        await client.negotiate()


async def test_server_of_none_of_our_versions_is_asked_at_a_bounded_rate(
    server: Server, client: SlurmClient
) -> None:
    """Every call would begin a negotiation, which is a request for each version."""
    server.versions = set()
    for _ in range(50):
        with pytest.raises(SlurmNoApi):
            await client.job_states([1])
    assert len(server.seen) == len(KNOWN_VERSIONS)


async def test_server_that_has_a_version_at_last_is_found(
    server: Server, client: SlurmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.versions = set()
    with pytest.raises(SlurmNoApi):
        await client.negotiate()
    server.versions = {45}
    now = time.monotonic()
    monkeypatch.setattr("slurmapi.session.monotonic", lambda: now + 2.0)
    assert await client.negotiate() == ApiVersion(45)


async def test_version_that_has_gone_is_replaced_and_the_request_repeated(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on("POST job/submit", ok({"job_id": 3}))
    assert (await client.submit(placeholder)).job_id == 3
    server.versions = {43, 44}
    assert (await client.submit(placeholder)).job_id == 3
    assert [seen.version for seen in server.calls("POST job/submit")] == [45, 45, 44]


async def test_version_without_external_jobs_stops_an_external_job_before_it_is_sent(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.versions = {42}
    server.on("POST job/submit", ok({"job_id": 3}))
    with pytest.raises(SlurmInvalid, match=r"EXTERNAL_JOB needs v0\.0\.43 .* v0\.0\.42"):
        await client.submit(placeholder)
    assert server.calls("POST job/submit") == []


async def test_path_unknown_in_a_version_that_is_there_says_nothing_about_a_job(
    server: Server, client: SlurmClient
) -> None:
    server.on("GET partitions/", fail(404, "Unable find requested URL"))
    with pytest.raises(SlurmNoApi, match="HTTP 404"):
        await client.partitions()
    assert len(server.calls("GET partitions/")) == 1


async def test_upgraded_server_is_found_after_a_while(
    server: Server, client: SlurmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.versions = {41, 42}
    assert await client.negotiate() == ApiVersion(42)
    server.versions = {42, 43, 44, 45}
    assert await client.negotiate() == ApiVersion(42)
    now = time.monotonic()
    monkeypatch.setattr("slurmapi.session.monotonic", lambda: now + 301)
    assert await client.negotiate() == ApiVersion(45)


async def test_newest_version_is_not_asked_for_again(
    server: Server, client: SlurmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await client.negotiate() == ApiVersion(45)
    now = time.monotonic()
    monkeypatch.setattr("slurmapi.session.monotonic", lambda: now + 3600)
    assert await client.negotiate() == ApiVersion(45)
    assert len(server.calls(PING)) == 1


async def test_versions_that_another_server_refused_just_before_are_asked_for_again(
    server: Server, client: SlurmClient
) -> None:
    gone = fail(404, "Unable find requested URL")
    server.on(PING, gone, gone, gone, ok({"pings": []}))
    assert await client.negotiate() == ApiVersion(45)
    assert [seen.version for seen in server.calls(PING)] == [45, 44, 43, 42, 45]


async def test_config_is_read_where_the_version_has_it(server: Server, client: SlurmClient) -> None:
    conf = {"KillWait": 30, "MinJobAge": 300, "PrologSlurmctld": ["/a", "/b"]}
    conf["AccountingStorageType"] = "accounting_storage/slurmdbd"
    meta = {"BOOT_TIME": {"set": True, "number": 1_700_000_000}}
    server.on("GET conf", ok({"slurm_conf": conf, "slurm_conf_meta": meta}))
    config = await client.config()
    assert config is not None
    assert (config.kill_wait, config.min_job_age, config.boot_time) == (30, 300, 1_700_000_000)
    assert config.prolog_slurmctld == "/a,/b"
    assert config.accounting_storage == "accounting_storage/slurmdbd"


async def test_config_is_none_where_the_version_lacks_it(
    server: Server, client: SlurmClient
) -> None:
    server.versions = {42}
    assert await client.config() is None
    assert server.calls("GET conf") == []


async def test_negotiation_is_observed_as_an_operation_of_its_own(
    server: Server, client_of: Callable[..., SlurmClient]
) -> None:
    heard: list[Call] = []
    server.versions = {44}
    await client_of(server, observe=heard.append).negotiate()
    assert [(call.operation, call.outcome) for call in heard] == [
        ("negotiate", "refused"),
        ("negotiate", "ok"),
        ("negotiate", "refused"),
    ]


async def test_garbage_settles_no_version(server: Server, client: SlurmClient) -> None:
    server.on(PING, raw(b"nonsense\r\n\r\n", close=True))
    with pytest.raises(SlurmUnreachable, match="no version"):
        await client.negotiate()
