"""What Nodes say of a pod's wishes: looked into in turns, however long these are, and shared."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
import pytest

from scheduler.core.node_suitability import NodeFacts
from scheduler.facts.list_lengths import MOST_NODE_EXPRESSIONS, MOST_NODE_WORDS, excess
from scheduler.kube.wire import Pod
from scheduler.nodes.surveyor import PAUSE_SECONDS, SLICE_ITEMS
from slurmapi import SlurmUnreachable
from tests.support.costs import calls, calls_by_step
from tests.unit.service.test_requirements import ZONE, pod, served
from tests.unit.service.tiny_service import Service

# Thousands of Nodes and pods take seconds of CPU, and more where the cores have other work.
pytestmark = [pytest.mark.looptime, pytest.mark.timeout(300)]

Spec = dict[str, Any]
MANY: Final = 1000
# Items of a look at one Node of a pod without any wishes, and of another way to it.
ITEMS_EACH: Final = 20


@pytest.fixture
async def large(service: Service) -> Service:
    """So many Nodes that no template can be compared with them in one turn."""
    service.slurm.comments.clear()
    for number in range(MANY):
        name = f"k{number}"
        service.slurm.comments[name], service.slurm.allocated[name] = "", 0
        service.kube.set_node(name, labels={ZONE: "a", "rack": f"r{number % 50}"})
    await service.slurm_nodes._list()
    await asyncio.sleep(0)
    service.nodes.all_facts()
    return service


def affinity(*terms: Spec) -> Spec:
    required = {"nodeSelectorTerms": [{"matchExpressions": [it]} for it in terms]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


def longest(number: int = 0) -> Spec:
    """As much required node affinity as a pod may have, which no Node meets."""
    each = MOST_NODE_WORDS // MOST_NODE_EXPRESSIONS - 1
    return affinity(
        *(
            {
                "key": ZONE,
                "operator": "In",
                "values": [f"{number}-{it}-{value}" for value in range(each)],
            }
            for it in range(MOST_NODE_EXPRESSIONS)
        )
    )


def within(namespace: str, uid: str, **spec: Any) -> Pod:
    found = pod(f"{namespace}-{uid}", **spec)
    meta = msgspec.structs.replace(found.metadata, namespace=namespace)
    return msgspec.structs.replace(found, metadata=meta)


class Looks:
    """Counts the looks at Nodes that surveys take."""

    def __init__(self, service: Service) -> None:
        self.made = 0
        surveying = service.nodes.surveying

        def counting(complain: Any, *, items: int) -> Any:
            def counted(node: NodeFacts) -> Any:
                self.made += 1
                return complain(node)

            return surveying(counted, items=items)

        service.nodes.surveying = counting  # type: ignore[method-assign]


@pytest.mark.parametrize("spec", [{}, longest()], ids=["no wishes", "longest"])
async def test_look_at_a_pod_goes_through_no_list_of_all_nodes(large, spec):
    """Neither for a new template nor after any change of a Node."""
    large.kube._put(pod("uid-1", **spec))
    await asyncio.sleep(1)
    unit = large.newcomers.unit("uid-1")
    assert unit is not None
    looks = list[int]()
    for version in range(3):
        large.kube.set_node("k0", labels={ZONE: "a", "rack": f"another-{version}"})
        await asyncio.sleep(0)
        with calls() as made:
            large.gatherer.facts(unit)
        looks.append(made[0])
    # The first one also reads the template. A list of all Nodes would cost a call for each of them.
    first, *later = looks
    assert first < 2 * MANY
    assert max(later) < MANY


async def test_no_step_for_the_longest_wishes_takes_more_than_its_share(large):
    found = pod("uid-1", **longest())
    assert excess(found) is None
    steps = calls_by_step(large.fit._survey_again(large.fit._demands(found)))
    # An expression takes six calls: all of them of three Nodes, and what is said of these.
    assert sum(steps) > MANY * MOST_NODE_EXPRESSIONS
    assert max(steps) < 4 * MOST_NODE_EXPRESSIONS * 6


async def test_pod_of_the_longest_wishes_says_in_its_turn_that_no_node_fits(large):
    message = await served(large, pod("uid-1", **longest()))
    assert message.startswith(
        f"NoNodeFits: None of the {MANY} Kubernetes Nodes can take the pod"
    ), message
    assert large.fit.surveyor.largest <= SLICE_ITEMS + 1000


async def test_long_wishes_of_a_namespace_delay_pods_of_others_by_one_turn(large):
    for number in range(20):
        large.kube._put(within("hostile", str(number), **longest(number)))
    large.start()
    await asyncio.sleep(1)
    looks = Looks(large)
    large.kube._put(within("honest", "1"))
    async with asyncio.timeout(30):
        while not large.slurm.submissions:  # noqa: ASYNC110 - of a tiny Slurm
            await asyncio.sleep(PAUSE_SECONDS)
    # What was under way, its own, and one of the others' at most in between.
    assert looks.made <= 3 * MANY


async def test_wishes_of_all_tenants_together_have_a_budget(large):
    looks = Looks(large)
    for number in range(200):
        large.kube._put(within(f"ns-{number % 7}", str(number), nodeSelector={"rack": f"{number}"}))
    large.start()
    await asyncio.sleep(1)
    before = looks.made
    await asyncio.sleep(1)
    assert 0 < looks.made - before <= (1 / PAUSE_SECONDS) * (SLICE_ITEMS / ITEMS_EACH + 50)


async def test_pods_of_one_template_are_compared_once_whatever_their_namespaces(large):
    looks = Looks(large)
    for number in range(20):
        large.kube._put(within(f"ns-{number}", "1"))
    large.start()
    await asyncio.sleep(5)
    assert looks.made == MANY
    assert len(large.slurm.submissions) == 20


async def test_pod_that_no_node_fitted_is_served_once_one_does(large):
    """Also where the comparison takes longer than the look that a change of a Node brings about."""
    found = pod("uid-1", nodeSelector={"rack": "new"})
    assert (await served(large, found)).startswith("NoNodeFits")
    large.kube.set_node("k7", labels={ZONE: "a", "rack": "new"})
    await asyncio.sleep(5)
    (submission,) = large.slurm.submissions.values()
    assert "k7" not in submission.excluded_nodes
    assert len(submission.excluded_nodes) == MANY - 1


async def test_job_that_has_started_is_bound_without_a_comparison(large):
    """As after a restart, when no template is compared yet: the one Node is looked at."""
    found = pod("uid-1", **longest())
    assert large.fit.waits_since(found, holds_nodes=False) is not None
    assert large.fit.waits_since(found, holds_nodes=True) is None


async def test_what_was_found_before_slurm_told_its_nodes_submits_no_pod_that_fits_nowhere(large):
    large.slurm_nodes._listed = None
    large.nodes.mapping_changed()
    large.slurm.fail["nodes"].extend([SlurmUnreachable("connection refused")] * 3)
    message = await served(large, pod("uid-1", nodeSelector={"rack": "none"}))
    assert message.startswith("SlurmUnavailable")
    await asyncio.sleep(30)
    assert large.slurm.calls["submit"] == 0
    condition = large.kube.condition_of("uid-1")
    assert condition is not None
    assert condition.reason == "NoNodeFits"
