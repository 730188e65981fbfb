"""What a pod's lists of nodes cost: the names are made when they are needed, and those of a few
lists are kept.
"""

import pytest

from annotations import node_list
from annotations.node_list import MOST_NAMES, MOST_NAMES_BYTES, NodeListError, NodeNames
from tests.support.costs import measured
from tests.unit.annotations.pods import accepted, pod, the_problem

NAMES = ("n08", "n09", "n10", "gpu-1")


def test_names_are_those_that_were_written():
    names = accepted(pod({"excluded-nodes": "n[08-10],gpu-1,n09"})).excluded_nodes
    assert (tuple(names), len(names), "n09" in names, "n11" in names) == (NAMES, 4, True, False)


def test_last_brackets_run_fastest_and_a_name_counts_once():
    assert tuple(NodeNames("b,a,b")) == ("b", "a")
    assert tuple(NodeNames("r[1,3]n[1-2]")) == ("r1n1", "r1n2", "r3n1", "r3n2")


def test_lists_are_equal_that_name_the_same():
    assert NodeNames("n[1-2]") == NodeNames("n1,n2") != NodeNames("n[1-3]")
    assert len({NodeNames("n[1-2]"), NodeNames("n1,n2")}) == 1


def test_largest_list_is_kept_as_its_text():
    with measured() as cost:
        names = NodeNames(f"n[0001-{MOST_NAMES}]")
        node_list._expanded.cache_clear()
    assert len(names) == MOST_NAMES
    assert cost.kept_bytes < 1_000


def test_list_of_many_pods_is_expanded_once():
    text = f"n[0001-{MOST_NAMES}]"
    node_list._expanded.cache_clear()
    same = [NodeNames(text) for _ in range(100)]
    assert {len(names) for names in same} == {MOST_NAMES}
    assert node_list._expanded.cache_info().misses == 1


def test_names_of_a_few_lists_are_kept_and_no_more():
    for number in range(100):
        NodeNames(f"n{number}")
    kept = node_list._expanded.cache_info().currsize
    with measured() as cost:
        NodeNames(f"n[0001-{MOST_NAMES}]")
    assert kept * cost.kept_bytes < 8_000_000


@pytest.mark.parametrize(
    "text", [f"n[0-{MOST_NAMES}]", f"n[1-{MOST_NAMES}],x", "n" + "[1-4096]" * 100]
)
def test_more_names_are_refused_with_the_bound(text):
    with measured() as cost, pytest.raises(NodeListError, match=str(MOST_NAMES)):
        NodeNames(text)
    assert cost.peak_bytes < 2_000_000


def test_attack_of_one_kilobyte_costs_nothing_and_is_refused_in_words():
    """Two such annotations on five pods took 774 MiB."""
    value = f"{'a' * 1000}[1-4096]"
    with measured() as cost:
        problem = the_problem(pod({"required-nodes": value}))
    assert str(MOST_NAMES_BYTES) in problem.text
    assert (cost.peak_bytes < 2_000_000, cost.kept_bytes < 2_000) == (True, True)
