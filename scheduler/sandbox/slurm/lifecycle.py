"""How jobs start and end: the changes of a job's state and of the resources it holds on nodes.

Measured on 26.05.5 and 24.11.5. An external job has no process, so it ends at once when Slurm ends
it. A batch job stays COMPLETING and keeps its resources until its script has ended: Slurm sends
SIGTERM at once and SIGKILL after KillWait.
"""

from collections.abc import Collection, Iterable
from typing import Final

from . import scripts
from .cluster import Cluster
from .config import Release
from .hostlist import order
from .records import STARTED, SUCCESS, Exit, Job, Node, Share, State

SIGHUP: Final = 1
SIGKILL: Final = 9
SIGTERM: Final = 15
# How long slurmctld tries to signal a node that does not answer (measured on 26.05.5).
_SIGNAL_SECONDS: Final = 10.0


def start(cluster: Cluster, job: Job, shares: Iterable[Share], *, now: float) -> None:
    """Allocate the shares to a pending job and run it.

    Slurm keeps them in the order of the nodes' names, whatever order the job gave (measured).
    """
    job.shares = tuple(sorted(shares, key=lambda share: order(share.node)))
    job.batch_host = job.shares[0].node
    for share in job.shares:
        cluster.nodes[share.node].hold(job.id, share)
    job.state, job.reason, job.reason_text = State.RUNNING, "None", ""
    job.start_time, job.end_time, job.preempt_time = now, 0.0, 0.0
    job.signalling_until = 0.0
    if job.time_limit_minutes is None:
        job.time_limit_minutes = _partition_limit(cluster, job)
    if job.time_limit_minutes is None and job.asked.deadline:
        job.time_limit_minutes = int(job.asked.deadline - now) // 60
    cluster.counters.started += 1
    if cluster.config.prolog_slurmctld:
        job.configuring = True
        cluster.prologs.append(job.id)
    else:
        _run_script(job, now=now)
    _changed(cluster, job, now=now)


def prolog_ended(cluster: Cluster, job: Job, *, failed: bool, now: float) -> None:
    """Continue with a job whose PrologSlurmctld has ended.

    A failed one ends an external job, and requeues and holds a batch job (measured on 26.05.5,
    slurm.conf(5)).
    """
    if not job.configuring or job.state is not State.RUNNING:
        return
    job.configuring = False
    if not failed:
        _run_script(job, now=now)
        _changed(cluster, job, now=now)
    elif job.external:
        end(cluster, job, State.CANCELLED, now=now)
    else:
        requeue(cluster, job, now=now)
        job.priority = 0


def end(cluster: Cluster, job: Job, state: State, *, now: float, reason: str = "") -> None:
    """End a job on request or because of a limit.

    A running batch job stays COMPLETING until its signalled script has ended. Meanwhile the nodes
    without a process of it are free (measured).
    """
    started = job.state in STARTED
    job.state, job.end_time, job.signalling_until = state, now, 0.0
    if reason:
        job.reason, job.reason_text = reason, ""
    if not started:
        job.start_time = now
    elif job.external:
        release(cluster, job, now=now)
    else:
        job.completing = True
        job.script_ends_at = now + _term_seconds(cluster, job)
        release(cluster, job, now=now, keep=job.holding)
    if state is State.CANCELLED:
        cluster.counters.canceled += 1
    _changed(cluster, job, now=now)


def script_ended(cluster: Cluster, job: Job, *, now: float) -> None:
    """Finish a batch job whose script has ended, by itself or after a signal.

    The script of a heterogeneous job is that of its first component.
    """
    if job.completing:
        _finish(cluster, job, now=now)
        return
    for part in cluster.components(job):
        if part.state in STARTED:
            _finish(cluster, part, now=now, script=job.asked.script or "")


def _finish(cluster: Cluster, job: Job, *, now: float, script: str = "") -> None:
    job.script_ends_at = None
    if job.completing:
        job.completing = False
        ignores = scripts.read(job.asked.script or "").ignores_term
        job.exit = Exit("SIGNALED", 0, SIGKILL if ignores else SIGTERM)
    else:
        exit_code = scripts.read(script).exit_code
        failed = exit_code != 0
        job.state = State.FAILED if failed else State.COMPLETED
        job.reason = "NonZeroExitCode" if failed else "None"
        job.exit = Exit("ERROR", exit_code) if failed else SUCCESS
        job.end_time = now
        cluster.counters.failed += failed
        cluster.counters.completed += not failed
    release(cluster, job, now=now)
    _changed(cluster, job, now=now)


def preempt(cluster: Cluster, job: Job, *, now: float) -> None:
    """Preempt a running job: cancel or requeue it after its partition's grace time.

    With a component of a heterogeneous job all the others go too.
    """
    for part in cluster.components(job):
        if part.state in STARTED and not part.preempt_time:
            _preempt(cluster, part, now=now)


def _preempt(cluster: Cluster, job: Job, *, now: float) -> None:
    job.preempt_time = now
    grace = cluster.partitions[job.asked.request.partition].grace_time
    if grace:
        job.end_time = now + grace
        signal(cluster, job, now=now)
        _changed(cluster, job, now=now)
    else:
        preempt_now(cluster, job, now=now)


def preempt_now(cluster: Cluster, job: Job, *, now: float) -> None:
    """Cancel or requeue a job whose grace time is over; an external job cannot be requeued."""
    mode = cluster.partitions[job.asked.request.partition].preempt_mode
    if mode == "REQUEUE" and job.asked.requeue and not job.external:
        requeue(cluster, job, now=now)
    else:
        job.preempt_time = now
        end(cluster, job, State.PREEMPTED, now=now)


def signal(cluster: Cluster, job: Job, *, now: float) -> None:
    """Signal the job on its nodes; an external node has no slurmd and never confirms a signal."""
    if any(cluster.nodes[share.node].config.external for share in job.shares):
        job.signalling_until = now + _SIGNAL_SECONDS


def signal_lost(cluster: Cluster, job: Job, *, now: float) -> None:
    """Give up on a signal that was never confirmed.

    The job's external nodes do not respond until the controller reads its files again.
    """
    job.signalling_until = 0.0
    for share in job.shares:
        node = cluster.nodes[share.node]
        node.not_responding = node.not_responding or node.config.external
    _changed(cluster, job, now=now)


def requeue(cluster: Cluster, job: Job, *, now: float) -> None:
    """Put a batch job back into the queue with the same id; it starts after the requeue delay."""
    release(cluster, job, now=now)
    job.state, job.completing, job.script_ends_at = State.PENDING, False, None
    job.configuring = False
    job.shares, job.batch_host, job.exit = (), "", SUCCESS
    job.end_time = job.preempt_time = 0.0
    job.restart_count += 1
    job.begin_time = job.eligible_time = job.start_time = now + cluster.config.requeue_delay
    job.reason, job.reason_text = "BeginTime", ""
    _changed(cluster, job, now=now)


def fail_node(cluster: Cluster, node: Node, *, now: float) -> None:
    """End the jobs on a node that went DOWN; batch jobs that allow it are requeued."""
    for job_id in sorted(node.jobs):
        job = cluster.jobs[job_id]
        if job.completing:
            script_ended(cluster, job, now=now)
        else:
            _lose(cluster, job, node, now=now)


def power_cycle(cluster: Cluster, node: Node, *, now: float) -> None:
    """End the batch jobs of a node whose slurmd has restarted and does not know them.

    A job stays if it started less than BatchStartTimeout plus ten seconds ago, because slurmctld
    may still be launching it. An external job stays too: it has no process that slurmd could miss
    (measured with ReturnToService=2).
    """
    old = now - cluster.config.timing.batch_start_seconds
    for job in [cluster.jobs[job_id] for job_id in sorted(node.jobs)]:
        if not (job.external or job.completing or job.start_time > old):
            _lose(cluster, job, node, now=now)


def _lose(cluster: Cluster, job: Job, node: Node, *, now: float) -> None:
    if not job.asked.kill_on_node_fail and len(job.shares) > 1:
        others = (share.node for share in job.shares if share.node != node.config.name)
        shrink(cluster, job, frozenset(others), now=now)
        if job.het_offset:
            _lose_leader(cluster, job, node, now=now)
        if not job.external and node.config.name == job.batch_host:
            _lose_script(cluster, job, now=now)
    elif job.asked.requeue and not job.external:
        requeue(cluster, job, now=now)
    else:
        _node_fail(cluster, job, node, now=now)


def _lose_leader(cluster: Cluster, job: Job, node: Node, *, now: float) -> None:
    """End the first component of a job of which another has lost a node.

    With its script the others end too; without one they run on (measured on 26.05.5).
    """
    leader, *others = cluster.components(job)
    if not leader.alive:
        return
    _node_failed(cluster, leader, node, now=now)
    for other in others:
        if other.alive and not other.external:
            script_killed(cluster, other, out_of_memory=False, now=now)


def _lose_script(cluster: Cluster, job: Job, *, now: float) -> None:
    """Go on without the node of the script: 24.11 ends such a job, 26.05 does not (measured)."""
    job.script_ends_at = None
    if cluster.config.release is Release.V24_11:
        script_killed(cluster, job, out_of_memory=False, now=now)


def shrink(cluster: Cluster, job: Job, keep: Collection[str], *, now: float) -> None:
    """Let a running job go on with these nodes of its own, and free the others."""
    kept = tuple(share for share in job.shares if share.node in keep)
    release(cluster, job, now=now, keep=kept)
    job.shares = kept
    _changed(cluster, job, now=now)


def script_killed(cluster: Cluster, job: Job, *, out_of_memory: bool, now: float) -> None:
    """End a batch job whose script was killed.

    The kernel killed it for its memory if ``out_of_memory``. Any other cause, such as
    OverMemoryKill, gives FAILED and RaisedSignal (measured on 26.05.5 and 24.11.5).
    """
    release(cluster, job, now=now)
    job.state, job.reason = State.FAILED, "RaisedSignal"
    if out_of_memory:
        job.state, job.reason = State.OUT_OF_MEMORY, "OutOfMemory"
    job.end_time = now
    job.exit, job.script_ends_at = Exit("SIGNALED", 0, SIGKILL), None
    cluster.counters.failed += 1
    _changed(cluster, job, now=now)


def suspend(cluster: Cluster, job: Job, *, now: float) -> None:
    """Suspend a running job; it keeps its resources."""
    signal(cluster, job, now=now)
    job.state, job.suspend_time, job.priority = State.SUSPENDED, now, 0
    _changed(cluster, job, now=now)


def resume(cluster: Cluster, job: Job, *, now: float) -> None:
    """Resume a suspended job."""
    job.state, job.suspend_time, job.priority = State.RUNNING, now, 1
    _changed(cluster, job, now=now)


def refuse(cluster: Cluster, job: Job, *, now: float) -> None:
    """Fail a job that no node of its partition can ever run.

    The record stays although the submit is answered with error 2014.
    """
    end(cluster, job, State.FAILED, now=now, reason="BadConstraints")
    job.exit = Exit("SIGNALED", 0, SIGHUP)
    cluster.counters.failed += 1


def release(cluster: Cluster, job: Job, *, now: float, keep: Collection[Share] = ()) -> None:
    """Release the resources that the job holds, except what it is to keep.

    Its record still shows where it ran.
    """
    for share in job.shares:
        if share not in keep:
            cluster.nodes[share.node].release(job.id, share, now=now)


def _run_script(job: Job, *, now: float) -> None:
    if job.asked.script is not None:
        seconds = scripts.read(job.asked.script).seconds
        job.script_ends_at = None if seconds is None else now + seconds


def _node_fail(cluster: Cluster, job: Job, node: Node, *, now: float) -> None:
    for part in cluster.components(job):
        if part.alive:
            _node_failed(cluster, part, node, now=now)


def _node_failed(cluster: Cluster, job: Job, node: Node, *, now: float) -> None:
    release(cluster, job, now=now)
    job.state, job.reason, job.end_time = State.NODE_FAIL, "NodeDown", now
    job.exit, job.failed_node, job.script_ends_at = (
        Exit("SIGNALED", 0, SIGHUP),
        node.config.name,
        None,
    )
    cluster.counters.failed += 1
    _changed(cluster, job, now=now)


def _term_seconds(cluster: Cluster, job: Job) -> float:
    script = scripts.read(job.asked.script or "")
    return cluster.config.kill_wait if script.ignores_term else script.term_seconds


def _partition_limit(cluster: Cluster, job: Job) -> int | None:
    partition = cluster.partitions[job.asked.request.partition]
    return partition.default_time_minutes or partition.max_time_minutes


def _changed(cluster: Cluster, job: Job, *, now: float) -> None:
    cluster.jobs_changed = now
    if job.shares:
        cluster.nodes_changed = now
    cluster.touch(job)
