"""A file is read again when it may have changed, and not before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from groundwork.files import Signature, read_at_rest, read_if_changed
from tests.support.at_rest import write_at_rest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    write_at_rest(path, "first")
    return path


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
    write_at_rest(path, "second", age_seconds=30.0)
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
    write_at_rest(second, "other")
    link.unlink()
    link.symlink_to(second)
    assert changed(link, known) == "other"


def test_file_written_just_now_is_read_again_until_its_time_tells_the_next_change(path):
    write_at_rest(path, "half", age_seconds=-1.5)
    assert known_of(path) is None
    assert changed(path, known_of(path)) == "half"


def test_no_more_is_read_than_was_asked_for(path):
    found = read_if_changed(path, None, most_bytes=2)
    assert found is not None
    assert found[1] == b"fir"


def test_file_is_read_at_rest_once(path):
    found = read_at_rest(path, None, most_bytes=2)
    assert found is not None
    assert found[1] == b"fir"
    assert read_at_rest(path, found[0], most_bytes=2) is None


def test_file_that_somebody_is_writing_is_left_until_it_rests(path):
    write_at_rest(path, "half", age_seconds=1.0)
    assert read_at_rest(path, None, most_bytes=100) is None


def test_file_that_changes_while_it_is_read_is_left(path, monkeypatch):
    def stat(number: int) -> os.stat_result:
        found = os.stat(number)
        write_at_rest(path, "the second half, too", age_seconds=30.0)
        return found

    monkeypatch.setattr("groundwork.files.os.fstat", stat)
    assert read_at_rest(path, None, most_bytes=100) is None
