"""The container image, built from the Dockerfile as it stands by the script that users run.

Debian's buildah builds it on a base made of Debian packages, since no registry is needed for that.
The layers are kept in the user's cache, under a key of everything that goes into them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.rigs.debian import bootstrap, need_program
from tests.rigs.prerequisites import (
    announced,
    cache_directory,
    locked,
    need_root,
    recipe_key,
    run,
)

NAME: Final = "localhost/rig/slurm-pod-scheduler:1"

_ROOT: Final = Path(__file__).parents[2]
_SCRIPT: Final = Path(__file__).with_name("image.sh")
_IGNORED: Final = _ROOT / ".dockerignore"
_BASE_NAME: Final = "localhost/rig/python:1"
_SUITE: Final = "trixie"
_PACKAGES: Final = ("ca-certificates", "python3", "python3-venv")
# As in the official images: no lists of packages, and no bytecode of the standard library.
_CUSTOMIZE: Final = (
    'rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/*',
    'find "$1"/usr/lib/python3* -name __pycache__ -prune -exec rm -rf {} +',
)
# Any fixed times will do: the same files then make the same layers.
_FIXED: Final = {"SOURCE_DATE_EPOCH": "1767225600", "REVISION": "rig"}
# Enough for a few checkouts that are tested on one machine.
_KEPT: Final = 4


def ensure() -> Path:
    """The image NAME as a docker archive, built now if it is not in the cache.

    Takes about a minute and 250 MB when it has to be made. Raises PrerequisiteError.
    """
    need_root()
    archive = cache_directory() / f"image-{_key()}.tar"
    with locked(cache_directory() / "image"):
        if not archive.exists():
            with announced("building the container image"):
                build(archive)
            _forget_old()
        os.utime(archive)
    return archive


def build(archive: Path) -> None:
    """Build the image anew and write it to `archive`. Raises PrerequisiteError."""
    need_program("buildah")
    base = _base()
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    with storage() as environment, _pip() as pip:
        # Mounts that a killed buildah leaves behind go with the namespace.
        run(
            ("unshare", "--mount", "--propagation", "private", "sh", str(_SCRIPT), str(base),
             str(partial)),
            directory=_ROOT,
            environment={**environment, **pip, **_FIXED, "BASE": _BASE_NAME, "IMAGE": NAME},
        )  # fmt: skip
    partial.rename(archive)


def context() -> list[Path]:
    """The files that .dockerignore lets into a build, in order."""
    lines = _IGNORED.read_text().split()
    allowed = [_ROOT / line.removeprefix("!") for line in lines if line.startswith("!")]
    kept_out = [_ROOT / line for line in lines if not line.startswith(("!", "*"))]
    found = (path for top in allowed for path in (top, *top.rglob("*")) if path.is_file())
    return sorted(
        path
        for path in found
        if "__pycache__" not in path.parts and not any(map(path.is_relative_to, kept_out))
    )


def _key() -> str:
    recipe = (_ROOT / "Dockerfile", _ROOT / "deploy/image/image.sh", _SCRIPT, *context())
    files = (
        f"{path.relative_to(_ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in recipe
    )
    return recipe_key(_SUITE, *_PACKAGES, *_CUSTOMIZE, *files)


def _base() -> Path:
    root = cache_directory() / f"image-base-{recipe_key(_SUITE, *_PACKAGES, *_CUSTOMIZE)}"
    with locked(root):
        if not root.is_dir():
            bootstrap(root, _SUITE, _PACKAGES, variant="minbase", hooks=_CUSTOMIZE)
    return root


@contextmanager
def storage() -> Iterator[Mapping[str, str]]:
    """Environment variables with temporary folders for buildah."""
    folder = Path(tempfile.mkdtemp(prefix="image-rig-"))
    config = folder / "storage.conf"
    config.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    try:
        yield {
            "CONTAINERS_STORAGE_CONF": str(config),
            # The others need a runtime and capabilities that a container of CI may not have.
            "BUILDAH_ISOLATION": "chroot",
            "ENGINE": "buildah",
        }
    finally:
        shutil.rmtree(folder)


@contextmanager
def _pip() -> Iterator[Mapping[str, str]]:
    """This machine's own configuration of pip, whichever files and variables it comes from."""
    pip = (sys.executable, "-m", "pip", "config", "list")
    told_by_pip = subprocess.run(pip, check=True, capture_output=True, text=True).stdout
    settings: dict[str, str] = {}
    for line in told_by_pip.splitlines():
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = value.strip("'\"")
    # Paths mean nothing in the build; the authority goes there as a file of its own.
    cert = settings.pop("cert", "")
    settings.pop("find-links", None)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
        config.write("[global]\n" + "".join(f"{key} = {it}\n" for key, it in settings.items()))
        config.flush()
        yield {"PIP_CONFIG_FILE": config.name, **({"PIP_CERT": cert} if cert else {})}


def _forget_old() -> None:
    archives = cache_directory().glob("image-*.tar")
    for old in sorted(archives, key=lambda it: it.stat().st_mtime)[:-_KEPT]:
        old.unlink()
