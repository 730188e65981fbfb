"""A release takes no image of another version or commit, and nothing that is no image."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.archives import tar
from deploy.release import ReleaseError, check_image
from scheduler import __version__

_COMMIT: Final = "0123456789abcdef0123456789abcdef01234567"
_LABELS: Final = "org.opencontainers.image"
_RIGHT: Final = {"version": __version__, "revision": _COMMIT}


def _archive(path: Path, labels: dict[str, str], *, indexes: int = 1) -> Path:
    """An OCI archive with an image of these labels; `indexes` lie in one another."""
    named = {f"{_LABELS}.{name}": it for name, it in labels.items()}
    blobs = [json.dumps({"config": {"Labels": named or None}}).encode()]
    blobs.append(json.dumps({"config": _descriptor(blobs[-1])}).encode())
    for _ in range(indexes):
        blobs.append(json.dumps({"manifests": [_descriptor(blobs[-1])]}).encode())
    files = {f"blobs/sha256/{sha256(it).hexdigest()}": it for it in blobs[:-1]}
    path.write_bytes(tar({**files, "index.json": blobs[-1]}, 0))
    return path


def _descriptor(blob: bytes) -> dict[str, Any]:
    return {"digest": f"sha256:{sha256(blob).hexdigest()}", "size": len(blob)}


@pytest.mark.parametrize("indexes", [1, 2])
def test_image_of_this_version_and_commit_is_taken(tmp_path: Path, indexes: int) -> None:
    path = tmp_path / "image.tar"
    _archive(path, _RIGHT, indexes=indexes)
    check_image(path, revision=_COMMIT)


def test_commit_is_not_asked_for_where_changes_have_none(tmp_path: Path) -> None:
    path = _archive(tmp_path / "image.tar", _RIGHT | {"revision": "another"})
    check_image(path, revision=None)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"version": "0.0.1", "revision": _COMMIT}, "its version is 0.0.1, expected "),
        ({"version": __version__, "revision": "another"}, "its revision is another, expected "),
        ({"version": __version__}, "its revision is None, expected "),
        ({}, "its version is None, expected "),
    ],
)
def test_image_of_something_else_is_refused(
    tmp_path: Path, labels: dict[str, str], words: str
) -> None:
    path = _archive(tmp_path / "image.tar", labels)
    with pytest.raises(ReleaseError, match=words) as refusal:
        check_image(path, revision=_COMMIT)
    assert f"--image {path}" in str(refusal.value)
    assert "build it anew" in str(refusal.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive at all",
        {"index.json": b"[]"},
        {"index.json": b"{"},
        {"index.json": b'{"manifests": []}'},
        {"index.json": b'{"manifests": [{"digest": 5}]}'},
        {"index.json": b'{"config": {"digest": "sha256:00"}}'},
        {"manifest.json": b"[]"},
    ],
)
def test_what_is_no_image_is_refused(tmp_path: Path, content: bytes | dict[str, bytes]) -> None:
    path = tmp_path / "image.tar"
    path.write_bytes(content if isinstance(content, bytes) else tar(content, 0))
    with pytest.raises(ReleaseError, match="no image in an OCI archive"):
        check_image(path, revision=_COMMIT)


def test_indexes_in_one_another_have_an_end(tmp_path: Path) -> None:
    path = _archive(tmp_path / "image.tar", _RIGHT, indexes=9)
    with pytest.raises(ReleaseError, match="too many indexes"):
        check_image(path, revision=_COMMIT)
