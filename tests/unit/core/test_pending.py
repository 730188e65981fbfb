"""What is said of Slurm's pending reasons: all of them, and Slurm's own words first."""

from __future__ import annotations

from typing import Any, Final

import pytest

from docs._make.pages import pending_table
from scheduler.core.pending_reasons import LABELS, STUCK, expected_start, label, pending_text, why
from slurmapi.model import BaseState, Job
from tests.unit.core.things import JOB, record

SUBMITTED: Final = 1_795_268_000
HOUR: Final = 3600
YEAR: Final = 365 * 86400

# All that job_state_reason.c, 26.05, has for a pending job; the others are ends of jobs.
_NAMES: Final = """
Prolog Priority Dependency Resources PartitionNodeLimit PartitionTimeLimit PartitionDown
PartitionInactive JobHeldAdmin JobHeldUser BeginTime Licenses AssociationJobLimit
AssociationResourceLimit AssociationTimeLimit Reservation ReqNodeNotAvail FrontEndDown SchedDefer
NodeDown BadConstraints SystemFailure JobLaunchFailure InvalidAccount InvalidQOS QOSUsageThreshold
QOSJobLimit QOSResourceLimit QOSTimeLimit Cleaning QOSNotAllowed AccountNotAllowed
DependencyNeverSatisfied QOSGrpCpuLimit QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit
QOSGrpJobsLimit QOSGrpMemLimit QOSGrpNodeLimit QOSGrpSubmitJobsLimit QOSGrpWallLimit
QOSMaxCpuPerJobLimit QOSMaxCpuMinutesPerJobLimit QOSMaxNodePerJobLimit
QOSMaxWallDurationPerJobLimit QOSMaxCpuPerUserLimit QOSMaxJobsPerUserLimit QOSMaxNodePerUserLimit
QOSMaxSubmitJobPerUserLimit QOSMinCpuNotSatisfied AssocGrpCpuLimit AssocGrpCPUMinutesLimit
AssocGrpCPURunMinutesLimit AssocGrpJobsLimit AssocGrpMemLimit AssocGrpNodeLimit
AssocGrpSubmitJobsLimit AssocGrpWallLimit AssocMaxJobsLimit AssocMaxCpuPerJobLimit
AssocMaxCpuMinutesPerJobLimit AssocMaxNodePerJobLimit AssocMaxWallDurationPerJobLimit
AssocMaxSubmitJobLimit JobHoldMaxRequeue JobArrayTaskLimit BurstBufferResources BurstBufferStageIn
BurstBufferOperation PowerNotAvail PowerReserved AssocGrpUnknown AssocGrpUnknownMinutes
AssocGrpUnknownRunMinutes AssocMaxUnknownPerJob AssocMaxUnknownPerNode AssocMaxUnknownMinutesPerJob
AssocMaxCpuPerNode AssocGrpMemMinutes AssocGrpMemRunMinutes AssocMaxMemPerJob AssocMaxMemPerNode
AssocMaxMemMinutesPerJob AssocGrpNodeMinutes AssocGrpNodeRunMinutes AssocMaxNodeMinutesPerJob
AssocGrpEnergy AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocMaxEnergyPerJob
AssocMaxEnergyPerNode AssocMaxEnergyMinutesPerJob AssocGrpGRES AssocGrpGRESMinutes
AssocGrpGRESRunMinutes AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxGRESMinutesPerJob
AssocGrpLicense AssocGrpLicenseMinutes AssocGrpLicenseRunMinutes AssocMaxLicensePerJob
AssocMaxLicenseMinutesPerJob AssocGrpBB AssocGrpBBMinutes AssocGrpBBRunMinutes AssocMaxBBPerJob
AssocMaxBBPerNode AssocMaxBBMinutesPerJob QOSGrpUnknown QOSGrpUnknownMinutes
QOSGrpUnknownRunMinutes QOSMaxUnknownPerJob QOSMaxUnknownPerNode QOSMaxUnknownPerUser
QOSMaxUnknownMinutesPerJob QOSMinUnknown QOSMaxCpuPerNode QOSGrpMemoryMinutes
QOSGrpMemoryRunMinutes QOSMaxMemoryPerJob QOSMaxMemoryPerNode QOSMaxMemoryPerUser
QOSMaxMemoryMinutesPerJob QOSMinMemory QOSGrpNodeMinutes QOSGrpNodeRunMinutes
QOSMaxNodeMinutesPerJob QOSMinNode QOSGrpEnergy QOSGrpEnergyMinutes QOSGrpEnergyRunMinutes
QOSMaxEnergyPerJob QOSMaxEnergyPerNode QOSMaxEnergyPerUser QOSMaxEnergyMinutesPerJob QOSMinEnergy
QOSGrpGRES QOSGrpGRESMinutes QOSGrpGRESRunMinutes QOSMaxGRESPerJob QOSMaxGRESPerNode
QOSMaxGRESPerUser QOSMaxGRESMinutesPerJob QOSMinGRES QOSGrpLicense QOSGrpLicenseMinutes
QOSGrpLicenseRunMinutes QOSMaxLicensePerJob QOSMaxLicensePerUser QOSMaxLicenseMinutesPerJob
QOSMinLicense QOSGrpBB QOSGrpBBMinutes QOSGrpBBRunMinutes QOSMaxBBPerJob QOSMaxBBPerNode
QOSMaxBBPerUser QOSMinBB DeadLine MaxBBPerAccount MaxCpuPerAccount MaxEnergyPerAccount
MaxGRESPerAccount MaxNodePerAccount MaxLicensePerAccount MaxMemoryPerAccount MaxUnknownPerAccount
MaxJobsPerAccount MaxSubmitJobsPerAccount PartitionConfig AccountingPolicy FedJobLock
MaxMemPerLimit AssocGrpBilling AssocGrpBillingMinutes AssocGrpBillingRunMinutes
AssocMaxBillingPerJob AssocMaxBillingPerNode AssocMaxBillingMinutesPerJob QOSGrpBilling
QOSGrpBillingMinutes QOSGrpBillingRunMinutes QOSMaxBillingPerJob QOSMaxBillingPerNode
QOSMaxBillingPerUser QOSMaxBillingMinutesPerJob MaxBillingPerAccount QOSMinBilling
ReservationDeleted ReservationInvalid Constraints
"""
REASONS: Final = _NAMES.split()


def pending(reason: str, **more: object) -> Job:
    fields: dict[str, Any] = {"state_reason": reason, "nodes": (), "submit_time": SUBMITTED} | more
    return record(BaseState.PENDING, **fields)


@pytest.mark.parametrize("reason", REASONS)
def test_reason_is_explained_with_a_remedy(reason: str) -> None:
    found = why(reason)
    assert found is not None
    assert found.meaning
    assert found.remedy
    text = pending_text(JOB, pending(reason))
    assert text.startswith(f"Slurm job {JOB} is pending: {reason}. ")
    assert found.meaning in text
    assert found.remedy in text


@pytest.mark.parametrize("reason", [*REASONS, "", "None", "SomethingNew", "QOS", "QOSGrpX-"])
def test_label_of_a_metric_is_one_of_a_closed_set(reason: str) -> None:
    assert label(reason) in LABELS
    assert (label(reason) == "Other") == (why(reason) is None and reason not in {"", "None"})


def test_limits_of_one_kind_are_one_label() -> None:
    kinds = {
        "QOSGrpCpuLimit": "QOSGrp",
        "AssocGrpGRESRunMinutes": "AssocGrp",
        "QOSMaxJobsPerUserLimit": "QOSMaxPerUser",
        "AssocMaxJobsLimit": "AssocMaxPerUser",
        "AssocMaxWallDurationPerJobLimit": "AssocMaxPerJob",
        "QOSMinGRES": "QOSMin",
        "MaxGRESPerAccount": "MaxPerAccount",
    }
    assert {reason: label(reason) for reason in kinds} == kinds


def test_what_waiting_does_not_mend_is_known() -> None:
    assert STUCK < LABELS
    assert not STUCK & {"Resources", "Priority", "QOSGrp", "AssocMaxPerUser", "None", "Other"}


@pytest.mark.parametrize("reason", ["SomethingNew", "QOS", "QOSGrp", "Max", "MaxPerAccount"])
def test_unknown_reason_is_mirrored_verbatim(reason: str) -> None:
    assert pending_text(JOB, pending(reason)) == f"Slurm job {JOB} is pending: {reason}"


@pytest.mark.parametrize("reason", ["", "None"])
def test_job_that_was_not_looked_at_by_slurm_has_no_reason_yet(reason: str) -> None:
    assert pending_text(JOB, pending(reason)) == f"Slurm job {JOB} is pending"


def test_only_the_fact_is_told_without_a_look_at_the_pending_job() -> None:
    assert pending_text(JOB, None) == f"Slurm job {JOB} is pending"
    assert pending_text(JOB, record(BaseState.RUNNING)) == f"Slurm job {JOB} is pending"


def test_numbers_stand_beside_the_reason() -> None:
    job = pending("Resources", priority=100, partition="gpu", start_time=SUBMITTED + HOUR)
    mirrored = "Resources (priority 100, partition gpu, expected start 2026-11-21 14:33 UTC)"
    assert pending_text(JOB, job).startswith(f"Slurm job {JOB} is pending: {mirrored}. That is: ")


def test_description_of_slurm_takes_the_place_of_the_bare_reason() -> None:
    said = "ReqNodeNotAvail, UnavailableNodes:n1"
    job = pending("ReqNodeNotAvail", state_description=said)
    assert f"is pending: {said}. That is: a node that it needs" in pending_text(JOB, job)


def test_description_that_lacks_the_reason_is_put_behind_it() -> None:
    job = pending("Resources", state_description="Nodes required for job are DOWN")
    assert "is pending: Resources, Nodes required for job are DOWN. " in pending_text(JOB, job)


def test_thousands_of_node_names_are_cut_short() -> None:
    said = "ReqNodeNotAvail, UnavailableNodes:" + ",".join(f"n{i}" for i in range(5000))
    text = pending_text(JOB, pending("ReqNodeNotAvail", state_description=said))
    assert len(text) < 600
    assert "n1,n2" in text


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (None, False),
        (SUBMITTED - 1, False),
        (SUBMITTED + 60, True),
        (SUBMITTED + 30 * 86400, True),
        (SUBMITTED + YEAR + HOUR, False),
    ],
)
def test_start_is_expected_only_where_that_says_something(start: int | None, *, told: bool) -> None:
    job = pending("Priority", start_time=start)
    assert expected_start(job) == (start if told else None)
    assert ("expected start" in pending_text(JOB, job)) == told


def test_running_job_has_no_expected_start() -> None:
    assert expected_start(record(start_time=SUBMITTED + 9, submit_time=SUBMITTED)) is None


def test_table_has_a_row_for_each_family_too() -> None:
    shown = pending_table()
    for name in ("`Resources`", "`QOSGrp`", "`Max`*`PerAccount`", "`AssocMax`*`PerJob`"):
        assert name in shown
