"""The lines of a log that another process is writing."""

from __future__ import annotations

from pathlib import Path

from tests.rigs.log_file import LogFile


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    assert log.size() == 0
    log.path.write_bytes(b"one\ntw")
    assert list(log.lines()) == [b"one\n"]
    half = log.size()
    with log.path.open("ab") as more:
        more.write(b"o\nthree\n")
    assert list(log.lines()) == [b"one\n", b"two\n", b"three\n"]
    assert list(log.lines(half)) == [b"three\n"]
    assert list(log.lines(len(b"one\n"))) == [b"two\n", b"three\n"]
    assert list(log.lines(log.size())) == []


def test_what_only_str_takes_for_an_end_is_none(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log")
    line = "next\x85 line\u2028 and\u2029 on\n".encode()
    log.path.write_bytes(line)
    assert list(log.lines()) == [line]
