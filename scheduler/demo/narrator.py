"""Prints to a terminal, line by line, what happens to pods and Slurm jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final, TextIO

from scheduler.core.naming import JOB_ID
from scheduler.kube.wire import Pod
from slurmapi import JobState

_BOLD: Final = "\x1b[1m"
_COLOURS: Final = {"pod": "\x1b[36m", "slurm": "\x1b[33m"}
_PLAIN: Final = "\x1b[0m"


class Narrator:
    """Writes one line for each event, with the time of day. `colour` is for terminals."""

    def __init__(self, out: TextIO, *, now: Callable[[], datetime], colour: bool) -> None:
        self._out = out
        self._now = now
        self._colour = colour
        self._jobs: dict[int, JobState] = {}

    def heading(self, text: str) -> None:
        """Write a headline about the next step."""
        shown = f"{_BOLD}{text}{_PLAIN}" if self._colour else text
        self._write(f"\n{self._now():%H:%M:%S} -- {shown}\n")

    def pod(self, old: Pod | None, new: Pod | None) -> None:
        """Write what is new about a pod; `old` is None for a new pod, `new` for a deleted one."""
        for news in pod_news(old, new):
            self._line("pod", news)

    def jobs(self, states: Mapping[int, JobState], *, names: Mapping[int, str]) -> None:
        """Write a line for each job whose state has changed since the last call."""
        for job_id, state in states.items():
            if self._jobs.get(job_id) != state:
                self._line("slurm", f"job {job_id} {names.get(job_id, '')} {state}")
        self._jobs.update(states)

    def note(self, text: str) -> None:
        """Write a line that is about neither pods nor jobs."""
        self._write(f"{text}\n")

    def _line(self, about: str, text: str) -> None:
        shown = f"{about:<5}"
        if self._colour:
            shown = f"{_COLOURS[about]}{shown}{_PLAIN}"
        self._write(f"{self._now():%H:%M:%S} {shown} {text}\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


def pod_news(old: Pod | None, new: Pod | None) -> Iterator[str]:
    """Yield what a person wants to know about the change; each text begins with the pod's name."""
    if new is None:
        if old is not None:
            yield f"{old.metadata.name} is gone"
        return
    name = new.metadata.name
    if old is None:
        yield f"{name} created"
    for describe in (_why_it_waits, _binding_text, _disrupted, _leaves, _runs):
        now = describe(new)
        if now and (old is None or describe(old) != now):
            yield f"{name} {now}"


def _why_it_waits(pod: Pod) -> str:
    scheduled = pod.condition("PodScheduled")
    if pod.spec.node_name or scheduled is None or not scheduled.message:
        return ""
    return f"waits: {scheduled.message}"


def _binding_text(pod: Pod) -> str:
    if not pod.spec.node_name:
        return ""
    job = pod.metadata.annotations.get(JOB_ID)
    return f"bound to {pod.spec.node_name}" + (f" (Slurm job {job})" if job else "")


def _disrupted(pod: Pod) -> str:
    condition = pod.condition("DisruptionTarget")
    return f"{condition.reason}: {condition.message}" if condition else ""


def _leaves(pod: Pod) -> str:
    grace = pod.metadata.deletion_grace_period_seconds
    return f"has {grace} s to stop" if pod.metadata.deletion_timestamp and grace else ""


def _runs(pod: Pod) -> str:
    if pod.status.phase in {"", "Pending"}:
        return ""
    # A container that ends on SIGTERM makes its pod Failed, which is not a failure here.
    stopped = pod.metadata.deletion_timestamp and pod.status.phase == "Failed"
    return "has stopped" if stopped else pod.status.phase
