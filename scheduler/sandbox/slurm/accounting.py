"""Accounts and QoS of a cluster with slurmdbd: who may use which, and which limits make jobs wait.

Measured on 26.05.5 and 24.11.5 with AccountingStorageEnforce=associations,limits,qos. Without
slurmdbd every name is accepted and has no effect.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .cluster import Cluster
from .config import DEFAULT_QOS, AccountConfig, Release
from .errors import SlurmError
from .records import STARTED, Job


def asked(cluster: Cluster, fields: Mapping[str, Any], *, user: str) -> tuple[str, str]:
    """Return the account and the QoS of a new job of that user.

    Raises SlurmError 2045 for an account that the user does not belong to, 2066 for a QoS that the
    account may not use. The same holds for an operator's jobs.
    """
    if cluster.accounts is None:
        return fields.get("account", ""), fields.get("qos", "")
    account = _account_of(cluster.accounts, fields.get("account", ""), user=user)
    qos = fields.get("qos", "") or DEFAULT_QOS
    if qos not in cluster.qos or qos not in account.qos:
        raise SlurmError(2066)
    return account.name, qos


def changed(
    cluster: Cluster, job: Job, fields: Mapping[str, Any], *, operator: bool
) -> tuple[str, str]:
    """Return the account and the QoS of a job after an update.

    Raises SlurmError 2045 and 2066 as a submit does. An operator, however, may set any QoS that
    exists, and the job runs with it. Only 26.05 accepts an empty QoS, as the default one.
    """
    account, qos = job.asked.account, job.asked.qos
    if cluster.accounts is None:
        return account, qos
    if "account" in fields:
        name = fields["account"]
        if not name:
            raise SlurmError(2045)
        account = _account_of(cluster.accounts, name, user=job.asked.user_name).name
    if "qos" in fields:
        empty_is_default = cluster.config.release is Release.V26_05
        qos = fields["qos"] or (DEFAULT_QOS if empty_is_default else "")
        allowed = cluster.qos if operator else cluster.accounts[account].qos
        if qos not in allowed:
            raise SlurmError(2066)
    return account, qos


def over_limit(cluster: Cluster, job: Job) -> str:
    """Return the reason if a limit of the job's QoS or account keeps it from starting."""
    qos = cluster.qos.get(job.asked.qos)
    account = (cluster.accounts or {}).get(job.asked.account)
    if qos is None or account is None:
        return ""
    same_qos = _running(cluster, lambda it: it.asked.qos == qos.name)
    if _reached(qos.max_jobs_per_user, len(_of_user(same_qos, job))):
        return "QOSMaxJobsPerUserLimit"
    if _exceeded(qos.group_cpus, same_qos, job):
        return "QOSGrpCpuLimit"
    same_account = _running(cluster, lambda it: it.asked.account == account.name)
    if _reached(account.max_jobs, len(_of_user(same_account, job))):
        return "AssocMaxJobsLimit"
    return "AssocGrpCpuLimit" if _exceeded(account.group_cpus, same_account, job) else ""


def _account_of(accounts: Mapping[str, AccountConfig], name: str, *, user: str) -> AccountConfig:
    """Return the user's account of that name, by default the first; raises SlurmError 2045."""
    for account in accounts.values():
        if user in account.users and name in {"", account.name}:
            return account
    raise SlurmError(2045)


def _running(cluster: Cluster, holds: Callable[[Job], bool]) -> list[Job]:
    active = (cluster.jobs[job_id] for job_id in cluster.active)
    return [job for job in active if job.state in STARTED and holds(job)]


def _of_user(jobs: Iterable[Job], job: Job) -> list[Job]:
    return [it for it in jobs if it.asked.user_id == job.asked.user_id]


def _reached(limit: int | None, count: int) -> bool:
    return limit is not None and count >= limit


def _exceeded(limit: int | None, jobs: Iterable[Job], job: Job) -> bool:
    used = sum(it.asked.request.cpus for it in jobs)
    return limit is not None and used + job.asked.request.cpus > limit
