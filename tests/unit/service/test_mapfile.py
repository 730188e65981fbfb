"""The map file is read again, and a broken one changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.mapfile import MapFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.yaml"
    path.write_text("s1: k1\n")
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


async def test_change_is_taken_and_told_once(path: Path) -> None:
    file = MapFile(path)
    assert not await file.look()
    write(path, "s1: k2\n")
    assert await file.look()
    assert file.nodes == {"s1": "k2"}
    assert not await file.look()


@pytest.mark.parametrize("text", ["- no map", "s1: [", "s1: 7"])
async def test_file_that_breaks_leaves_what_it_said_before(path: Path, text: str) -> None:
    file = MapFile(path)
    write(path, text)
    assert not await file.look()
    assert file.nodes == {"s1": "k1"}
    write(path, "")
    assert await file.look()
    assert file.nodes == {}


async def test_file_that_is_gone_leaves_what_it_said_before(path: Path) -> None:
    file = MapFile(path)
    remove(path)
    assert not await file.look()
    assert file.nodes == {"s1": "k1"}
