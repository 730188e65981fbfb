"""Stories are told on a cluster that a file tells of."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.outside import read
from tests.support.sandbox import SandboxCluster

pytestmark = pytest.mark.timeout(300)

# One file: to collect all stories takes longer than to tell one.
_STORY: Final = "tests/stories/test_edits.py::test_pod_without_a_limit_has_no_end"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What is told of a sandbox as small as the cluster of deploy/kind."""
    token = tmp_path / "kube-token"
    with SandboxCluster("24.11", nodes=2, cpus=2) as cluster:
        token.write_text(cluster.kube_token)
        yield {
            "release": "24.11",
            "kubeconfig": str(cluster.kubeconfig),
            "kube_url": cluster.kube_url,
            "kube_token_file": str(token),
            "kube_ca": None,
            "slurm_url": cluster.slurm_url,
            "slurm_token_file": str(cluster.slurm_token_file),
            "nodes": cluster.nodes,
            "cpus_per_node": 2,
            "partition": cluster.partition,
            "high_partition": cluster.high_partition,
            "grace_partition": cluster.grace_partition,
            "container": {"image": "registry.invalid/another:1"},
        }


@pytest.fixture
def file(told: dict[str, Any], tmp_path: Path) -> Path:
    """It as a file."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(told))
    return path


def test_story_is_told_on_the_cluster_of_the_file(file: Path):
    options = ("-q", "-n", "0", "-p", "no:cacheprovider")
    done = subprocess.run(
        (sys.executable, "-m", "pytest", _STORY, "--cluster", str(file), *options),
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=250,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_what_such_a_cluster_cannot_do_is_named(file: Path):
    cluster = read(file)
    with pytest.raises(AssertionError, match=r"outside-24\.11 has no power_cycle"):
        _ = cluster.power_cycle
    with pytest.raises(AssertionError, match="no token of alice"):
        cluster.slurm_token("alice")
