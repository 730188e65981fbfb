"""The example that renews the token may do that, and nothing else."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.support.kube import Kube, KubeAnswerError

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

_DEPLOY: Final = Path(__file__).parents[2] / "deploy"
_NAME: Final = "slurm-token-refresh"
_SECRET: Final = "slurm-token"


@pytest.fixture
def bodies(home: str) -> list[dict[str, Any]]:
    """The example's objects, for the test's namespace."""
    text = (_DEPLOY / "examples/token-refresh.yaml").read_text()
    return list(yaml.safe_load_all(text.replace("slurm-pod-scheduler", home)))


async def test_one_secret_may_be_written_and_no_other(
    kube: Kube, live_kube: KubeRig, bodies: list[dict[str, Any]], home: str
) -> None:
    for body in bodies:
        await kube.apply(body)
    for name in (_SECRET, "another"):
        await kube.create("secrets", {"metadata": {"name": name}}, namespace=home)
    token = await kube.service_account_token(_NAME, namespace=home)
    # as the example's `kubectl patch` does, with what scontrol prints
    patch = {"stringData": {"auth-token": "SLURM_JWT=header.payload.signature"}}
    async with Kube(live_kube.url, token=token, ca=live_kube.ca) as refresher:
        await _rights_count(refresher, home)
        await refresher.patch("secrets", _SECRET, patch, namespace=home)
        with pytest.raises(KubeAnswerError, match="403"):
            await refresher.patch("secrets", "another", patch, namespace=home)
    written = await kube.get("secrets", _SECRET, namespace=home)
    assert base64.b64decode(written["data"]["auth-token"]).startswith(b"SLURM_JWT=")


async def _rights_count(refresher: Kube, home: str) -> None:
    """The API server learns of a new role by a watch of its own."""
    async with asyncio.timeout(60):
        while True:
            try:
                await refresher.get("secrets", _SECRET, namespace=home)
                return
            except KubeAnswerError as refusal:
                if refusal.status != 403:
                    raise
            await asyncio.sleep(0.05)


def test_token_lives_for_three_runs_and_no_longer_than_a_day(bodies: list[dict[str, Any]]) -> None:
    (cron,) = [it for it in bodies if it["kind"] == "CronJob"]
    assert cron["spec"]["schedule"].split()[1] == "*/8"
    (ask,) = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]["initContainers"]
    lifespan = int(ask["command"][-1].split("lifespan=")[1].split()[0])
    assert 3 * 8 * 3600 <= lifespan <= 24 * 3600
