"""All checks in the order of the report. docs/doctor.md has a table of them, made from this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from scheduler.doctor import of_both, of_kube, of_slurm, of_slurm_conf
from scheduler.doctor.facts import Facts
from scheduler.doctor.finding import CheckResult, Finding, Group, Severity, plain

_OK, _NOTE, _WARNING, _ERROR = Severity


@dataclass(frozen=True, slots=True)
class Check:
    """A check, and the worst that it may say. Its docstring tells people what should be so."""

    name: str
    group: Group
    look: Callable[[Facts], Iterable[CheckResult]]
    worst: Severity

    @property
    def about(self) -> str:
        """What the check looks at, for people."""
        return " ".join((self.look.__doc__ or "").split())


CHECKS: Final = (
    Check("slurm-api", Group.SLURM, of_slurm.slurmrestd, _ERROR),
    Check("token", Group.SLURM, of_slurm.token, _ERROR),
    Check("token-rights", Group.SLURM, of_slurm.token_rights, _NOTE),
    Check("kill-wait", Group.SLURM, of_slurm_conf.kill_wait, _WARNING),
    Check("min-job-age", Group.SLURM, of_slurm_conf.job_memory, _WARNING),
    Check("fast-starts", Group.SLURM, of_slurm_conf.fast_starts, _WARNING),
    Check("preemption", Group.SLURM, of_slurm_conf.preemption, _WARNING),
    Check("guard", Group.SLURM, of_slurm_conf.guard, _WARNING),
    Check("gres", Group.SLURM, of_slurm.gres, _WARNING),
    Check("accounting", Group.SLURM, of_slurm_conf.accounting, _NOTE),
    Check("slurm-nodes", Group.SLURM, of_slurm.nodes, _ERROR),
    Check("kubernetes-api", Group.KUBERNETES, of_kube.api_server, _ERROR),
    Check("rights", Group.KUBERNETES, of_kube.rights_granted, _ERROR),
    Check("namespaces", Group.KUBERNETES, of_kube.served, _WARNING),
    Check("own-namespace", Group.KUBERNETES, of_kube.namespace_known, _ERROR),
    Check("admission", Group.KUBERNETES, of_kube.admission, _WARNING),
    Check("node-mapping", Group.BOTH, of_both.mapping, _ERROR),
    Check("node-readiness", Group.BOTH, of_both.readiness, _WARNING),
    Check("capacity", Group.BOTH, of_both.capacity, _WARNING),
    Check("foreign-pods", Group.BOTH, of_both.foreign_pods, _WARNING),
    Check("clocks", Group.BOTH, of_both.clocks, _WARNING),
    Check("policy-file", Group.BOTH, of_both.policy, _ERROR),
    Check("scheduler", Group.BOTH, of_both.scheduler_ready, _ERROR),
)


def run_checks(facts: Facts) -> list[Finding]:
    """What all checks say."""
    return [
        Finding(check.name, check.group, said.severity, plain(said.what), plain(said.remedy))
        for check in CHECKS
        for said in check.look(facts)
    ]
