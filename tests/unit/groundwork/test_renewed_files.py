"""A file is read again when it may have changed, and not before."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from groundwork.files import Signature, read_if_changed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    write(path, "first")
    return path


def write(path: Path, text: str, *, age_seconds: float = 60.0) -> None:
    path.write_text(text)
    at = time.time() - age_seconds
    os.utime(path, (at, at))


def changed(path: Path, known: Signature | None) -> str | None:
    found = read_if_changed(path, known, most_bytes=100)
    return None if found is None else found[1].decode()


def known_of(path: Path) -> Signature | None:
    found = read_if_changed(path, None, most_bytes=100)
    assert found is not None
    return found[0]


def test_file_that_stays_is_read_once(path):
    known = known_of(path)
    assert known is not None
    assert changed(path, known) is None


def test_file_that_is_written_again_is_read_again(path):
    known = known_of(path)
    write(path, "second", age_seconds=30.0)
    assert changed(path, known) == "second"


def test_file_that_is_replaced_by_one_of_the_same_time_and_size_is_read_again(path, tmp_path):
    known, times = known_of(path), path.stat()
    other = tmp_path / "other"
    other.write_text("FIRST")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)
    assert changed(path, known) == "FIRST"


def test_link_that_leads_elsewhere_is_followed(path, tmp_path):
    """As a ConfigMap is renewed."""
    link = tmp_path / "link"
    link.symlink_to(path)
    known = known_of(link)
    second = tmp_path / "second"
    write(second, "other")
    link.unlink()
    link.symlink_to(second)
    assert changed(link, known) == "other"


def test_file_written_just_now_is_read_again_until_its_time_tells_the_next_change(path):
    write(path, "half", age_seconds=-1.5)
    assert known_of(path) is None
    assert changed(path, known_of(path)) == "half"


def test_no_more_is_read_than_was_asked_for(path):
    found = read_if_changed(path, None, most_bytes=2)
    assert found is not None
    assert found[1] == b"fir"
