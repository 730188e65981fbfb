"""What is computed from a pod is kept while the pod is the same object, and of few pods."""

from __future__ import annotations

import weakref
from itertools import pairwise
from typing import Any

import pytest

from scheduler.kube.of_pod import MOST_KEPT, OfPod
from scheduler.kube.wire import ObjectMeta, Pod


class Counted:
    """Computes, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, pod: Pod) -> str:
        self.times += 1
        return pod.metadata.name


class Watched(str):
    """A text that shows whether it is still in memory."""

    __slots__ = ("__weakref__",)


def pod(uid: str = "uid", name: Any = "train") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="ns", uid=uid))


def test_same_pod_is_computed_once():
    compute = Counted()
    of, one = OfPod(compute), pod()
    assert [of(one) for _ in range(3)] == ["train"] * 3
    assert compute.times == 1


def test_pod_that_was_replaced_is_computed_anew_even_if_it_is_equal():
    compute = Counted()
    of = OfPod(compute)
    versions = [pod(name="a"), pod(name="b"), pod(name="b")]
    assert [of(it) for it in versions] == ["a", "b", "b"]
    assert all(first is not second for first, second in pairwise(versions))
    assert compute.times == 3


@pytest.mark.parametrize(
    "let_go",
    [lambda of: of(pod()), lambda of: of.forget("uid")],
    ids=["another version came", "it was forgotten"],
)
def test_former_version_of_a_pod_is_not_kept(let_go):
    of = OfPod(lambda it: it.metadata.uid)
    name = Watched("train")
    gone = weakref.ref(name)
    of(pod(name=name))
    del name
    assert gone() is not None
    let_go(of)
    assert gone() is None


def test_results_of_few_pods_are_kept_and_the_oldest_goes_first():
    compute = Counted()
    of, pods = OfPod(compute), [pod(str(number)) for number in range(MOST_KEPT + 1)]
    for it in pods:
        of(it)
    assert len(of) == MOST_KEPT
    of(pods[1])
    assert compute.times == len(pods)
    of(pods[0])
    assert compute.times == len(pods) + 1


def test_owner_may_say_how_many_are_kept_and_that_one_is_gone():
    of = OfPod(Counted(), most=MOST_KEPT + 1)
    pods = [pod(str(number)) for number in range(MOST_KEPT + 2)]
    for it in pods:
        of(it)
    assert len(of) == MOST_KEPT + 1
    of.forget(pods[1].metadata.uid)
    of.forget("unknown")
    assert len(of) == MOST_KEPT
