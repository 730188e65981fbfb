"""`make release` makes every file of a release, and each is what it says."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.release import ReleaseError, Tools, conforms
from scheduler import __version__
from tests.rigs.helm import Helm, krew_program, kubeconform_program
from tests.rigs.kube import KubeRig
from tests.support.kube_schemas import write_schemas

pytestmark = pytest.mark.live

_ROOT: Final = Path(__file__).parents[2]
_CHART: Final = f"slurm-pod-scheduler-chart-{__version__}"
_PLUGIN: Final = f"slurm-pod-scheduler-krew-{__version__}.tgz"
_URL: Final = "https://example.com/releases"
# All of it takes two minutes alone. Beside two whole runs of the tests it took twelve.
_SECONDS: Final = 1800


def run(*command: str | Path, stdin: str = "", status: int = 0) -> str:
    done = subprocess.run(
        command,
        cwd=_ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def blob(layout: tarfile.TarFile, descriptor: dict[str, Any]) -> bytes:
    """What a descriptor of an OCI layout names, which is of its size and digest."""
    file = layout.extractfile(f"blobs/sha256/{descriptor['digest'].removeprefix('sha256:')}")
    assert file is not None
    content = file.read()
    assert (f"sha256:{sha256(content)}", len(content)) == (
        descriptor["digest"],
        descriptor["size"],
    )
    return content


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The container image in an OCI archive, written by a real engine as docs/releasing.md says."""
    from tests.rigs import image as rig

    saved = tmp_path_factory.mktemp("image") / "image.tar"
    with rig.storage() as environment:
        engine = {**os.environ, **environment, "IMAGE": rig.NAME}
        for command in (
            ("buildah", "pull", "--quiet", f"docker-archive:{rig.ensure()}"),
            ("deploy/image/image.sh", "save", str(saved)),
        ):
            subprocess.run(command, cwd=_ROOT, env=engine, timeout=_SECONDS, check=True)
    yield saved
    saved.unlink()


@pytest.fixture(scope="module")
def conform(live_kube: KubeRig, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """kubeconform with the schemas of a real API server."""
    folder = tmp_path_factory.mktemp("schemas")
    write_schemas(live_kube.ask("GET", "/openapi/v2").body, folder)
    return Tools(kubeconform=str(kubeconform_program()), schemas=str(folder))


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ("", "x.yaml: kubeconform found no object in it"),
        ("{apiVersion: v1, kind: Service, spec: {ports: [{port: many}]}}", "port"),
        ("{apiVersion: v1, kind: Secret, metadata: {name: a}, strings: {}}", "'strings'"),
        ("{apiVersion: v9, kind: Secret, metadata: {name: a}}", "could not find schema for Secret"),
        ("{apiVersion: v1, kind: ", "x.yaml: "),
    ],
)
def test_objects_that_kubernetes_does_not_know_are_refused(
    conform: Tools, objects: str, words: str
) -> None:
    with pytest.raises(ReleaseError, match=re.escape(words)):
        conforms(conform, "x.yaml", objects)


def test_program_that_is_missing_is_named() -> None:
    with pytest.raises(ReleaseError, match="there is no program kubeconform-x: install it"):
        conforms(Tools(kubeconform="kubeconform-x"), "x.yaml", "")


# The image may have to be built first, which took 634 s beside other work.
@pytest.mark.timeout(2 * _SECONDS)
def test_every_file_is_made_signed_and_whole(
    live_helm: Helm, conform: Tools, image: Path, tmp_path: Path
) -> None:
    folder, key = tmp_path / "dist", tmp_path / "key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "maintainers", "-f", key)
    tools = f"--helm {live_helm.program} --kubeconform {conform.kubeconform}"
    asked = f"--to {folder} {tools} --schemas {conform.schemas} --image {image} --dirty"
    asked += f" --sign {key} --url {_URL}"
    made = run("make", "release", f"ARGS={asked}")
    names = {it.name for it in folder.iterdir()}
    assert names == {
        f"slurm_pod_scheduler-{__version__}-py3-none-any.whl",
        f"slurm_pod_scheduler-{__version__}.tar.gz",
        f"{_CHART}.tgz",
        f"{_CHART}.oci.tar",
        _PLUGIN,
        "slurm.yaml",
        f"slurm-pod-scheduler-image-{__version__}.oci.tar",
        f"slurm-pod-scheduler-{__version__}.cdx.json",
        f"slurm-pod-scheduler-{__version__}.intoto.jsonl",
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }
    assert all(name in made for name in names)
    sums = (folder / "SHA256SUMS").read_text()
    digests = {name: it for it, _, name in (line.partition("  ") for line in sums.splitlines())}
    assert digests.keys() == names - {"SHA256SUMS", "SHA256SUMS.sig"}
    assert all(sha256((folder / name).read_bytes()) == it for name, it in digests.items())
    signers = tmp_path / "allowed_signers"
    signers.write_text(f'maintainers namespaces="file" {key.with_suffix(".pub").read_text()}')
    verify = ("ssh-keygen", "-Y", "verify", "-f", signers, "-I", "maintainers", "-n", "file")
    run(*verify, "-s", folder / "SHA256SUMS.sig", stdin=sums)
    run(*verify, "-s", folder / "SHA256SUMS.sig", stdin=f"{sums} ", status=255)
    _provenance_names(folder, digests)
    _layout_holds(folder, live_helm)
    _krew_installs(folder, tmp_path / "krew")
    refused = run("make", "release", f"ARGS={asked}", status=2)
    assert f"release: {folder} exists already: remove it" in refused


def _provenance_names(folder: Path, digests: dict[str, str]) -> None:
    """The statement is about all files that were made before it, and names the commit."""
    path = folder / f"slurm-pod-scheduler-{__version__}.intoto.jsonl"
    statement = json.loads(path.read_text())
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    subjects = {it["name"]: it["digest"]["sha256"] for it in statement["subject"]}
    assert subjects == {name: it for name, it in digests.items() if name != path.name}
    commit, *locks = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    revision = run("git", "rev-parse", "HEAD").strip()
    assert commit["digest"]["gitCommit"].removesuffix("-dirty") == revision
    assert len(locks) == 3


def _krew_installs(folder: Path, home: Path) -> None:
    """krew takes the manifest, and the plugin that it installs runs, the second time at once."""
    manifest = yaml.safe_load((folder / "slurm.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    assert platform["uri"] == f"{_URL}/{_PLUGIN}"
    places = ("env", f"HOME={home}", f"KREW_ROOT={home}/.krew", f"XDG_CACHE_HOME={home}/cache")
    krew = (*places, krew_program(), "install", "--no-update-index")
    run(*krew, f"--manifest={folder}/slurm.yaml", f"--archive={folder / _PLUGIN}")
    program = home / ".krew/bin/kubectl-slurm"
    said = run(*places, program, "--help")
    assert "installing its packages" in said
    assert "usage: kubectl slurm" in said
    assert "installing" not in run(*places, program, "queue", "--help")
    elsewhere = (*places, "XDG_CACHE_HOME=/nowhere", "KUBECTL_SLURM_PYTHON=/bin/false")
    without = run(*elsewhere, program, status=1)
    assert "/bin/false is not Python 3.11 or newer" in without


def _layout_holds(folder: Path, helm: Helm) -> None:
    """The OCI layout has the chart of the archive, which is the chart in the repository."""
    archive = folder / f"{_CHART}.tgz"
    with tarfile.open(folder / f"{_CHART}.oci.tar") as layout:
        index = layout.extractfile("index.json")
        assert index is not None
        (descriptor,) = json.load(index)["manifests"]
        manifest = json.loads(blob(layout, descriptor))
        (content,) = (blob(layout, it) for it in manifest["layers"])
        config = json.loads(blob(layout, manifest["config"]))
    assert content == archive.read_bytes()
    assert (config["name"], config["appVersion"]) == ("slurm-pod-scheduler", __version__)
    assert f"appVersion: {__version__}" in helm("show", "chart", archive)
