"""What the process shows of itself: probes, metrics, log, loop lag."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest
import structlog

from scheduler.config.settings import Address
from scheduler.observe import logs
from scheduler.observe.loop import STALL_SECONDS, watch_loop
from scheduler.observe.metrics import Metrics
from scheduler.service import probes

HERE = Address(host="127.0.0.1", port=0)


@pytest.fixture
async def listeners() -> AsyncIterator[probes.Listeners]:
    listeners = probes.Listeners()
    yield listeners
    await listeners.close()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield session


async def fetched(http: aiohttp.ClientSession, port: int | None, path: str) -> tuple[int, str]:
    async with http.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_readiness_names_all_that_is_missing(listeners, http):
    missing = ["pods are not listed yet", "Slurm has not answered yet"]
    port = await listeners.open(HERE, probes.probes(lambda: missing))
    assert await fetched(http, port, "/readyz") == (503, "\n".join(missing) + "\n")
    missing.clear()
    assert await fetched(http, port, "/readyz") == (200, "ok\n")


async def test_liveness_does_not_depend_on_readiness(listeners, http):
    port = await listeners.open(HERE, probes.probes(lambda: ["everything"]))
    assert await fetched(http, port, "/healthz") == (200, "ok\n")


async def test_metrics_are_served(listeners, http):
    metrics = Metrics()
    metrics.kube_call("bind", "ok", 0.01)
    metrics.slurm_call("submit", "busy", 0.02)
    port = await listeners.open(HERE, probes.metrics(metrics.registry))
    status, text = await fetched(http, port, "/metrics")
    assert status == 200
    assert 'slurm_pod_scheduler_kube_requests_total{operation="bind",outcome="ok"} 1.0' in text
    assert 'slurm_pod_scheduler_slurm_requests_total{operation="submit",outcome="busy"} 1.0' in text
    assert "slurm_pod_scheduler_build_info{" in text
    assert "process_cpu_seconds_total" in text


async def test_queue_feeds_its_metrics():
    metrics = Metrics()
    metrics.added()
    metrics.retried()
    metrics.waited(0.1)
    metrics.worked(0.2)
    value = metrics.registry.get_sample_value
    prefix = "slurm_pod_scheduler_workqueue"
    assert value(f"{prefix}_adds_total") == 1
    assert value(f"{prefix}_retries_total") == 1
    assert value(f"{prefix}_queue_duration_seconds_sum") == pytest.approx(0.1)
    assert value(f"{prefix}_work_duration_seconds_sum") == pytest.approx(0.2)


async def test_address_of_nothing_is_not_opened(listeners):
    assert await listeners.open(None, probes.metrics(Metrics().registry)) is None


async def test_address_in_use_is_an_error(listeners):
    port = await listeners.open(HERE, probes.probes(list))
    with pytest.raises(OSError, match="in use"):
        await listeners.open(Address(host="127.0.0.1", port=port), probes.probes(list))


async def test_closed_listeners_do_not_listen(listeners, http):
    port = await listeners.open(HERE, probes.probes(list))
    await listeners.close()
    with pytest.raises(aiohttp.ClientConnectionError):
        await fetched(http, port, "/healthz")


def _compute(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize(("block", "cause"), [(time.sleep, "waiting"), (_compute, "busy")])
async def test_blocked_loop_is_counted(block, cause):
    metrics = Metrics()
    task = asyncio.create_task(watch_loop(metrics))
    await asyncio.sleep(0)
    block(2.5 * STALL_SECONDS)
    value = metrics.registry.get_sample_value
    async with asyncio.timeout(30):
        while not value("slurm_pod_scheduler_loop_stalls_total", {"cause": cause}):  # noqa: ASYNC110 - a mere number
            await asyncio.sleep(0.005)
    task.cancel()
    assert value("slurm_pod_scheduler_tasks") == len(asyncio.all_tasks())
    assert (value("slurm_pod_scheduler_loop_lag_max_seconds") or 0.0) >= STALL_SECONDS
    counted = value("slurm_pod_scheduler_loop_lag_seconds_count") or 0.0
    assert counted > (value("slurm_pod_scheduler_loop_lag_seconds_bucket", {"le": "0.05"}) or 0.0)


@pytest.fixture
def _log_as_before():
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("_log_as_before")
@pytest.mark.parametrize(("level", "lines"), [("debug", 2), ("info", 1), ("error", 0)])
def test_log_is_json_lines_from_its_level_on(capsys, level, lines):
    logs.set_up(level, "json")
    log = structlog.get_logger("a test")
    log.debug("detail", job_id=1)
    log.info("pod bound", job_id=4711, node="n1")
    written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(written) == lines
    if written:
        assert list(written[-1]) == ["level", "event", "timestamp", "job_id", "node"]
        assert written[-1]["event"] == "pod bound"
        assert written[-1]["job_id"] == 4711
        assert written[-1]["level"] == "info"
        assert written[-1]["timestamp"].endswith("Z")


@pytest.mark.usefixtures("_log_as_before")
def test_error_brings_its_traceback(capsys):
    logs.set_up("info", "json")
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        structlog.get_logger("a test").exception("unit could not be handled")
    (line,) = capsys.readouterr().err.splitlines()
    assert "ZeroDivisionError: a bug" in json.loads(line)["exception"]
