"""The command lines of the benchmarks: wrong numbers are told, and an end by a signal tidies up."""

from __future__ import annotations

import signal
from pathlib import Path
from types import ModuleType

import pytest

import benchmarks.endings
import benchmarks.failover
import benchmarks.leftovers
import benchmarks.tenants.__main__ as tenants


@pytest.mark.parametrize(
    ("module", "words", "told"),
    [
        (benchmarks.failover, "--rounds=0", "--rounds is 0: expected 1 to 1000"),
        (benchmarks.failover, "--only=nope", "--only is 'nope': expected the beginning of one of"),
        (benchmarks.endings, "--rounds=0", "--rounds is 0: expected 1 to 1000"),
        (benchmarks.leftovers, "--jobs=2", "--jobs is 2: expected 3 to 1000000"),
        (tenants, "--seconds=-1", "--seconds is -1: expected 1 to 86400"),
        (tenants, "--seconds=nan", "--seconds is nan: expected 1 to 86400"),
        (tenants, "--silent=-1", "--silent is -1: expected 0 to 100000"),
        (tenants, f"--json={Path('/')}", "--json is /: this is a directory"),
    ],
    ids=str,
)
def test_wrong_number_is_told_before_anything_starts(
    module: ModuleType, words: str, told: str, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmark", words])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "module", [benchmarks.endings, benchmarks.failover, benchmarks.leftovers, tenants], ids=str
)
def test_sigterm_ends_it_through_the_places_that_end_its_servers(
    module: ModuleType, monkeypatch
) -> None:
    def work(_args: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("sys.argv", ["benchmark"])
    monkeypatch.setattr(module, "_work", work)
    try:
        assert module.main() == 130
    finally:
        signal.signal(signal.SIGTERM, before)
