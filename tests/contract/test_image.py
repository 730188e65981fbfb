"""The image that the Dockerfile makes keeps what docs/image.md promises."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from packaging.requirements import Requirement

import scheduler
from tests.support.image_archive import ImageArchive

# The first of these tests may have to build the image within its time. Beside other work that took
# 634 s.
pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
HOME = "/opt/slurm-pod-scheduler"
SHARE = "/usr/share/slurm-pod-scheduler"
# How much we may add to the base image, whose own size varies.
_OURS_MIB = 110
_LABELS = "org.opencontainers.image."
_INSTALLERS = re.compile(r"pip3?(?:\d[\d.]*)?|gcc|cc|c\+\+|g\+\+|ld|as|make|curl|wget")


@pytest.fixture(scope="module")
def image() -> ImageArchive:
    """The image, from the cache or built now."""
    from tests.rigs import image

    return ImageArchive(image.ensure())


@pytest.fixture(scope="module")
def sbom(image: ImageArchive) -> dict[str, Any]:
    """The image's bill of materials."""
    document: dict[str, Any] = json.loads(image.read(f"{SHARE}/sbom.cdx.json"))
    return document


def test_image_runs_the_scheduler_as_an_unprivileged_user_by_number(image: ImageArchive) -> None:
    config = image.config["config"]
    assert config["Entrypoint"] == ["slurm-pod-scheduler"]
    assert not config["Cmd"]
    assert config["User"] == "65532:65532"
    commands = {f"{HOME}/bin/slurm-pod-scheduler", f"{HOME}/bin/kubectl-slurm"}
    assert commands <= image.paths()
    assert any(it.startswith(f"PATH={HOME}/bin:") for it in config["Env"])


def test_image_says_what_it_is(image: ImageArchive) -> None:
    config = image.config["config"]
    labels = {
        key.removeprefix(_LABELS): value
        for key, value in config["Labels"].items()
        if key.startswith(_LABELS)
    }
    assert labels["title"] == "slurm-pod-scheduler"
    assert labels["version"] == scheduler.__version__
    assert labels["revision"] == "rig"
    assert labels["licenses"] == "Apache-2.0"
    assert {"source", "description", "base.name"} <= set(labels)
    assert set(config["ExposedPorts"]) == {"8000/tcp", "8080/tcp", "8081/tcp"}


def test_image_has_a_healthcheck_for_engines_that_have_no_probes(image: ImageArchive) -> None:
    *python, script = image.config["config"]["Healthcheck"]["Test"]
    assert python == ["CMD", "python3", "-I"]
    assert image.read(script) == (ROOT / "deploy/image/healthcheck.py").read_bytes()


def test_image_can_install_and_compile_nothing(image: ImageArchive) -> None:
    programs = {PurePosixPath(it).name for it in image.paths() if "/bin/" in it or "/sbin/" in it}
    assert {it for it in programs if _INSTALLERS.fullmatch(it)} == set()
    assert not [it for it in image.paths() if "/pip/" in it or "/ensurepip/" in it]


def test_image_holds_our_source_without_tests_sandbox_and_demo(image: ImageArchive) -> None:
    (site,) = {
        it.partition("/scheduler/")[0] for it in image.paths() if "/scheduler/service/app.py" in it
    }
    assert (
        image.read(f"{site}/scheduler/service/app.py")
        == (ROOT / "scheduler/service/app.py").read_bytes()
    )
    assert not [it for it in image.paths() if it.startswith((f"{site}/tests/", "/build/"))]
    toys = (f"{site}/scheduler/sandbox", f"{site}/scheduler/demo")
    assert not [it for it in image.paths() if it.startswith(toys)]
    assert image.read(f"{SHARE}/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_all_bytecode_is_there_and_is_never_checked_against_the_time_of_its_source(
    image: ImageArchive,
) -> None:
    sources = [it for it in image.paths() if it.startswith(f"{HOME}/lib") and it.endswith(".py")]
    assert len(sources) > 1000
    stale = []
    for source in sources:
        path = PurePosixPath(source)
        compiled = f"{path.parent}/__pycache__/{path.stem}.cpython-313.pyc"
        # PEP 552: the second word is 1 for hash-based bytecode that is not checked.
        if image.read(compiled)[4:8] != (1).to_bytes(4, "little"):
            stale.append(source)
    assert stale == []
    assert "/usr/lib/python3.13/asyncio/__pycache__/base_events.cpython-313.pyc" in image.paths()


def test_bill_of_materials_names_what_the_lock_file_names(
    sbom: dict[str, Any],
) -> None:
    python = [it for it in sbom["components"] if it["purl"].startswith("pkg:pypi/")]
    told = {_plain(it["name"]): it["version"] for it in python}
    wanted = dict(_locked())
    assert {name: told.get(name) for name in wanted} == wanted
    about = sbom["metadata"]["component"]
    assert (about["name"], about["version"]) == ("slurm-pod-scheduler", scheduler.__version__)
    assert sbom["bomFormat"] == "CycloneDX"


def test_bill_of_materials_names_what_is_installed(
    image: ImageArchive, sbom: dict[str, Any]
) -> None:
    told = {it["purl"].partition("?")[0] for it in sbom["components"]}
    installed = {
        PurePosixPath(it).parent.name.removesuffix(".dist-info")
        for it in image.paths()
        if it.startswith(HOME) and it.endswith(".dist-info/METADATA")
    }
    python = {_plain(it["name"]) for it in sbom["components"]} | {"slurm-pod-scheduler"}
    assert {_plain(it.rpartition("-")[0]) for it in installed} <= python
    status = image.read("/var/lib/dpkg/status").decode()
    packages = re.findall(r"^Package: (.+)\nStatus: install ok installed$", status, re.MULTILINE)
    assert len(packages) > 50
    debian = {it.removeprefix("pkg:deb/debian/").partition("@")[0] for it in told}
    assert set(packages) <= debian
    assert any(it.startswith("pkg:generic/python@3.13.") for it in told)


def test_image_is_not_bigger_than_told(image: ImageArchive) -> None:
    _base, *ours = image.sizes
    assert sum(ours) / 2**20 < _OURS_MIB


@pytest.mark.slow
def test_same_files_make_the_same_layers(image: ImageArchive, tmp_path: Path) -> None:
    from tests.rigs import image as rig

    rig.build(tmp_path / "again.tar")
    again = ImageArchive(tmp_path / "again.tar")
    assert again.layers == image.layers
    assert _lasting(again.config) == _lasting(image.config)


def _lasting(config: dict[str, Any]) -> dict[str, Any]:
    """The config without the names of the container in which buildah 1.28 made the image."""
    kept = {key: value for key, value in config.items() if key != "container"}
    for part in ("config", "container_config"):
        kept[part] = {key: value for key, value in kept[part].items() if key != "Hostname"}
    return kept


def _locked() -> Iterator[tuple[str, str]]:
    """Name and version of each requirement of the lock file that applies to the image."""
    text = (ROOT / "requirements/runtime.txt").read_text()
    for line in re.findall(r"^([a-z][^\\\n]+)", text, re.MULTILINE):
        needed = Requirement(line.strip())
        environment = {"python_full_version": "3.13.5", "python_version": "3.13"}
        if needed.marker is None or needed.marker.evaluate(environment):
            (pin,) = needed.specifier
            yield _plain(needed.name), pin.version


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
