"""`slurm-pod-scheduler doctor` as people call it: a process, its report and its exit status."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.sandbox.cluster import Sandbox, SandboxShape
from tests.faults.calls import Server
from tests.faults.cluster import ProxiedCluster
from tests.stories.clusters import LIVE, told_on
from tests.support.cluster import Cluster, release
from tests.support.doctor import Doctor
from tests.support.kube import Kube

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "doctor.md"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

# The doctor reads alone, so it needs no scheduler and no world.
cluster = told_on("sandbox-26.05", "sandbox-24.11", *LIVE)


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """The command."""
    return Doctor(tmp_path)


@asynccontextmanager
async def hanging() -> AsyncIterator[str]:
    """The URL of a server that accepts connections and never answers."""
    ended = asyncio.Event()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended.set()


async def test_doctor_finds_no_error_in_a_healthy_cluster_and_writes_nothing(
    cluster: Cluster, doctor: Doctor, tmp_path: Path
) -> None:
    with ProxiedCluster(cluster, folder=tmp_path) as proxied:
        report = await doctor(proxied, "-o", "json", "--own-namespace=default", "--leader-elect")
        asked = [(it.server, it.method, it.target) for it in proxied.play.journal]
    assert report.status == 0, report.out
    assert f"is Slurm {release(cluster)}." in report.of("slurm-api")[0][1]
    for check in ("token", "kubernetes-api", "rights"):
        assert report.only(check)[0] == "ok", report.out
    assert {server for server, _, _ in asked} == set(Server)
    written = [it for it in asked if it[1] != "GET" and it[2] != REVIEWS]
    assert written == []
    assert not [target for _, _, target in asked if re.search(r"/jobs?/", target)]


@pytest.mark.sandbox
async def test_report_is_the_one_on_the_page(doctor: Doctor) -> None:
    async with Sandbox(SandboxShape(nodes=4)) as sandbox:
        report = await doctor(sandbox)
        shown = (
            report.out.replace(sandbox.slurm_url, "http://slurmrestd.example:6820")
            .replace(sandbox.kube_url, "https://kubernetes.example:6443")
            .replace(str(sandbox.slurm_token_file), "/var/run/secrets/slurm/auth-token")
            .replace("root", "slurm")
            .replace("v1.36.3+sandbox", "v1.36.3")
        )
    assert report.status == 0
    assert f"```text\n{shown}```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.sandbox
async def test_planted_faults_are_found_with_their_remedies(doctor: Doctor, tmp_path: Path) -> None:
    async with (
        Sandbox(SandboxShape(nodes=4)) as sandbox,
        Kube(sandbox.kube_url, token=sandbox.kube_token, ca=None) as kube,
    ):
        await kube.delete("nodes", "node-00")
        await kube.patch("nodes", "node-01", {"spec": {"unschedulable": True}})
        await kube.create("pods", foreign_pod("node-02"), namespace="default")
        token = tmp_path / "token"
        token.write_text(sandbox.slurm_token("alice"))
        policy = tmp_path / "policy.yaml"
        policy.write_text("rules: 5\n")
        faults = (
            f"--slurm-auth-token-file={token}",
            "--slurm-kill-wait=90s",
            "--watch-namespace=default,nowhere",
            "--placeholder-mode=external",
            "--gpu-types=A100=a100",
        )
        report = await doctor(sandbox, "-o", "json", *faults, f"--policy-file={policy}")
        strict = await doctor(sandbox, "--strict", *faults)
    assert (report.status, strict.status) == (1, 1)
    assert "\nerror: 0, warning: " in strict.out
    assert report.only("policy-file")[0] == "error"
    assert report.only("node-mapping")[0] == "note"
    assert "node-00 maps to no Kubernetes Node" in report.only("node-mapping")[1]
    assert "node-01 (cordoned)" in report.only("node-readiness")[1]
    assert "node-02 (64 cpu in Slurm, 62 left)" in report.only("foreign-pods")[1]
    assert "alice" in report.only("token-rights")[1]
    assert "KillWait is 30 s, --slurm-kill-wait says 90 s" in report.of("kill-wait")[0][1]
    assert "nowhere" in report.only("namespaces")[1]
    assert report.only("guard")[0] == "warning"
    assert "a100" in report.of("gres")[1][1]
    assert "-> --slurm-kill-wait=30s" in strict.out


def foreign_pod(node: str) -> dict[str, Any]:
    requests = {"cpu": "1500m", "memory": "1Gi"}
    container = {"name": "main", "image": "x", "resources": {"requests": requests}}
    spec = {"nodeName": node, "schedulerName": "other", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


@pytest.mark.sandbox
async def test_server_that_hangs_is_an_error_and_the_other_one_is_examined(
    doctor: Doctor,
) -> None:
    limit = "--request-timeout=3"
    async with Sandbox(SandboxShape(nodes=1)) as sandbox, hanging() as nowhere:
        report = await doctor(sandbox, "-o", "json", limit, f"--slurm-api-base={nowhere}")
        assert report.status == 1
        assert report.only("slurm-api")[0] == "error"
        assert "does not answer within 3 s" in report.only("slurm-api")[1]
        assert report.only("rights")[0] == "ok"
        assert f"waiting for slurmrestd at {nowhere}" in report.progress

        config = json.loads(sandbox.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = nowhere
        sandbox.kubeconfig.write_text(json.dumps(config))
        report = await doctor(sandbox, "-o", "json", limit)
    assert report.status == 1
    assert "does not answer within 3 s" in report.only("kubernetes-api")[1]
    assert report.of("slurm-api")[0][0] == "ok"
    assert report.only("slurm-nodes")[0] == "ok"


@pytest.mark.sandbox
async def test_files_that_are_not_there_are_named(doctor: Doctor, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    async with Sandbox(SandboxShape(nodes=1)) as sandbox:
        wrong = (f"--kubeconfig={absent}", f"--slurm-auth-token-file={absent}")
        report = await doctor(sandbox, "-o", "json", *wrong)
    assert report.status == 1
    assert f"kubeconfig {absent}" in report.only("kubernetes-api")[1]
    assert f"token file {absent}" in report.only("slurm-api")[1]
