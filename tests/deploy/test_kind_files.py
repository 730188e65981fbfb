"""The files of deploy/kind in the hands of those for whom they are: kind, helm, the API server."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

import scheduler
from tests.rigs.kind_conf import NODES
from tests.support import admission
from tests.support.chart import CHART, Release
from tests.support.kube import Kube

if TYPE_CHECKING:
    from tests.rigs.helm import Helm
    from tests.rigs.kube import KubeRig

# The first of them has kind built within its time.
pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy/kind"
_NAME: Final = "slurm-pod-scheduler"
_ADDRESS: Final = "172.18.0.5"
# A Docker that starts whatever it is asked for, and in whose containers nothing succeeds.
_DOCKER: Final = """#!/bin/sh
echo "$*" >> "$0.asked"
case "$*" in
-v) echo "Docker version 28.0.0, build 0" ;;
"info --format {{json .}}") echo '{"CgroupVersion": "2", "CgroupDriver": "systemd"}' ;;
"network ls "*) echo kind ;;
"logs "*) echo "[  OK  ] Reached target Multi-User System." ;;
"exec "*) exit 1 ;;
esac
"""


@pytest.fixture
def docker(tmp_path: Path) -> Path:
    """The program, alone in its folder."""
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(_DOCKER)
    program.chmod(0o755)
    return program


def _kind(docker: Path, config: Path) -> tuple[str, list[str]]:
    """What kind says, and the containers it wants, with their options."""
    from tests.rigs.kind import kind_program

    done = subprocess.run(
        (kind_program(), "create", "cluster", "--config", config, "--wait", "180s"),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": f"{docker.parent}:{os.environ['PATH']}", "KUBECONFIG": os.devnull},
    )
    calls = Path(f"{docker}.asked").read_text().splitlines()
    return done.stderr, [it for it in calls if it.startswith("run ")]


def test_kind_takes_the_cluster_and_names_the_workers_as_slurm_does(docker: Path) -> None:
    said, containers = _kind(docker, FOLDER / "cluster.yaml")
    assert 'Creating cluster "slurm-pods"' in said
    names = [re.findall(r"--name (\S+)", it)[0] for it in containers]
    assert sorted(names) == ["slurm-pods-control-plane", *NODES]
    # the network on which up.sh puts Slurm
    assert all("--net kind " in it for it in containers)


def test_kind_refuses_what_is_misspelt(docker: Path, tmp_path: Path) -> None:
    config = tmp_path / "cluster.yaml"
    config.write_text((FOLDER / "cluster.yaml").read_text().replace("- role: worker", "- rol: w"))
    said, containers = _kind(docker, config)
    assert "field rol not found" in said
    assert containers == []


async def test_cluster_takes_what_up_installs(live_helm: Helm, kube: Kube, home: str) -> None:
    script = (FOLDER / "up.sh").read_text()
    known = {"$VERSION": scheduler.__version__, "$address": _ADDRESS}
    sets = [it for each in re.findall(r'--set "([^"]+)"', script) for it in ("--set", each)]
    for word, value in known.items():
        sets = [it.replace(word, value) for it in sets]
    values = ("--values", FOLDER / "values.yaml")
    command = ("upgrade", "--install", _NAME, CHART, "--namespace", home, *values, *sets)
    await asyncio.to_thread(live_helm, *command)
    try:
        found = await kube.get("deployments", _NAME, namespace=home)
    finally:
        await Release(live_helm, kube, _NAME, home).uninstall()
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"{_NAME}:{scheduler.__version__}"
    assert container["imagePullPolicy"] == "Never"
    assert pod["hostAliases"] == [{"ip": _ADDRESS, "hostnames": ["slurm"]}]
    assert "--slurm-api-base=http://slurm:6820" in container["args"]
    secrets = {it["secret"]["secretName"] for it in pod["volumes"] if "secret" in it}
    assert secrets == {"slurm-token", "slurm-hooks"}


def test_cluster_takes_the_pod_of_the_stories(live_kube: KubeRig) -> None:
    """As a dry run: a scheduler of the next test would serve the pod until its namespace is gone,
    which takes the API server's controllers five seconds or more.
    """
    answer = admission.dry(live_kube, yaml.safe_load((FOLDER / "pod.yaml").read_text()))
    assert answer.status == 201, answer.text


@pytest.fixture(params=["26.05", "24.11"])
def release(request: pytest.FixtureRequest) -> str:
    """Of Slurm."""
    found: str = request.param
    return found


def test_slurm_of_the_image_runs_jobs_on_the_workers(release: str) -> None:
    from tests.rigs.kind_slurm import SlurmContainer, ensure
    from tests.support.slurm_rest import API_VERSIONS

    with SlurmContainer(ensure(release)) as slurm:
        # What up.sh asks, and then test.sh.
        idle = ("sinfo", "--noheader", "--partition", "main", "--states", "idle", "--format", "%D")
        slurm.wait_until(*idle, says="2")
        ask = ("curl", "--silent", "--max-time", "5", "--output", "/dev/null")
        slurm.wait_until(*ask, "http://127.0.0.1:6820/", says="")
        where = f"http://127.0.0.1:6820/slurm/{API_VERSIONS[release]}/job/submit"
        status, line = slurm.call("scontrol", "token", "username=slurm", "lifespan=31536000")
        assert status == 0, slurm.log
        name, _, token = line.partition("=")
        assert name == "SLURM_JWT"
        header = f"X-SLURM-USER-TOKEN: {token}"
        for node in NODES:
            answer = slurm.call(
                *("curl", "--silent", "--fail-with-body", "--header", header),
                *("--header", "Content-Type: application/json", "--data", "@-", where),
                stdin=json.dumps(_job(node, external=release != "24.11")),
            )
            assert answer[0] == 0, answer
            job = str(json.loads(answer[1])["job_id"])
            state = ("squeue", "--noheader", "--states", "all", "--job", job, "--format", "%T %N")
            slurm.wait_until(*state, says=f"RUNNING {node}")
            assert slurm.call("scancel", job)[0] == 0
            slurm.wait_until(*state, says=f"CANCELLED {node}")
        slurm.end()
        assert "Saving all slurm state" in slurm.log


def _job(node: str, *, external: bool) -> dict[str, object]:
    """As the scheduler asks for one: in the name of SlurmUser, who may write that comment."""
    fields = {
        "name": "train",
        "required_nodes": [node],
        "nodes": "1",
        "tasks": 1,
        "cpus_per_task": 2,
        "memory_per_node": {"set": True, "number": 128},
        "current_working_directory": "/tmp",
        "environment": ["PATH=/usr/bin:/bin"],
        "admin_comment": "{}",
    }
    if external:
        return {"job": fields | {"flags": ["EXTERNAL_JOB"]}}
    return {"job": fields | {"script": "#!/bin/sh\nexec sleep 600\n"}}
