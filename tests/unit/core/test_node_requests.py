"""What a pod takes of a Node, row by row; the real kube-scheduler is asked in the live tests."""

from __future__ import annotations

import pytest

from scheduler.core.node_requests import (
    ContainerRequests,
    allocatable,
    is_counted,
    is_extended,
    requested,
)
from scheduler.core.node_suitability import NodeFacts
from scheduler.core.resource_fit import short_of, shortage, too_small


def asked(restartable: bool = False, **requests: str) -> ContainerRequests:
    return ContainerRequests(requests, restartable=restartable)


def test_containers_are_added_up_and_each_sum_is_rounded_up():
    found = requested([asked(cpu="1.0001", memory="1"), asked(cpu="250m", memory="0.5")])
    assert dict(found) == {"cpu": 1251, "memory": 2}


def test_what_is_not_asked_for_is_not_in_it():
    assert requested([asked(cpu="0", memory="1Gi")]) == (("memory", 2**30),)


def test_init_container_counts_as_far_as_it_takes_more_than_the_containers():
    inits = [asked(cpu="3"), asked(cpu="1")]
    assert dict(requested([asked(cpu="2")], inits)) == {"cpu": 3000}


def test_sidecar_runs_beside_the_containers_and_the_init_containers_after_it():
    inits = [asked(cpu="4"), asked(restartable=True, cpu="1"), asked(cpu="4")]
    assert dict(requested([asked(cpu="2")], inits)) == {"cpu": 5000}
    assert dict(requested([asked(cpu="2")], [asked(restartable=True, cpu="1")])) == {"cpu": 3000}


def test_pod_level_requests_go_before_those_of_containers_and_overhead_comes_on_top():
    found = requested(
        [asked(cpu="2", memory="1Gi")], whole={"cpu": "1", "pods": "5"}, overhead={"cpu": "250m"}
    )
    assert dict(found) == {"cpu": 1250, "memory": 2**30}


def test_resized_container_counts_with_the_most_of_what_it_has_and_what_it_asks_for():
    resized = ContainerRequests({"cpu": "1"}, actuated={"cpu": "2"}, allocated={"cpu": "3"})
    assert dict(requested([resized])) == {"cpu": 3000}
    growing = ContainerRequests({"cpu": "4"}, actuated={"cpu": "2"}, allocated={"cpu": "2"})
    assert dict(requested([growing])) == {"cpu": 4000}
    assert dict(requested([growing], infeasible=True)) == {"cpu": 2000}


@pytest.mark.parametrize(
    ("name", "counted", "extended"),
    [
        ("cpu", True, False),
        ("ephemeral-storage", True, False),
        ("hugepages-2Mi", True, False),
        ("example.com/fpga", True, True),
        ("kubernetes.io/thing", True, False),
        ("storage", False, False),
    ],
)
def test_which_resources_are_weighed(name, counted, extended):
    assert is_counted(name) is counted
    assert is_extended(name) is extended


THERE = allocatable({"cpu": "64", "memory": "4Gi", "pods": "2"})


def test_pod_fits_to_the_last_thousandth_of_a_cpu():
    assert short_of((("cpu", 2000),), there=THERE, used={"cpu": 62000}, pods=1) is None
    assert short_of((("cpu", 2001),), there=THERE, used={"cpu": 62000}, pods=1) == "cpu"


def test_number_of_pods_counts_whatever_they_ask_for():
    assert short_of((), there=THERE, used={}, pods=1) is None
    assert short_of((), there=THERE, used={}, pods=2) == "pods"


def test_resource_that_the_node_has_not_is_lacking():
    assert short_of((("example.com/fpga", 1),), there=THERE, used={}, pods=0) == "example.com/fpga"


def test_shortage_says_by_how_much_and_who_has_the_rest():
    assert shortage("cpu", asked=8000, has=64000, used=62000, foreign=62000) == (
        "has 2 of 64 CPUs free, the pod requests 8; 62 are requested by pods of other schedulers"
    )
    assert shortage("memory", asked=2**31, has=2**32, used=3 * 2**30, leaving=2**30) == (
        "has 1Gi of 4Gi memory free, the pod requests 2Gi; 1Gi is requested by pods that are being "
        "deleted"
    )
    assert shortage("pods", asked=1, has=110, used=110, foreign=100) == (
        "has 0 of 110 pods free, the pod requests 1; 100 are requested by pods of other schedulers"
    )


def test_node_that_is_too_small_is_known_before_anything_runs_there():
    there = allocatable({"cpu": "4", "pods": "110"})
    node = NodeFacts(name="n1", labels={}, allocatable=there)
    assert str(too_small((("cpu", 8000),), node)) == "has 4 CPUs, the pod requests 8"
    assert too_small((("cpu", 4000),), node) is None
    silent = NodeFacts(name="n1", labels={})
    assert too_small((("cpu", 8000),), silent) is None
