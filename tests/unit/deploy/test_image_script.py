"""What deploy/image/image.sh asks of a container engine, and what the container is asked then."""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import scheduler
from tests.support.ports import free_ports
from tests.support.scheduler_pod import MANIFEST

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "deploy/image/image.sh"
HEALTHCHECK = ROOT / "deploy/image/healthcheck.py"
SBOM = "/usr/share/slurm-pod-scheduler/sbom.cdx.json"
_ENGINE = """#!/bin/sh
[ "$1" != info ] || exit {info}
printf '%s\\n' "$@" >>"$0.asked"
[ "$1" != from ] || echo made
"""


class Engines:
    """A folder with engines, as programs; what each was asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for tool in ("bash", "sh", "dirname", "sed", "cat"):
            (folder / tool).symlink_to(f"/bin/{tool}" if tool != "dirname" else "/usr/bin/dirname")

    def add(self, name: str, *, works: bool = True) -> None:
        """Install it; one that does not work has no daemon."""
        program = self._folder / name
        program.write_text(_ENGINE.format(info=0 if works else 1))
        program.chmod(0o755)

    def asked(self, name: str) -> list[str]:
        """All its arguments."""
        path = self._folder / f"{name}.asked"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """The script among them."""
        return subprocess.run(
            ("bash", str(SCRIPT), *arguments),
            check=False,
            capture_output=True,
            text=True,
            timeout=150,
            env={"PATH": str(self._folder), **variables},
        )


@pytest.fixture
def engines(tmp_path: Path) -> Engines:
    return Engines(tmp_path)


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_engine_that_is_there_builds_the_image_with_its_version(engines: Engines, engine: str):
    engines.add(engine)
    done = engines.run("build", REVISION="abc", SOURCE_DATE_EPOCH="7")
    assert done.returncode == 0, done.stderr
    asked = engines.asked(engine)
    assert asked[0] == "build"
    assert asked[-1] == "."
    assert f"slurm-pod-scheduler:{scheduler.__version__}" in asked
    given = {f"VERSION={scheduler.__version__}", "REVISION=abc", "SOURCE_DATE_EPOCH=7"}
    assert given <= set(asked)
    assert ("--timestamp" in asked) == (engine != "docker")
    assert "--secret" not in asked


def test_docker_without_its_daemon_is_passed_over(engines: Engines):
    engines.add("docker", works=False)
    engines.add("buildah")
    assert engines.run("build").returncode == 0
    assert engines.asked("docker") == []
    assert engines.asked("buildah")


def test_machine_without_an_engine_is_told_so(engines: Engines):
    done = engines.run("build")
    assert done.returncode == 1
    assert "none of docker, podman and buildah works here" in done.stderr


def test_way_to_a_mirror_goes_as_secrets(engines: Engines):
    engines.add("docker")
    engines.run(
        "build",
        "--no-cache",
        PIP_INDEX_URL="https://mirror.example/simple",
        PIP_CONFIG_FILE="/site/pip.conf",
        PIP_CERT="/site/ca.pem",
        BASE="mirror.example/python:3.13",
        SOURCE="https://git.example/scheduler",
        IMAGE="mirror.example/scheduler:1",
    )
    asked = engines.asked("docker")
    assert {"id=pip.conf,src=/site/pip.conf", "id=ca.crt,src=/site/ca.pem"} <= set(asked)
    assert "PIP_INDEX_URL=https://mirror.example/simple" in asked
    assert {"BASE=mirror.example/python:3.13", "SOURCE=https://git.example/scheduler"} <= set(asked)
    assert {"mirror.example/scheduler:1", "--no-cache"} <= set(asked)


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_bill_of_materials_is_read_from_the_image(engines: Engines, engine: str):
    engines.add(engine)
    assert engines.run("sbom", IMAGE="image:1").returncode == 0
    assert {"image:1", SBOM} <= set(engines.asked(engine))


def test_every_variable_of_the_script_is_documented():
    used = set(re.findall(r"\$\{([A-Z_]+):-", SCRIPT.read_text()))
    named = set(
        re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs/image.md").read_text(), re.MULTILINE)
    )
    assert named == used


def test_all_that_is_copied_into_the_image_is_let_into_the_build():
    allowed = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    copies = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE
    )
    sources = [source for line in copies for source in line.split()]
    assert len(sources) > 5
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(f"{source}/".startswith(f"{it}/") for it in allowed), source


def test_page_names_what_the_dockerfile_sets():
    recipe, page = (ROOT / "Dockerfile").read_text(), (ROOT / "docs/image.md").read_text()
    patterns = (
        r"^USER (.+)$",
        r"^COPY --from=build (/opt\S+)",
        r"(/usr/libexec\S+\.py)",
        r"(sbom\.\w+\.json)$",
    )
    found = [re.findall(it, recipe, re.MULTILINE) for it in patterns]
    assert all(found)
    ports = re.findall(r"^EXPOSE (.+)$", recipe, re.MULTILINE)[0].split()
    for told in (*(it[0] for it in found), *ports, SBOM):
        assert told in page, told


def test_manifest_runs_the_image_as_its_own_user_and_without_privilege():
    (deployment,) = yaml.safe_load_all(MANIFEST.read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == f"slurm-pod-scheduler:{scheduler.__version__}"
    security = pod["securityContext"] | container["securityContext"]
    user = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert user == [(str(security["runAsUser"]), str(security["runAsGroup"]))]
    assert security["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}


def test_base_is_pinned_by_version_and_digest():
    found = re.search(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+@sha256:[0-9a-f]{64}", found[1])


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_healthcheck_is_what_the_probe_says(status: int, healthy: bool):
    with _face(status) as port:
        for where in (f":{port}", f"127.0.0.1:{port}", f"0.0.0.0:{port}"):
            assert (_healthcheck(where) == 0) is healthy


def test_healthcheck_fails_where_nobody_answers():
    (port,) = free_ports(1)
    assert _healthcheck(f":{port}") == 1


def _healthcheck(where: str) -> int:
    variables = {"SLURM_POD_SCHEDULER_HEALTH_PROBE_BIND_ADDRESS": where}
    command = (sys.executable, "-I", str(HEALTHCHECK))
    return subprocess.run(
        command, check=False, env={**os.environ, **variables}, capture_output=True, timeout=150
    ).returncode


@contextmanager
def _face(status: int) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
