"""Heterogeneous jobs: several shapes in one allocation, each a component with an id of its own.

The first component's id stands for all: a look and a cancel by it concern every component, an
update only the first one (measured on 26.05.5 and 24.11.5). Slurm starts all at the same time,
never two on the same node, and ends all when it takes a node from one. Only its backfill scheduler
starts them.

This module only joins their records and states. The body of the submit: `encode` in
`submission.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from slurmapi.model import PARTIAL, BaseState, Job, JobState

_CONFIGURING: Final = "CONFIGURING"


def joint_job(parts: Sequence[Job]) -> Job:
    """One record of all components, whose own records are its `parts`. What is not about nodes,
    tasks, states, reasons or times is that of the first.
    """
    telling = _with_the_reason(parts)
    return replace(
        parts[0],
        state=joint_state([part.state for part in parts]),
        state_reason=telling.state_reason,
        state_description=telling.state_description,
        nodes=tuple(dict.fromkeys(node for part in parts for node in part.nodes)),
        held=any(part.held for part in parts),
        tasks=sum(part.tasks for part in parts),
        tasks_per_node=0,
        cpus_by_node={},
        start_time=max(_known(part.start_time for part in parts), default=None),
        end_time=min(_known(part.end_time for part in parts), default=None),
        preempt_time=min(_known(part.preempt_time for part in parts), default=None),
        time_limit_minutes=min(_known(part.time_limit_minutes for part in parts), default=None),
        parts=tuple(parts),
    )


def _with_the_reason(parts: Sequence[Job]) -> Job:
    """The component whose reason is that of all. A held one holds all back, whatever Slurm says of
    the others meanwhile (24.11.5: "ReqNodeNotAvail", seen once).
    """
    held_first = sorted(parts, key=lambda part: not part.held)
    return next((it for it in held_first if it.state_reason not in {"", "None"}), parts[0])


def joint_state(states: Sequence[JobState]) -> JobState:
    """The state of all components as one. It has ended if one has; if not all have, it is partial.
    It is not yet allocated while one is pending.
    """
    bases = {state.base for state in states}
    flags = frozenset[str]().union(*(state.flags for state in states))
    ended = [state.base for state in states if state.ended]
    if len(bases) == 1:
        return JobState(states[0].base, flags)
    if ended:
        return JobState(ended[0], flags if len(ended) == len(states) else flags | {PARTIAL})
    if BaseState.UNKNOWN in bases:
        return JobState(BaseState.UNKNOWN, flags)
    if BaseState.SUSPENDED in bases:
        return JobState(BaseState.SUSPENDED, flags)
    return JobState(BaseState.RUNNING, flags | {_CONFIGURING})


def joint_states(listed: Iterable[tuple[int, int, JobState]]) -> dict[int, JobState]:
    """State by job id, from id, number and state of each component, in the order of the answer.

    The components follow the first one. One that does not stands for itself: it was asked for by
    its own id.
    """
    groups: dict[int, list[JobState]] = {}
    group: list[JobState] = []
    for job_id, number, state in listed:
        if not number or number != len(group):
            group = groups[job_id] = []
        group.append(state)
    return {job_id: joint_state(states) for job_id, states in groups.items()}


def _known(values: Iterable[int | None]) -> list[int]:
    return [value for value in values if value is not None]
