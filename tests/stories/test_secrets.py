"""No secret appears in logs, metrics, Events, pods or jobs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.hooks import secret_file
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")

_OLD = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjEsInN1biI6InJvb3QifQ.b2xkLXRva2VuLW9mLXRoaXMtdGVzdA"


@pytest.fixture
def token(cluster: Cluster, tmp_path: Path) -> Path:
    """The scheduler's token file."""
    path = tmp_path / "token"
    path.write_bytes(cluster.slurm_token_file.read_bytes())
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """The secret of the hooks."""
    return secret_file(tmp_path)


@pytest.fixture
def scheduler_flags(token: Path, secret: Path) -> tuple[str, ...]:
    """The files with these secrets."""
    return (f"--slurm-auth-token-file={token}", f"--hooks-api-token-file={secret}")


async def test_secrets_are_seen_nowhere(
    world: World, cluster: Cluster, token: Path, secret: Path
) -> None:
    await asyncio.to_thread(world.scheduler.stop)
    _set(token, _OLD)
    world.scheduler.launch()
    await world.create()
    not_ready = await world.until("/readyz says why", lambda: _not_ready(world))
    refused = await world.message_with("Slurm")
    _set(token, cluster.slurm_token_file.read_text(encoding="utf-8"))
    pod = await world.running()
    record = await world.placeholder(pod)
    await world.create("wrong", slurm={"partition": "nowhere"})
    await world.event("SlurmRejected", name="wrong")
    events = await world.kube.items("events", namespace=world.namespace)

    uid = pod["metadata"]["uid"]
    said = {
        "log": world.scheduler.log.read_text(encoding="utf-8"),
        "metrics": world.scheduler.metrics_text(),
        "condition": f"{uid}: {refused}",
        "/readyz": f"{uid}: {not_ready}",
        "Events": json.dumps(events),
        "pod": json.dumps(pod),
        "job": json.dumps(record.raw),
    }
    assert [where for where, text in said.items() if uid not in text] == ["metrics"]
    for name, hidden in _secrets(cluster, token, secret).items():
        assert hidden
        assert [where for where, text in said.items() if hidden in text] == [], name


def _secrets(cluster: Cluster, token: Path, secret: Path) -> dict[str, str]:
    """The secret part of each secret, by name: all tokens of auth/jwt begin alike."""
    return {
        "expired token of Slurm": _OLD.rpartition(".")[2],
        "token of Slurm": token.read_text(encoding="utf-8").strip().rpartition(".")[2],
        "token of Kubernetes": cluster.kube_token,
        "secret of the hooks": secret.read_text(encoding="utf-8").strip(),
    }


def _set(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


async def _not_ready(world: World) -> str:
    said = await asyncio.to_thread(lambda: world.scheduler.role)
    return said if "expired at" in said else ""
