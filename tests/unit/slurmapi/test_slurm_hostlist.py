"""Hostlist expressions are read as Slurm writes them, and anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.sandbox.slurm.hostlist import fold
from slurmapi import HostlistError, expand_hostlist
from slurmapi.hostlist import MAX_BYTES, MAX_HOSTS, Hosts
from tests.support.costs import measured

HOST = st.from_regex(r"[a-z]{1,3}[0-9]{0,4}(-ib[0-9]?)?", fullmatch=True)
NUMBERED = st.builds(
    lambda prefix, first, count, width: [
        f"{prefix}{n:0{width}d}" for n in range(first, first + count)
    ],
    st.sampled_from(["n", "gpu-", "a1b"]),
    st.integers(0, 1200),
    st.integers(1, 30),
    st.integers(1, 5),
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("e[0003-0005]", ("e0003", "e0004", "e0005")),
        ("n[08-10]", ("n08", "n09", "n10")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("n[1-2,7],gpu01", ("n1", "n2", "n7", "gpu01")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("n[1-2]-ib", ("n1-ib", "n2-ib")),
        ("b,a", ("b", "a")),
    ],
)
def test_expands_in_rank_order(text: str, names: tuple[str, ...]) -> None:
    assert expand_hostlist(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "n[1-3",
        "n1-3]",
        "n[]",
        "n[3-1]",
        "n[a-b]",
        "n[1-]",
        "n[-1]",
        "a,,b",
        ",a",
        "a,",
        "n[1 2]",
        " a",
        "n[1[2]]",
    ],
)
def test_refuses_what_is_no_hostlist(text: str) -> None:
    with pytest.raises(HostlistError):
        expand_hostlist(text)


@pytest.mark.parametrize("text", ["n[0-999999999]", "a[1-1000]b[1-1000]", "n[1-60000],m[1-60000]"])
def test_refuses_more_hosts_than_the_bound(text: str) -> None:
    with pytest.raises(HostlistError, match=str(MAX_HOSTS)[:2]):
        expand_hostlist(text)


@given(st.lists(st.one_of(HOST.map(lambda name: [name]), NUMBERED), max_size=12))
def test_what_slurm_writes_of_names_expands_to_them(groups: list[list[str]]) -> None:
    names = [name for group in groups for name in group]
    assert list(expand_hostlist(fold(names))) == names


@given(st.text(alphabet="n01,[]-x ", max_size=30))
def test_any_text_expands_or_is_refused(text: str) -> None:
    try:
        names = expand_hostlist(text)
    except HostlistError:
        return
    assert expand_hostlist(",".join(names)) == names


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1000 + "[1-65000]",
        "n" + "[1-90000]" * 100,
        "[0-99999]" + ",[0-99999]" * 100,
        "n[1-999999999999999999]",
    ],
)
def test_what_stands_for_too_much_is_refused_before_a_name_is_made(text: str) -> None:
    with measured() as cost, pytest.raises(HostlistError):
        expand_hostlist(text)
    # Other threads of the test process allocate, too; the names would take gigabytes.
    assert cost.peak_bytes < 2_000_000


def test_names_of_too_many_bytes_are_refused_with_the_bound() -> None:
    with pytest.raises(HostlistError, match=f"exceed {MAX_BYTES} bytes"):
        expand_hostlist("a" * 1000 + "[1-5000]")


def test_hosts_are_kept_folded() -> None:
    with measured() as cost:
        hosts = Hosts("node-with-a-long-name-[00001-50000]")
    assert (len(hosts), "node-with-a-long-name-49999" in hosts) == (50_000, True)
    assert cost.kept_bytes < 2_000
