"""Mermaid, which draws the pictures of the documentation, from npm; kept in the user's cache."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Final

from tests.rigs.debian import need_program
from tests.rigs.prerequisites import PrerequisiteError, announced, cache_directory, locked, run

VERSION: Final = "11.17.2"
MODULE: Final = "mermaid.esm.min.mjs"
_INTEGRITY: Final = (
    "sha512-V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47l"
    "AbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
)


def ensure() -> Path:
    """A folder with Mermaid's module and the parts that it loads (4 MB). Raises PrerequisiteError.

    npm compares the download with the registry's hash, and we compare that hash with _INTEGRITY.
    """
    folder = cache_directory() / f"mermaid-{VERSION}"
    with locked(folder):
        if not folder.is_dir():
            need_program("npm")
            with announced(f"fetching mermaid {VERSION}"):
                _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    printed = run(("npm", "pack", f"mermaid@{VERSION}", "--json"), directory=partial)
    packed = json.loads(printed)[0]
    if packed["integrity"] != _INTEGRITY:
        raise PrerequisiteError(f"mermaid {VERSION} from npm is not the one expected: {packed}")
    archive = partial / packed["filename"]
    with tarfile.open(archive) as packages:
        for member in packages:
            path = Path(member.name).relative_to("package")
            if path.suffix == ".mjs" and path.is_relative_to("dist/chunks/mermaid.esm.min"):
                _unpack(packages, member, partial / path.relative_to("dist"))
            elif path.name in (MODULE, "LICENSE"):
                _unpack(packages, member, partial / path.name)
    archive.unlink()
    partial.rename(folder)


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path) -> None:
    content = archive.extractfile(member)
    if content is None:
        raise PrerequisiteError(f"{member.name} of mermaid is no file")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(content.read())
