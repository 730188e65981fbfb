"""What a decision costs: `decide` over a mix of units, and the making of its facts.

`python -m benchmarks.decide --units 2000`. Compare ratios between machines, not times.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, cast

from annotations import JobRequest, Problem
from benchmarks import payloads
from benchmarks.decode import Pace, measure, show
from scheduler.config.settings import Settings
from scheduler.core.decide import decide
from scheduler.core.facts import (
    JobFacts,
    MissingPod,
    NoJob,
    PodFacts,
    PodStage,
    Tracked,
    UnitFacts,
    Vanished,
)
from scheduler.core.node_suitability import Place
from scheduler.core.owner_tag import SINGLE, Owner, OwnerTag
from scheduler.core.tagged import TaggedJob
from scheduler.facts.gather import Gatherer
from scheduler.kube.api import KubeApi
from scheduler.kube.recorder import Recorder
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import NODES, PODS, Node, Pod
from scheduler.observe.metrics import Metrics
from scheduler.service.known_cluster import KnownCluster
from scheduler.service.memory import Memory
from scheduler.service.outside import Outside
from scheduler.service.parts import Parts
from scheduler.service.stores import Stores
from scheduler.slurm.look_turns import LookTurns
from scheduler.slurm.pulse import due
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState, JobState, SlurmClient, StaticToken

_NOW: Final = 1000.0
_OWNER: Final = Owner("3f6c0000-8a1e-4b7d-9c52-000000000000", "slurm-scheduler")
_REQUEST: Final = JobRequest(cpus=8, memory_mib=65536, gpus=2, gres="gres/gpu:2")
_PROBLEM: Final = Problem("cpu", "none", "a request above 0")
_RUNNING: Final = JobState(BaseState.RUNNING)
_PENDING: Final = JobState(BaseState.PENDING)


def _record(number: int, state: JobState, *, uid: str) -> TaggedJob:
    """The job of a unit, with our owner tag, as after a full look."""
    name = f"pod-{number}"
    tag = OwnerTag(SINGLE, _OWNER.cluster, _OWNER.scheduler, "default", name, (uid,))
    return TaggedJob(
        job_id=number + 1,
        name=f"default.{name}.{uid[:8]}",
        state=state,
        state_reason="Resources" if state is _PENDING else "None",
        nodes=() if state is _PENDING else (_node(number),),
        admin_comment=tag.encode(),
        partition="main",
        priority=4294000000 - number,
    )


def _node(number: int) -> str:
    return f"node-{number % 200:03d}"


class Sample:
    """The inputs for the facts of a unit, made before the clock runs."""

    __slots__ = ("job", "number", "request", "stage")

    def __init__(self, number: int, stage: PodStage | None, job: JobFacts) -> None:
        self.number = number
        self.stage = stage
        self.job = job
        self.request: JobRequest | tuple[Problem, ...] = _REQUEST

    def facts(self) -> UnitFacts:
        """Only construct the facts, without a store or a parser."""
        number = self.number
        pod = () if self.stage is None else (self._pod(self.stage),)
        held = isinstance(self.job, Tracked) and self.job.state is _RUNNING
        return UnitFacts(
            key=f"uid-{number}",
            owner=_OWNER,
            pods=pod,
            missing=() if pod else (MissingPod(uid=f"uid-{number}", name="pod"),),
            request=self.request,
            job=self.job,
            nodes={_node(number): Place(_node(number))} if held else {},
        )

    def _pod(self, stage: PodStage) -> PodFacts:
        bound = stage in {PodStage.BOUND, PodStage.DEPARTING, PodStage.FINISHED}
        return PodFacts(
            uid=f"uid-{self.number}",
            namespace="default",
            name=f"pod-{self.number}",
            stage=stage,
            node=_node(self.number) if bound else "",
            placed_by_us=bound,
        )


def _tracked(number: int, state: JobState) -> Tracked:
    record = _record(number, state, uid=f"uid-{number}")
    return Tracked(job_id=number + 1, state=state, record=record, record_at=_NOW - 0.1)


def _refused(number: int) -> Sample:
    sample = Sample(number, PodStage.WAITING, NoJob())
    sample.request = (_PROBLEM,)
    return sample


# A busy cluster: of twenty units ten run, four wait in Slurm's queue, and one is in each other way.
_KINDS: Final[Sequence[tuple[str, int, Callable[[int], Sample]]]] = (
    ("bound", 10, lambda n: Sample(n, PodStage.BOUND, _tracked(n, _RUNNING))),
    ("waiting, job pending", 4, lambda n: Sample(n, PodStage.WAITING, _tracked(n, _PENDING))),
    ("waiting, no job yet", 1, lambda n: Sample(n, PodStage.WAITING, NoJob())),
    ("allocated", 1, lambda n: Sample(n, PodStage.WAITING, _tracked(n, _RUNNING))),
    ("departing", 1, lambda n: Sample(n, PodStage.DEPARTING, _tracked(n, _RUNNING))),
    ("gone", 1, lambda n: Sample(n, None, _tracked(n, _RUNNING))),
    ("vanished job", 1, lambda n: Sample(n, PodStage.BOUND, Vanished(n + 1, confirmed=False))),
    ("rejected", 1, _refused),
)


def mix(units: int) -> list[Sample]:
    """`units` units in the shares of the table above, with the kinds in turn."""
    makers = [make for _, share, make in _KINDS for _ in range(share)]
    return [makers[number % len(makers)](number) for number in range(units)]


def by_kind(units: int) -> list[Pace]:
    """Each kind by itself."""
    paces = []
    for label, _, make in _KINDS:
        facts = [make(number).facts() for number in range(units)]
        paces.append(_deciding(f"{label}", facts))
    return paces


def _deciding(label: str, facts: Sequence[UnitFacts]) -> Pace:
    return measure(label, len(facts), lambda: [decide(it, _NOW) for it in facts])


def whole_passes(units: int) -> list[Pace]:
    """Whole passes of the controller from its caches, in a steady state: all pods run."""
    gatherer, found = _cluster(units)
    return [
        measure(
            "gather and decide, from the caches",
            units,
            lambda: [decide(gatherer.facts(unit), _NOW) for unit in found],
        ),
        measure("gather alone", units, lambda: [gatherer.facts(unit) for unit in found]),
    ]


def _cluster(count: int) -> tuple[Gatherer, list[Unit]]:
    pods, nodes = Joined[Pod](), Store[Node]()
    listed = PODS.page(payloads.pod_list(count)).items or ()
    uids = [pod.metadata.uid for pod in listed]
    pods.new().replace(listed)
    nodes.replace(NODES.page(payloads.node_list(200)).items or ())
    outside = _outside()
    memory = Memory(outside, pods)
    known = KnownCluster(outside, memory, Stores(nodes=nodes))
    parts = Parts(outside, memory, known.caches(doubt_pods=lambda: None, mapped=_mapped))
    parts.census.completed_at = _NOW
    gatherer = parts.gatherer
    found = [unit for uid in uids if (unit := parts.newcomers.unit(uid))]
    for number, unit in enumerate(found):
        unit.job = Placeholder(
            number + 1,
            state=_RUNNING,
            record=_record(number, _RUNNING, uid=unit.key),
            record_at=_NOW - 0.1,
            proven=True,
        )
    return gatherer, found


def _outside() -> Outside:
    """Stand-ins for both servers, which are never asked: only the caches are read."""
    return Outside(
        settings=Settings.model_validate({}),
        kube=cast("KubeApi", None),
        slurm=SlurmClient("http://127.0.0.1:1", token=StaticToken("unused")),
        recorder=cast("Recorder", None),
        owner=_OWNER,
        metrics=Metrics(),
        clock=lambda: _NOW,
        leads=lambda: True,
        warn=lambda _reason, _message: None,
        on_pulse=lambda _error: None,
    )


async def _mapped() -> None:
    """A map of nodes that is complete from the start."""


def choosing(units: int) -> list[Pace]:
    """The choice that a pulse makes before its full looks: of all units, the few whose last look is
    the oldest.
    """
    _, found = _cluster(units)
    known, turns = Units(), LookTurns()
    for number, unit in enumerate(found):
        known.add(unit)
        if unit.job is not None:
            unit.job.looked_at = float(number * 7919 % units)
    with asyncio.Runner() as runner:

        def chosen(most: int) -> object:
            return runner.run(due(known, _any, most=most, turns=turns, now=_NOW))

        return [
            measure("all sorted, then cut", units, lambda: _sorted(found)[:1]),
            measure("one look to spend", units, lambda: chosen(1)),
            measure("a second saved up, 16", units, lambda: chosen(16)),
            measure("none to spend", units, lambda: chosen(0)),
        ]


def _sorted(units: Sequence[Unit]) -> list[Unit]:
    kept = [unit for unit in units if unit.job is not None and _any(unit, unit.job, _NOW)]
    return sorted(kept, key=lambda unit: unit.job.looked_at if unit.job else 0.0)


def _any(_unit: Unit, _job: Placeholder, _now: float) -> bool:
    return True


def run(units: int) -> None:
    """All measurements."""
    samples = mix(units)
    facts = [sample.facts() for sample in samples]
    print(f"decide: a mix of {units} units")
    reference = measure("the facts alone, constructed", units, lambda: [s.facts() for s in samples])
    mixed = _deciding("decide", facts)
    show([reference, mixed])
    print("decide, each kind by itself")
    for pace in by_kind(units):
        print(pace.line(reference))
    print("a whole pass of the controller, all units bound and running")
    passes = whole_passes(units)
    for pace in passes:
        print(pace.line(reference))
    print(f"  1000 units: decide {_of_thousand(mixed)}, a whole pass {_of_thousand(passes[0])}")
    print("which jobs a pulse looks at in full, of all units")
    show(choosing(units))
    print("actions of the mix: " + ", ".join(f"{n} {name}" for name, n in _actions(facts)))


def _of_thousand(pace: Pace) -> str:
    return f"{1e6 / pace.per_second:.1f} ms"


def _actions(facts: Sequence[UnitFacts]) -> list[tuple[str, int]]:
    """How often each action was decided, so that a reader sees what the mix contains."""
    found = Counter(type(action).__name__ for it in facts for action in decide(it, _NOW))
    return found.most_common()


def main() -> None:
    """Read the flags and run."""
    parser = argparse.ArgumentParser(prog="benchmarks.decide", description=__doc__)
    parser.add_argument("--units", type=int, default=20_000, help="default 20000")
    units: int = parser.parse_args().units
    if units < 1:
        parser.error(f"--units is {units}: expected at least 1")
    run(units)


if __name__ == "__main__":
    main()
