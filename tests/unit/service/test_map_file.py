"""The map file is read again, and a broken one changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.nodes.map_file import MapFile, MapFileError


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


@pytest.mark.parametrize("text", ["- no map", "s1: [", "s1: 7", "s1: k2\ns1: k3\n"])
async def test_file_that_breaks_leaves_what_it_said_before(path: Path, text: str) -> None:
    file = MapFile(path)
    write(path, text)
    assert not await file.look()
    assert file.nodes == {"s1": "k1"}
    write(path, "")
    assert await file.look()
    assert file.nodes == {}


def test_node_that_is_mapped_twice_is_refused_with_its_line(path: Path) -> None:
    write(path, "s1: k1\ns2: k2\ns1: k3\n")
    with pytest.raises(MapFileError, match=r"line 3: 's1' is given twice"):
        MapFile(path)


async def test_file_that_is_gone_leaves_what_it_said_before(path: Path) -> None:
    file = MapFile(path)
    remove(path)
    assert not await file.look()
    assert file.nodes == {"s1": "k1"}
