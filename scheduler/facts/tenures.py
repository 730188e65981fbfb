"""Finds how long the pods of a unit may run, and how long containers of gone pods may still run."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog
from msgspec.structs import replace

from annotations import JobRequest, Problem
from scheduler.core.owner_tag import Owner
from scheduler.core.tenure import Tenure, learnt
from scheduler.kube.wire import Pod
from scheduler.nodes.candidates import Nodes
from scheduler.slurm.slurmctld import LEAST_JOB_AGE, Slurmctld
from scheduler.state.member import Member
from scheduler.state.pod_remains import remains_by
from scheduler.state.units import Unit

log = structlog.get_logger(__name__)


class Tenures:
    """Learns from the records of jobs, and notes it in the unit."""

    def __init__(
        self, nodes: Nodes, *, slurmctld: Slurmctld, owner: Owner, clock: Callable[[], float]
    ) -> None:
        self._nodes = nodes
        self._slurmctld = slurmctld
        self._owner = owner
        self._clock = clock

    def of(self, unit: Unit, pod: Pod | None, request: JobRequest | tuple[Problem, ...]) -> Tenure:
        """How long the pod may run. `request` is used if none of the pod's jobs is known."""
        if pod is None or not pod.spec.node_name:
            return unit.seen.tenure
        job = unit.job
        if job is not None and job.record is not None and unit.owns(job.record, owner=self._owner):
            unit.seen.tenure = learnt(
                unit.seen.tenure,
                job.record,
                now=self._clock(),
                at=job.record_at,
                epoch=time.time(),
                lived_at=job.lived_at,
            )
        until = unit.seen.tenure.until
        if until is None and isinstance(request, JobRequest):
            until = _by_kubelet(pod, request)
        young = job is not None and job.lost_within(self._slurmctld.min_job_age or LEAST_JOB_AGE)
        return replace(unit.seen.tenure, until=until, lost_young=young)

    def epoch(self, tenure: Tenure) -> float:
        """The time of day by Slurm's clock, or by our own if Slurm's is not known."""
        epoch = tenure.epoch(self._clock())
        return time.time() if epoch is None else epoch

    def lingers_until(self, unit: Unit, pod: Member) -> float:
        """Until when containers of this pod, which is gone, may still run; 0 if none may."""
        remains = pod.seen.remains
        if remains is None and pod.seen.orphaned and unit.job is not None and unit.job.record:
            remains = remains_by(unit.job.record, pod.uid, kube_node=self._nodes.kube_node)
        if remains is None:
            return 0.0
        dead = self._nodes.is_dead(remains.node)
        if remains.gone_at is None:
            remains = pod.seen.remains = replace(remains, gone_at=self._clock())
            if not dead and unit.job is not None:
                log.info(
                    "job kept: containers of its pod may still run",
                    namespace=unit.namespace,
                    pod=pod.name,
                    job_id=unit.job.job_id,
                    node=remains.node,
                    seconds=remains.seconds,
                )
        return 0.0 if dead else remains.until


def _by_kubelet(pod: Pod, request: JobRequest) -> float | None:
    """The end of the pod's time, in Unix seconds, for a pod none of whose jobs is known: its start
    by the kubelet, plus the time limit of its request.
    """
    began = pod.status.start_time
    if began is None or request.time_limit_minutes is None:
        return None
    return began.timestamp() + 60.0 * request.time_limit_minutes
