"""The table of docs/endings.md: every way a pod and its job can part, and the stories that tell it.

`stories` are names of tests in tests/stories; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.core.event_reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`pod` and `job` say what becomes of each. `delay` is what was measured on real servers, for
    Slurm 26.05 and 24.11, from Slurm's change to the pod's condition; empty where none is due.
    """

    happens: str
    pod: str
    job: str
    stories: tuple[str, ...]
    reason: Reason | None = None
    delay: str = ""


_GOES: Final = "deleted with its own grace period"
_GONE: Final = "has ended"
_AFTER: Final = "cancelled once the pod is gone"
_STAYS: Final = "keeps running"
_KEPT: Final = "kept"

SLURM_ENDS: Final = (
    Case(
        happens="CANCELLED by somebody, or COMPLETED by itself",
        pod=_GOES,
        job=_GONE,
        reason=Reason.PLACEHOLDER_CANCELLED,
        delay="1.3 / 1.5",
        stories=(
            "test_cancelled_job_evicts_its_pod",
            "test_cancelled_job_of_a_waiting_pod_ends_the_pod",
        ),
    ),
    Case(
        happens="PREEMPTED, no GraceTime",
        pod=_GOES,
        job=_GONE,
        reason=Reason.PREEMPTED,
        delay="1.3 / 0.7",
        stories=("test_preempted_job_evicts_its_pod",),
    ),
    Case(
        happens="RUNNING, and being preempted with GraceTime",
        pod="deleted at the warning, with its own grace period or what is left of the GraceTime, "
        "whichever is less, and never less than 1 s",
        job=_AFTER + ", if Slurm has not ended it before",
        reason=Reason.PREEMPTED,
        delay="4.4 / 4.7 after the warning",
        stories=(
            "test_preempted_job_with_grace_time_gives_its_pod_what_is_left_of_it",
            "test_preempted_job_with_grace_time_leaves_a_short_grace_as_it_is",
        ),
    ),
    Case(
        happens="requeued before the bind (script mode)",
        pod="keeps waiting",
        job="waits, and its pod is bound when it starts again",
        stories=("test_job_requeued_before_the_bind_keeps_its_pod_waiting_and_counts_from_there",),
    ),
    Case(
        happens="requeued after the bind (script mode)",
        pod=_GOES,
        job=_AFTER,
        reason=Reason.REQUEUED,
        delay="- / 1.0",
        stories=("test_requeued_job_evicts_its_pod_and_is_cancelled",),
    ),
    Case(
        happens="TIMEOUT",
        pod=_GOES,
        job=_GONE,
        reason=Reason.TIME_LIMIT,
        delay="0.9 / 0.8",
        stories=("test_time_limit_evicts_the_pod",),
    ),
    Case(
        happens="DEADLINE: a waiting job can no longer end in time (a running job gets TIMEOUT)",
        pod="deleted",
        job=_GONE,
        reason=Reason.TIME_LIMIT,
        stories=("test_waiting_job_that_misses_its_deadline_ends_its_pod",),
    ),
    Case(
        happens="NODE_FAIL: the node was set DOWN or failed",
        pod=_GOES,
        job=_GONE,
        reason=Reason.NODE_FAILED,
        delay="1.2 / 1.0",
        stories=("test_node_set_down_evicts_its_pod",),
    ),
    Case(
        happens="node drained",
        pod=_STAYS,
        job=_KEPT,
        stories=("test_drained_node_keeps_its_pod",),
    ),
    Case(
        happens="node to be rebooted (`scontrol reboot ASAP`)",
        pod=_STAYS,
        job=_KEPT + "; the node reboots when the job has ended",
        stories=("test_node_that_is_to_reboot_keeps_its_pod",),
    ),
    Case(
        happens="node rebooted as requested, after the job has ended",
        pod="has already gone",
        job="other jobs start there when the node is back",
        stories=("test_node_that_reboots_once_its_pod_has_gone_takes_pods_again",),
    ),
    Case(
        happens="NODE_FAIL: the node has rebooted unexpectedly. Slurm ends all its jobs with "
        "`ReturnToService=0` or `1`; with `2` only those whose script no longer runs, at once if "
        "they have been running for 20 s",
        pod=_GOES,
        job=_GONE,
        reason=Reason.NODE_FAILED,
        delay="- / 1.3",
        stories=("test_node_that_loses_its_power_evicts_its_pod",),
    ),
    Case(
        happens="node rebooted unexpectedly, `ReturnToService=2`, external mode: there is no "
        "script that could be missing",
        pod=_STAYS,
        job=_KEPT,
        stories=("test_external_job_outlasts_a_power_loss_of_its_node",),
    ),
    Case(
        happens="SUSPENDED, and `--suspend-policy=keep`",
        pod=_STAYS,
        job=_KEPT,
        stories=("test_suspended_job_keeps_its_pod",),
    ),
    Case(
        happens="SUSPENDED",
        pod=_GOES,
        job=_AFTER,
        reason=Reason.SUSPENDED,
        delay="1.5 / 0.7",
        stories=("test_suspended_job_evicts_its_pod",),
    ),
    Case(
        happens="any of these, to a pod that is being deleted with a longer grace period",
        pod="deleted again, with its own grace period or what Slurm allows, whichever is less",
        job=_GONE,
        stories=("test_pod_that_leaves_slowly_is_hurried_when_its_job_ends",),
    ),
    Case(
        happens="OUT_OF_MEMORY or FAILED: the placeholder's own script has died",
        pod=_STAYS,
        job="a new one is submitted for the pod's node (OverMemoryKill leaves FAILED, cgroups "
        "leave OUT_OF_MEMORY)",
        reason=Reason.PLACEHOLDER_LOST,
        stories=(
            "test_job_whose_script_was_killed_is_asked_for_again_where_its_pod_runs",
            "test_job_out_of_memory_is_asked_for_again_where_its_pod_runs",
            "test_job_that_ran_out_of_memory_is_asked_for_again_where_its_pod_runs",
        ),
    ),
    Case(
        happens="CANCELLED within 10 s of its start, of a job that replaced a lost one: Slurm does "
        "so by itself if the node cannot start the placeholder's script",
        pod=_STAYS,
        job="a new one is submitted for the pod's node",
        reason=Reason.PLACEHOLDER_LOST,
        stories=("test_job_whose_script_cannot_start_is_asked_for_again_where_its_pod_runs",),
    ),
    Case(
        happens="CANCELLED within 10 s of its start, before the bind (script mode): Slurm does so "
        "by itself if the node cannot start the placeholder's script",
        pod="keeps waiting",
        job="a new one is submitted, which avoids that node for a while",
        reason=Reason.NODE_UNAVAILABLE,
        stories=("test_waiting_pod_stays_if_slurmd_cannot_start_its_job",),
    ),
    Case(
        happens="unknown to Slurm, which has lost the job in a crash",
        pod=_STAYS,
        job="a new one is submitted for the pod's node, first in the queue, with what is left of "
        "its time",
        reason=Reason.PLACEHOLDER_LOST,
        stories=(
            "test_forgotten_jobs_harm_no_pod",
            "test_every_pod_keeps_its_node_though_its_id_is_anothers_now",
            "test_pods_that_run_come_before_the_jobs_that_were_in_the_queue_already",
        ),
    ),
    Case(
        happens="any of these, and a PodDisruptionBudget covers the pod",
        pod="deleted anyway; with `--eviction-policy=budget` at the latest after "
        "`--eviction-budget-timeout`",
        job=_GONE,
        stories=(
            "test_budget_does_not_hold_a_pod_whose_node_slurm_has_taken",
            "test_budget_holds_a_pod_for_as_long_as_the_site_allows",
        ),
    ),
    Case(
        happens="NODE_FAIL, or any of these within two minutes after a start of slurmctld, to so "
        "many pods at once that the brake holds them",
        pod="deleted after `--brake-pause`, if a later query of its job confirms the end",
        job=_GONE,
        stories=("test_many_pods_of_a_lost_node_are_held_until_a_later_look",),
    ),
    Case(
        happens="any of these, and a Deployment owns the pod",
        pod="the Deployment creates another, which queues with its own job",
        job=_GONE,
        stories=("test_deployment_of_three_heals_through_slurm",),
    ),
    Case(
        happens="any of these, and the pod belongs to a batch Job whose podFailurePolicy ignores "
        "DisruptionTarget",
        pod="the batch Job creates another, and counts no retry",
        job=_GONE,
        stories=("test_batch_job_that_ignores_disruptions_is_not_charged_a_retry",),
    ),
    Case(
        happens="any of these, and no controller owns the pod",
        pod="is not created again, and its logs are gone as with any deleted pod",
        job=_GONE,
        stories=("test_evicted_pod_without_an_owner_is_not_made_again",),
    ),
)

POD_ENDS: Final = (
    Case(
        happens="deleted while it waits, with or without a job yet",
        pod="is removed",
        job="cancelled",
        stories=(
            "test_pod_deleted_while_pending_cancels_job",
            "test_pod_deleted_before_it_has_a_job_leaves_none",
        ),
    ),
    Case(
        happens="deleted while it runs",
        pod="has its grace period",
        job=_AFTER,
        stories=(
            "test_pod_deleted_while_running_cancels_job_after_its_containers",
            "test_job_ends_only_after_a_container_that_ignores_sigterm",
        ),
    ),
    Case(
        happens="deleted and created again under the same name",
        pod="another pod",
        job="another job; the first is cancelled",
        stories=("test_recreated_pod_of_the_same_name_gets_a_job_of_its_own",),
    ),
    Case(
        happens="evicted by the Eviction API",
        pod="removed when its PodDisruptionBudget allows it",
        job=_AFTER,
        stories=("test_pod_evicted_by_its_api_cancels_job_once_its_budget_allows_it",),
    ),
    Case(
        happens="Succeeded or Failed",
        pod="stays as it is",
        job="cancelled at once",
        stories=("test_finished_pod_leaves_no_job", "test_container_that_ends_leaves_no_job"),
    ),
    Case(
        happens="force-deleted (grace 0)",
        pod="gone at once, whatever its containers do",
        job="cancelled after the pod's grace period and 30 s, or once its Node is deleted or out "
        "of service",
        stories=("test_force_deleted_pod_cancels_job",),
    ),
    Case(
        happens="its Node has the taint `node.kubernetes.io/out-of-service`",
        pod="deleted and removed by Kubernetes, although no kubelet confirms that it has stopped",
        job=_AFTER,
        stories=("test_pod_on_a_node_out_of_service_is_removed_and_lets_go_of_its_job",),
    ),
    Case(
        happens="its Node was deleted",
        pod="removed by Kubernetes (garbage collection) after 40 s to a minute",
        job=_AFTER,
        stories=("test_pod_whose_node_is_deleted_keeps_its_job_until_it_is_collected",),
    ),
)


def table() -> str:
    """Both halves in Markdown."""
    return (
        "### What Slurm does\n\n"
        + _half("The job", SLURM_ENDS)
        + "\n### What becomes of the pod\n\n"
        + _half("The pod", POD_ENDS)
    )


def _half(who: str, cases: tuple[Case, ...]) -> str:
    head = (who, "Then the pod", "Then the job", "Reason", "Seconds (26.05 / 24.11)", "Stories")
    rows = [head, ("---",) * len(head), *map(_row, cases)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(case: Case) -> tuple[str, ...]:
    stories = "<br>".join(f"`{name}`" for name in case.stories)
    reason = f"`{case.reason}`" if case.reason is not None else ""
    return (case.happens, case.pod, case.job, reason, case.delay, stories)
