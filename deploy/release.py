"""Makes everything that a release publishes, in one folder (docs/releasing.md).

    python -m deploy.release --to dist [--image ARCHIVE] [--url URL] [--sign KEY]

The same commit gives the same files, byte by byte: no file has a time of its own, but that of the
commit. They are made twice and compared, and the packages are installed into empty places. Nothing
is uploaded.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.archives import tar, zipped
from deploy.krew import plugin
from scheduler import __version__

_ROOT: Final = Path(__file__).parents[1]
_CHART: Final = _ROOT / "deploy/helm/slurm-pod-scheduler"
_LOCKS: Final = ("requirements/runtime.txt", "requirements/image.txt", "requirements/release.txt")
_NAME: Final = "slurm-pod-scheduler"
_SECONDS: Final = 600
_SUMS: Final = "SHA256SUMS"
# https://github.com/helm/community/blob/main/hips/hip-0006.md
_CHART_CONFIG: Final = "application/vnd.cncf.helm.config.v1+json"
_CHART_CONTENT: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
# Objects for operators, which define them in clusters of their own.
_OPERATORS: Final = "PodMonitor,PrometheusRule,ServiceMonitor,VMPodScrape"
_LABELS: Final = "org.opencontainers.image"
_DEEPEST: Final = 3
# Errors of reading what is no archive, no JSON, or JSON of another shape.
_NO_IMAGE: Final = (
    OSError,
    tarfile.TarError,
    LookupError,
    AttributeError,
    TypeError,
    ValueError,
)


class ReleaseError(Exception):
    """What prevents the release, as a text for whoever makes it."""


@dataclass(frozen=True, slots=True)
class Source:
    """The commit that is released, and its time in Unix seconds."""

    revision: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs of others. `schemas` is the place of Kubernetes' schemas for kubeconform."""

    helm: str = "helm"
    kubeconform: str = "kubeconform"
    schemas: str = "default"


def main(arguments: list[str] | None = None) -> int:
    """Make a release. Returns the exit status; what is wrong goes to stderr."""
    options = _parser().parse_args(arguments)
    try:
        tools = Tools(options.helm, options.kubeconform, options.schemas)
        make(options.to, tools, image=options.image, url=options.url, dirty=options.dirty)
        if options.sign:
            sign(options.to, options.sign)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for path in sorted(options.to.iterdir()):
        print(path)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="the folder, which must not exist")
    parser.add_argument("--helm", default="helm", help="the program helm (3.x)")
    parser.add_argument("--kubeconform", default="kubeconform", help="the program kubeconform")
    parser.add_argument(
        "--schemas",
        default="default",
        help="where kubeconform finds Kubernetes' schemas, as its -schema-location says: a folder "
        "or URL. By default it fetches them",
    )
    parser.add_argument(
        "--image", type=Path, help="the image as an OCI archive (deploy/image/image.sh save)"
    )
    parser.add_argument(
        "--url",
        default="",
        help="the address of the folder in which the files will be published: krew's manifest "
        "names it, and is not made without",
    )
    parser.add_argument("--dirty", action="store_true", help="allow changes without a commit")
    parser.add_argument(
        "--sign", type=Path, help=f"a key of ssh-keygen, with which {_SUMS} is signed"
    )
    return parser


def make(
    folder: Path, tools: Tools, *, image: Path | None = None, url: str = "", dirty: bool = False
) -> None:
    """Write all files of a release into a new folder, and check them. Raises ReleaseError."""
    if folder.exists():
        raise ReleaseError(f"{folder} exists already: remove it, or name another folder by --to")
    if url and not url.startswith("https://"):
        raise ReleaseError(f"--url {url}: expected an address that begins with https://")
    if image is not None and not image.is_file():
        raise ReleaseError(f"--image {image}: there is no such file")
    source = _source(dirty=dirty)
    _one_version()
    if image is not None:
        check_image(image, revision=None if dirty else source.revision)
    _conforms(tools)
    with tempfile.TemporaryDirectory(prefix="release-") as place:
        first, second = Path(place, "first"), Path(place, "second")
        for made in (first, second):
            made.mkdir()
            _write(made, source, tools.helm, image, url)
        before, after = _digests(first), _digests(second)
        differ = [name for name in before if before[name] != after.get(name)]
        if differ:
            raise ReleaseError(f"made twice, these files differ: {', '.join(differ)}")
        for package in _built(first):
            _try_package(package)
        shutil.copytree(first, folder)


def _write(folder: Path, source: Source, helm: str, image: Path | None, url: str) -> None:
    _packages(folder, source)
    _plugin(folder, source, url)
    _chart(folder, source, helm)
    if image is not None:
        shutil.copyfile(image, folder / f"{_NAME}-image-{__version__}.oci.tar")
    _bill_of_materials(folder / f"{_NAME}-{__version__}.cdx.json")
    _provenance(folder, source)
    sums = "".join(f"{digest}  {name}\n" for name, digest in _digests(folder).items())
    (folder / _SUMS).write_text(sums)


def sign(folder: Path, key: Path) -> None:
    """Sign the list of digests with a key of ssh-keygen, which may be in an agent. Raises
    ReleaseError.
    """
    _run("ssh-keygen", "-Y", "sign", "-q", "-n", "file", "-f", str(key), str(folder / _SUMS))


def _source(*, dirty: bool) -> Source:
    changed = _run("git", "status", "--porcelain", at=_ROOT)
    if changed and not dirty:
        names = ", ".join(line[3:] for line in changed.splitlines()[:3])
        raise ReleaseError(f"there are changes without a commit ({names}): commit them first")
    revision = _run("git", "rev-parse", "HEAD", at=_ROOT).strip()
    epoch = _run("git", "log", "-1", "--format=%ct", at=_ROOT).strip()
    return Source(revision + ("-dirty" if changed else ""), int(epoch))


def _one_version() -> None:
    """The chart has the version of the package, and the changelog names it."""
    chart = _chart_file()
    if chart["appVersion"] != __version__:
        told = f"Chart.yaml: appVersion is {chart['appVersion']}, and the package has {__version__}"
        raise ReleaseError(f"{told}: set both to the version of the release")
    if f"## [{__version__}]" not in (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise ReleaseError(f"CHANGELOG.md has no section [{__version__}]: write one")


def check_image(image: Path, *, revision: str | None) -> None:
    """Raise ReleaseError unless the file is an OCI archive with an image of this version, made of
    this commit. `revision` None does not ask for the commit.
    """
    try:
        labels = _labels(image)
    except _NO_IMAGE as error:
        raise ReleaseError(
            f"--image {image}: no image in an OCI archive ({error}): "
            "write one with deploy/image/image.sh save FILE, with buildah, podman or Docker 25"
        ) from None
    wanted = {"version": __version__, "revision": revision}
    for name, value in wanted.items():
        told = labels.get(f"{_LABELS}.{name}")
        if value is not None and told != value:
            raise ReleaseError(
                f"--image {image}: its {name} is {told}, expected {value}: "
                "build it anew with deploy/image/image.sh build"
            )


def _labels(image: Path) -> Mapping[str, str]:
    """The labels of the image in an OCI archive. Raises one of _NO_IMAGE if it is none."""
    with tarfile.open(image) as layout:
        found = _json_in(layout, "index.json")
        # An index may lie in an index: https://github.com/opencontainers/image-spec
        for _ in range(_DEEPEST):
            if "config" in found:
                config = _json_in(layout, _blob(found["config"]))
                return dict(config["config"].get("Labels") or {})
            found = _json_in(layout, _blob(found["manifests"][0]))
    raise ValueError("too many indexes in one another")


def _blob(descriptor: Mapping[str, Any]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _json_in(layout: tarfile.TarFile, name: str) -> Any:
    file = layout.extractfile(name)
    if file is None:
        raise ValueError(f"{name} is no file")
    return json.load(file)


def _packages(folder: Path, source: Source) -> None:
    """The wheel and the sdist."""
    _run(
        *(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel"),
        *("-d", str(folder.absolute())),
        at=_ROOT,
        environment={"SOURCE_DATE_EPOCH": str(source.epoch)},
    )
    _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, _built(folder)))


def _built(folder: Path) -> list[Path]:
    found = sorted((*folder.glob("*.whl"), *folder.glob("*.tar.gz")))
    if len(found) != 2:
        raise ReleaseError(f"hatchling made {len(found)} files, expected a wheel and an sdist")
    return found


def _try_package(package: Path) -> None:
    """Install it with the locked packages into an empty place, and ask it for its version."""
    with tempfile.TemporaryDirectory(prefix="release-") as place:
        _run(sys.executable, "-m", "venv", place)
        install = (f"{place}/bin/python", "-m", "pip", "install", "--quiet")
        locks = [_ROOT / "requirements" / f"{name}.txt" for name in ("runtime", "build")]
        _run(*install, "--require-hashes", *(it for lock in locks for it in ("-r", str(lock))))
        _run(*install, "--no-deps", "--no-build-isolation", "--no-index", str(package))
        said = _run(f"{place}/bin/slurm-pod-scheduler", "--version").strip()
    if said != __version__:
        raise ReleaseError(f"{package.name}, installed, says version {said!r}, not {__version__}")


def _plugin(folder: Path, source: Source, url: str) -> None:
    """The plugin for krew, with its manifest if it is known where it will be."""
    (wheel,) = folder.glob("*.whl")
    made = folder / f"{_NAME}-krew-{__version__}.tgz"
    made.write_bytes(plugin.archive(wheel, source.epoch))
    if url:
        manifest = plugin.manifest(made, version=__version__, url=url)
        (folder / plugin.MANIFEST).write_text(manifest, encoding="utf-8")


def _chart(folder: Path, source: Source, helm: str) -> None:
    """The chart as an archive, and as an OCI layout for a registry."""
    _run(helm, "lint", "--strict", str(_CHART))
    with tempfile.TemporaryDirectory(prefix="release-") as place:
        _run(helm, "package", str(_CHART), "--destination", place)
        (packaged,) = Path(place).iterdir()
        name = f"{_NAME}-chart-{_chart_file()['version']}"
        archive = folder / f"{name}.tgz"
        archive.write_bytes(_without_times(packaged.read_bytes(), source.epoch))
    values = "--set=scheduler.config.slurm.apiBase=http://slurmrestd.slurm:6820"
    before = _run(helm, "template", "release", str(_CHART), values)
    if _run(helm, "template", "release", str(archive), values) != before:
        raise ReleaseError(f"{archive.name} does not render as the chart in its folder does")
    layout = _oci_layout(archive, source)
    (folder / f"{name}.oci.tar").write_bytes(tar(layout, source.epoch))


def _conforms(tools: Tools) -> None:
    """Kubernetes' schemas allow the manifests, and what the chart makes of its own values."""
    for values in sorted(_CHART.glob("ci/*-values.yaml")):
        made = _run(tools.helm, "template", "release", str(_CHART), "-f", str(values))
        conforms(tools, f"the chart with {values.name}", made)
    for manifest in sorted((_ROOT / "deploy/manifests").glob("*.yaml")):
        if manifest.name != "kustomization.yaml":  # which only kustomize reads
            conforms(tools, manifest.name, manifest.read_text(encoding="utf-8"))


def conforms(tools: Tools, what: str, objects: str) -> None:
    """Raise ReleaseError unless Kubernetes' schemas allow each of these objects, in YAML, and every
    field in it.
    """
    asked = (tools.kubeconform, "-strict", "-schema-location", tools.schemas, "-skip", _OPERATORS)
    try:
        told = _run(*asked, "-summary", "-", stdin=objects)
    except ReleaseError as error:
        raise ReleaseError(f"{what}: {error}") from None
    if " Valid: 0," in told:
        raise ReleaseError(f"{what}: kubeconform found no object in it")


def _chart_file() -> dict[str, Any]:
    """What Chart.yaml says."""
    return dict(yaml.safe_load((_CHART / "Chart.yaml").read_text(encoding="utf-8")))


def _without_times(archive: bytes, epoch: int) -> bytes:
    """The same archive with the time of the commit for all files: helm writes the present one."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as packed:
        files = {it.name: packed.extractfile(it) for it in packed.getmembers() if it.isfile()}
        content = {name: file.read() for name, file in files.items() if file is not None}
    return zipped(tar(content, epoch))


def _oci_layout(archive: Path, source: Source) -> dict[str, bytes]:
    """The files of an OCI image layout with the chart, as `helm push` would upload it."""
    chart = _chart_file()
    config, content = _json(chart), archive.read_bytes()
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CHART_CONFIG, config),
            "layers": [_descriptor(_CHART_CONTENT, content)],
            "annotations": {
                "org.opencontainers.image.title": chart["name"],
                "org.opencontainers.image.description": chart["description"],
                "org.opencontainers.image.version": chart["version"],
                "org.opencontainers.image.revision": source.revision,
            },
        }
    )
    tag = {"org.opencontainers.image.ref.name": chart["version"]}
    index = {
        "schemaVersion": 2,
        "manifests": [_descriptor(_MANIFEST, manifest) | {"annotations": tag}],
    }
    blobs = {f"blobs/sha256/{_sha256(it)}": it for it in (config, content, manifest)}
    layout = _json({"imageLayoutVersion": "1.0.0"})
    return {"oci-layout": layout, "index.json": _json(index), **blobs}


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{_sha256(content)}"
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _bill_of_materials(path: Path) -> None:
    """What an installation of the wheel with the lock file contains, as CycloneDX."""
    _run(
        *(sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible"),
        *("--pyproject", "pyproject.toml", "-o", str(path.absolute())),
        "requirements/runtime.txt",
        at=_ROOT,
    )
    document = json.loads(path.read_text(encoding="utf-8"))
    document["metadata"]["component"]["version"] = __version__
    path.write_bytes(_json(document))


def _provenance(folder: Path, source: Source) -> None:
    """How the files were made: an in-toto statement with SLSA's provenance, not yet signed."""
    locks = [
        {"name": name, "digest": {"sha256": _sha256((_ROOT / name).read_bytes())}}
        for name in _LOCKS
    ]
    commit = {"uri": f"git+file:{_NAME}", "digest": {"gitCommit": source.revision}}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": digest}}
            for name, digest in _digests(folder).items()
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{_NAME}/deploy/release.py",
                "externalParameters": {"version": __version__},
                "internalParameters": {"SOURCE_DATE_EPOCH": source.epoch},
                "resolvedDependencies": [commit, *locks],
            },
            "runDetails": {"builder": {"id": f"{_NAME}/Makefile#release"}},
        },
    }
    (folder / f"{_NAME}-{__version__}.intoto.jsonl").write_bytes(_json(statement) + b"\n")


def _digests(folder: Path) -> dict[str, str]:
    return {it.name: _sha256(it.read_bytes()) for it in sorted(folder.iterdir())}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _run(
    *command: str,
    at: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """What the command prints. Raises ReleaseError with its output if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=at,
            env={**os.environ, **(environment or {})},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except FileNotFoundError:
        raise ReleaseError(
            f"there is no program {command[0]}: install it, or name its path by an option (--help)"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReleaseError(f"{command[0]}: {error}") from None
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)}:\n{_end_of(done.stdout + done.stderr)}")
    return done.stdout


def _end_of(text: str, *, lines: int = 20) -> str:
    kept: Iterable[str] = text.strip().splitlines()[-lines:]
    return "\n".join(kept)


if __name__ == "__main__":
    sys.exit(main())
