"""The hooks API over TLS: its callers trust only the authority that they were given."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.cluster import Cluster
from tests.support.handover import (
    cancel_placeholder,
    ended_when_told,
    guards,
    next_job,
    next_job_is_held,
    running_pod,
    script_begun,
)
from tests.support.hooks import TlsFiles, flags_for_scripts, hooks_on, replace, secret_file
from tests.support.live import LiveCluster
from tests.support.world import World

_AUTHORITY: Final = "hooks-ca.crt"
_KILL_WAIT_SECONDS: Final = 30

Trouble = Callable[[TlsFiles], object]
_UNKNOWN: Final = "certificate of an unknown authority"
TROUBLES: Final[dict[str, Trouble]] = {
    _UNKNOWN: TlsFiles.change_authority,
    "certificate that has expired": lambda tls: tls.issue(expired=True),
}


@pytest.fixture
def tls(tmp_path: Path) -> TlsFiles:
    """The certificate files of the hooks API."""
    return TlsFiles(tmp_path)


@pytest.fixture
def scheduler_flags(tls: TlsFiles, tmp_path: Path) -> tuple[str, ...]:
    """A hooks API that uses that certificate."""
    return (f"--hooks-api-token-file={secret_file(tmp_path)}", *tls_flags(tls))


def tls_flags(tls: TlsFiles) -> tuple[str, ...]:
    return (
        f"--hooks-api-tls-cert-file={tls.certificate}",
        f"--hooks-api-tls-key-file={tls.key}",
    )


def trusting(world: World, tls: TlsFiles) -> str:
    """The value for the guard's CA_FILE. The file has the present authority."""
    replace(world.cluster.hooks_folder / _AUTHORITY, tls.authority)
    return f"{world.cluster.hooks_seen_as}/{_AUTHORITY}"


@pytest.fixture
def syslog_before(cluster: Cluster) -> str:
    """Slurm's syslog from before the test: its job ids may come again."""
    return cluster.syslog if isinstance(cluster, LiveCluster) else ""


async def _said(world: World, words: str, *, before: str) -> str:
    """The only line with these words that the syslog has got since `before`."""

    async def look() -> list[str]:
        assert isinstance(world.cluster, LiveCluster)
        lines = world.cluster.syslog.removeprefix(before).splitlines()
        return [it for it in lines if words in it]

    (line,) = await world.until(f"the syslog has {words!r}", look)
    return line


@pytest.mark.live_on("26.05")
async def test_guard_that_trusts_the_certificate_holds_the_next_job_back(
    world: World, tls: TlsFiles
) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_https_url, CA_FILE=trusting(world, tls)):
        await next_job_is_held(world)


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.live_on("26.05")
async def test_job_starts_by_policy_when_the_guard_cannot_trust_a(
    world: World, tls: TlsFiles, trouble: str, syslog_before: str
) -> None:
    trusted = trusting(world, tls)
    TROUBLES[trouble](tls)
    world.scheduler.stop()
    world.scheduler.start()
    url = world.scheduler.hooks_https_url
    with hooks_on(world.cluster, url, CA_FILE=trusted, UNREACHABLE_SECONDS=3):
        pod = await running_pod(world, cpus=2)
        following = await next_job(world, pod, cpus=2)
        await world.job_ended(following, state="COMPLETED")
    world.unharmed(pod)
    if isinstance(world.cluster, LiveCluster):
        said = await _said(world, f"job {following}: ", before=syslog_before)
        assert f"no answer of {url} for 3 s" in said
        assert "curl: (60) SSL certificate " in said
        assert "the job starts (POLICY=open)" in said


@pytest.mark.live_on("26.05")
async def test_certificate_is_renewed_while_the_scheduler_runs(world: World, tls: TlsFiles) -> None:
    process = world.scheduler.pid
    tls.change_authority()

    async def taken() -> bool:
        return "hooks API file renewed" in world.scheduler.log.read_text()

    await world.until("the new certificate is in use", taken)
    with hooks_on(world.cluster, world.scheduler.hooks_https_url, CA_FILE=trusting(world, tls)):
        pod = await running_pod(world, cpus=2)
        following = await next_job(world, pod, cpus=2)
        await world.job_ended(following, state="COMPLETED")
    assert guards(world, "free") >= 1
    assert world.scheduler.pid == process


@pytest.mark.live
class TestScripts:
    """Script placeholders ask over TLS; Slurm's own hooks are off."""

    @pytest.fixture(
        params=[pytest.param("live_26", id="live-26.05"), pytest.param("live_24", id="live-24.11")]
    )
    def cluster(self, request: pytest.FixtureRequest) -> Cluster:
        found: Cluster = request.getfixturevalue(request.param)
        return found

    @pytest.fixture
    def scheduler_flags(self, tls: TlsFiles, tmp_path: Path) -> tuple[str, ...]:
        replace(tmp_path / _AUTHORITY, tls.authority)
        return (
            *flags_for_scripts(tmp_path, scheme="https"),
            f"--hooks-api-ca-file={tmp_path / _AUTHORITY}",
            *tls_flags(tls),
        )

    async def test_script_that_trusts_the_certificate_ends_with_its_pod(
        self, world: World, syslog_before: str
    ) -> None:
        pod = await running_pod(world)
        job = await script_begun(world, pod)
        await cancel_placeholder(world, pod)
        await world.gone()
        await ended_when_told(world, job.job_id, state="CANCELLED")
        assert isinstance(world.cluster, LiveCluster)
        since = world.cluster.syslog.removeprefix(syslog_before)
        assert f"job {job.job_id}: " not in since

    # The guard's test covers the other troubles. Both ask with curl, and this test takes KillWait.
    @pytest.mark.parametrize("trouble", [_UNKNOWN])
    @pytest.mark.slow
    @pytest.mark.live_on("26.05")
    async def test_node_is_held_for_kill_wait_when_the_script_cannot_trust_a(
        self, world: World, tls: TlsFiles, trouble: str, syslog_before: str
    ) -> None:
        TROUBLES[trouble](tls)
        world.scheduler.stop()
        world.scheduler.start()
        pod = await running_pod(world, cpus=2)
        other = await running_pod(world, name="other", cpus=2)
        job = await script_begun(world, pod)
        cancelled_at = time.monotonic()
        await cancel_placeholder(world, pod)
        await world.job_ended(job.job_id, state="CANCELLED")
        assert time.monotonic() - cancelled_at > _KILL_WAIT_SECONDS - 3
        world.unharmed(other)
        said = await _said(world, f"job {job.job_id}: no answer of ", before=syslog_before)
        assert "curl: (60) SSL certificate " in said
