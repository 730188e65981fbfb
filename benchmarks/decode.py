"""How fast answers become objects: our structs, plain dicts, generated models, in one run.

`python -m benchmarks.decode --pods 10000`. Compare ratios between machines, not times.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from kubernetes_asyncio.client import ApiClient
from kubernetes_asyncio.client.rest import RESTResponse

from benchmarks import payloads
from scheduler.kube.wire import PODS
from slurmapi.answers import JobsAnswer, StateReader, StatesAnswer
from slurmapi.http1 import Response
from slurmapi.wire import settled

_REPEATS = 3
# Generated models are slow, so only a sample of the pods is decoded with them.
_MODEL_PODS = 300
_MEMORY_PODS = 500
_OK: Any = SimpleNamespace(status=200, reason="OK")


@dataclass(frozen=True, slots=True)
class Pace:
    """One way of decoding, in items per second."""

    label: str
    items: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.items / self.seconds

    def line(self, reference: Pace) -> str:
        ratio = reference.per_second / self.per_second
        return (
            f"  {self.label:<34}{self.per_second:>12,.0f}/s {self.items:>8} items   x {ratio:7.2f}"
        )


def measure(label: str, items: int, work: Callable[[], object]) -> Pace:
    """The best of a few runs; other work on the machine only makes runs slower."""
    return Pace(label, items, min(_seconds(work) for _ in range(_REPEATS)))


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    kept = work()
    took = time.perf_counter() - start
    del kept
    return took


def kept_bytes(work: Callable[[], object], items: int) -> int:
    """Bytes that stay allocated per item while the result is held."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = work()
        size, _ = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return size // items


def pod_lists(pods: int, api: ApiClient) -> list[Pace]:
    """A whole list in one answer, as at the start of a reflector."""
    body, sample = payloads.pod_list(pods), min(pods, _MODEL_PODS)
    few = payloads.pod_list(sample)
    print(f"pod list: {pods} pods, {len(body) / pods:.0f} bytes each, {len(body) / 1e6:.1f} MB")
    return [
        measure("scheduler.kube.wire", pods, lambda: PODS.page(body)),
        measure("json.loads, dicts", pods, lambda: json.loads(body)),
        measure(
            "kubernetes_asyncio models (sample)", sample, lambda: _models(api, few, "V1PodList")
        ),
    ]


def watch_events(pods: int, api: ApiClient) -> list[Pace]:
    """Events of a watch: one per line, each with the whole pod."""
    lines = payloads.watch_lines(pods)
    few = lines[:_MODEL_PODS]
    print("watch events")
    return [
        measure("scheduler.kube.wire", pods, lambda: [PODS.event(line) for line in lines]),
        measure("json.loads, dicts", pods, lambda: [json.loads(line) for line in lines]),
        measure(
            "kubernetes_asyncio models (sample)",
            len(few),
            lambda: [_models(api, _object_of(line), "V1Pod") for line in few],
        ),
    ]


def job_states(jobs: int) -> list[Pace]:
    """The states of all our jobs, in answers of 1000 jobs."""
    answers = [Response(status=200, headers={}, body=body) for body in payloads.job_states(jobs)]
    print(f"job states: {jobs} jobs in {len(answers)} answers")
    return [
        measure("slurmapi.wire, typed states", jobs, lambda: [_states(one) for one in answers]),
        measure("json.loads, words by id", jobs, lambda: [_words(one) for one in answers]),
    ]


def job_looks(nodes: int, looks: int) -> list[Pace]:
    """Looks at a job of so many nodes. With its cores, as for tasks that Slurm has dealt out."""
    answers = {
        label: Response(status=200, headers={}, body=payloads.job_look(nodes, cores=cores))
        for label, cores in (("slurmapi.wire", False), ("slurmapi.wire, with cores", True))
    }
    sizes = ", ".join(f"{len(answer.body) / 1e3:.0f} kB" for answer in answers.values())
    print(f"looks at a job of {nodes} nodes: {sizes}")
    return [
        measure(label, looks, partial(_jobs, answer, looks)) for label, answer in answers.items()
    ]


def memory(pods: int, api: ApiClient) -> None:
    """What a cache of pods costs."""
    count = min(pods, _MEMORY_PODS)
    body = payloads.pod_list(count)
    ways: dict[str, Callable[[], object]] = {
        "scheduler.kube.wire": lambda: PODS.page(body),
        "json.loads, dicts": lambda: json.loads(body),
        "kubernetes_asyncio models": lambda: _models(api, body, "V1PodList"),
    }
    sizes = {label: kept_bytes(work, count) for label, work in ways.items()}
    ours = sizes["scheduler.kube.wire"]
    print(f"memory kept per pod ({count} pods)")
    for label, size in sizes.items():
        print(f"  {label:<34}{size:>12,} B {'':>14}   x {size / ours:7.2f}")


def _models(api: ApiClient, body: bytes, kind: str) -> object:
    return api.deserialize(RESTResponse(_OK, body), kind)


def _object_of(line: bytes) -> bytes:
    """The pod's own JSON within an event, cut out without decoding it."""
    return line[line.index(b'"object":') + len(b'"object":') : -1]


def _states(answer: Response) -> object:
    reader = StateReader()
    reader.read(settled(answer, StatesAnswer).listed)
    return reader.states()


def _jobs(answer: Response, count: int) -> object:
    return [settled(answer, JobsAnswer).job(1) for _ in range(count)]


def _words(answer: Response) -> object:
    return {int(job["job_id"]): tuple(job["state"]) for job in json.loads(answer.body)["jobs"]}


def show(paces: Sequence[Pace]) -> None:
    """Print one line each; the factor is its time divided by that of the first."""
    for pace in paces:
        print(pace.line(paces[0]))


async def run(pods: int) -> None:
    """All measurements; in an event loop only because ApiClient needs one."""
    async with ApiClient() as api:
        show(pod_lists(pods, api))
        show(watch_events(pods, api))
        show(job_states(pods))
        show(job_looks(1, pods))
        show(job_looks(200, max(1, pods // 100)))
        memory(pods, api)


def main() -> None:
    """Read the flags and run."""
    parser = argparse.ArgumentParser(prog="benchmarks.decode", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000, help="pods, and jobs (default 10000)")
    pods: int = parser.parse_args().pods
    if pods < 1:
        parser.error(f"--pods is {pods}: expected at least 1")
    asyncio.run(run(pods))


if __name__ == "__main__":
    main()
