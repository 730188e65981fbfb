"""The map file is read again, and a broken one changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.nodes.map_file import MapFile, MapFileError
from tests.support.at_rest import write_at_rest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.yaml"
    write_at_rest(path, "s1: k1\n", age_seconds=90.0)
    return path


def remove(path: Path) -> None:
    path.unlink()


async def test_change_is_taken_and_told_once(path: Path) -> None:
    file = MapFile(path)
    assert not await file.look()
    write_at_rest(path, "s1: k2\n")
    assert await file.look()
    assert file.nodes == {"s1": "k2"}
    assert not await file.look()


@pytest.mark.parametrize("text", ["", "- no map", "s1: [", "s1: 7", "s1: k2\ns1: k3\n"])
async def test_file_that_breaks_leaves_what_it_said_before(path: Path, text: str) -> None:
    file = MapFile(path)
    write_at_rest(path, text)
    assert not await file.look()
    assert file.nodes == {"s1": "k1"}
    write_at_rest(path, "{}")
    assert await file.look()
    assert file.nodes == {}


async def test_map_that_somebody_is_writing_is_left_until_it_rests(path: Path) -> None:
    """The text of half a map may be a map, too: here `s1` would be behind a Node `k`."""
    file = MapFile(path)
    write_at_rest(path, "s1: k", age_seconds=0.0)
    assert not await file.look()
    write_at_rest(path, "s1: k1\ns2: k2\n")
    assert await file.look()
    assert file.nodes == {"s1": "k1", "s2": "k2"}


def test_node_that_is_mapped_twice_is_refused_with_its_line(path: Path) -> None:
    write_at_rest(path, "s1: k1\ns2: k2\ns1: k3\n")
    with pytest.raises(MapFileError, match=r"line 3: 's1' is given twice"):
        MapFile(path)


async def test_file_that_is_gone_leaves_what_it_said_before(path: Path) -> None:
    file = MapFile(path)
    remove(path)
    assert not await file.look()
    assert file.nodes == {"s1": "k1"}
