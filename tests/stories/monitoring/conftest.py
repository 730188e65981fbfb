"""A scheduler as a site runs it, with files that tests can spoil, and the real Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.rigs.prometheus import Prometheus, PrometheusBinaries
from tests.support import rights
from tests.support.alerts import RULES, hastened
from tests.support.cluster import Cluster
from tests.support.hooks import secret_file
from tests.support.kube import Kube
from tests.support.monitoring import Monitor, watched
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

if TYPE_CHECKING:
    from tests.rigs.slurm import SlurmRig

POLICY: Final = "rules: [{name: stories, namespaces: [story-*], allowed: {timeout: {max: 3600}}}]"


@dataclass(frozen=True)
class Site:
    """The files of the scheduler. A test may make them invalid."""

    token: Path
    policy: Path
    slurm: SlurmRig

    def renew(self, *, seconds: int = 86400) -> None:
        """Write a new token that is valid for so many seconds."""
        draft = self.token.with_suffix(".new")
        draft.write_text(self.slurm.token("root", seconds=seconds))
        draft.replace(self.token)


@pytest.fixture
def cluster(live_26: Cluster) -> Cluster:
    """One release is enough: alerts use metrics, which do not depend on the release of Slurm."""
    return live_26


@pytest.fixture
def site(tmp_path: Path, live_slurm_26: SlurmRig) -> Site:
    """Valid files."""
    site = Site(tmp_path / "token", tmp_path / "policy.yaml", live_slurm_26)
    site.renew()
    site.policy.write_text(POLICY)
    return site


@pytest.fixture
async def scheduler(
    cluster: Cluster, kube: Kube, site: Site, tmp_path: Path
) -> AsyncIterator[SchedulerProcess]:
    """The scheduler with its own ServiceAccount. It asks Slurm every half second, because the
    alerts accept no silence above six seconds here. Its brake engages sooner and for a shorter
    time than a site's.
    """
    await rights.grant(kube)
    flags = (
        f"--kubeconfig={await rights.own_kubeconfig(cluster, kube, folder=tmp_path)}",
        f"--slurm-auth-token-file={site.token}",
        f"--policy-file={site.policy}",
        f"--hooks-api-token-file={secret_file(tmp_path)}",
        "--placeholder-mode=auto",
        # Claims, volumes and other schedulers' pods do not change here, so their watches would
        # only get a bookmark once a minute, and six seconds of silence are too long.
        "--volume-access=none",
        "--pod-access=none",
        "--idle-poll-interval=500ms",
        "--brake-minimum=3",
        "--brake-pause=6s",
    )
    with SchedulerProcess(cluster, folder=tmp_path, flags=flags) as process:
        yield process
    await rights.revoke(kube)


@pytest.fixture
def prometheus(
    prometheus_binaries: PrometheusBinaries, scheduler: SchedulerProcess, tmp_path: Path
) -> Iterator[Prometheus]:
    """Prometheus with the shipped alerts, changed only to times that a test can wait for."""
    quick = tmp_path / "alerts.yaml"
    quick.write_text(hastened(RULES.read_text(encoding="utf-8")))
    targets = (scheduler.metrics_address,)
    with Prometheus(prometheus_binaries, targets=targets, rules=(quick,)) as server:
        yield server


@pytest.fixture
async def monitor(world: World, prometheus: Prometheus) -> AsyncIterator[Monitor]:
    """Watches the alerts. Prometheus has scraped the scheduler by now, and no alert fires."""
    async with watched(world, prometheus) as monitor:
        yield monitor
