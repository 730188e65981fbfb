"""The checks of Slurm alone, without those of slurm.conf."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from scheduler.core.node_gres import count_of, types_of
from scheduler.doctor.facts import Facts, Unread
from scheduler.doctor.finding import CheckResult, error, note, ok, some, warning
from scheduler.nodes.records import AWAY
from scheduler.slurm.causes import utc_text

_RUNBOOK: Final = "docs/runbooks.md#slurmpodschedulernoanswerfromslurm"
_RENEWAL: Final = "docs/install.md#renewing-the-token"
# As the alert SlurmPodSchedulerTokenExpiring has it.
_LEFT_SHARE: Final = 0.15
_ROOT: Final = "root"
_OFF: Final = "POWERED_DOWN"
"""Slurm powers such a node up for a job, unless it has another of these states."""
_OUT_OF_USE: Final = (AWAY - {_OFF}) | {"DRAIN", "FAIL", "NOT_RESPONDING", "UNKNOWN"}


def slurmrestd(facts: Facts) -> Iterator[CheckResult]:
    """slurmrestd answers, in a version that both sides speak, and slurmctld answers it."""
    slurm = facts.slurm
    if isinstance(slurm.version, Unread):
        yield error(slurm.version.why, _RUNBOOK)
        return
    release = "" if isinstance(slurm.ping, Unread) else slurm.ping.release
    yield ok(
        f"{slurm.where} is Slurm {release or '(unknown)'} with version {slurm.version} of its API; "
        f"ClusterName is {slurm.cluster or 'unknown'}"
    )
    if isinstance(slurm.ping, Unread):
        yield error(slurm.ping.why, _RUNBOOK)
    elif not slurm.ping.responding and not isinstance(slurm.nodes, Unread):
        yield warning(f"slurmrestd says that slurmctld is {slurm.ping.status}", "scontrol ping")
    if isinstance(slurm.nodes, Unread):
        yield error(slurm.nodes.why, _RUNBOOK)
    if not slurm.version.supports_external:
        yield note(
            f"version {slurm.version} of the API has no external jobs, so pods get jobs with "
            "scripts, which need a slurmd on each node",
            "Slurm 25.05 or newer: docs/install-slurm.md#placeholders-that-are-scripts",
        )


def token(facts: Facts) -> Iterator[CheckResult]:
    """The token can be read, is not about to expire, and can be renewed."""
    name, life = facts.slurm.token, facts.slurm.lifetime
    if isinstance(facts.slurm.version, Unread) and facts.slurm.version.cause == "token_missing":
        return  # the check slurm-api says so
    if math.isnan(life.expires_at):
        yield note(f"the token of {name} does not say when it expires")
        return
    left = life.expires_at - facts.now
    if left <= 0:
        yield error(f"the token of {name} expired at {utc_text(life.expires_at)}", _RENEWAL)
    elif left < _LEFT_SHARE * (life.expires_at - life.issued_at):
        yield warning(f"the token of {name} expires in {_span(left)}", f"renew it: {_RENEWAL}")
    else:
        yield ok(f"the token of {name} expires in {_span(left)}")
    if facts.settings.slurm_auth_token.get_secret_value():
        remedy = "--slurm-auth-token-file, with the token in a file that something renews"
        yield note(f"{name} holds the token itself: it cannot be renewed without a restart", remedy)


def token_rights(facts: Facts) -> Iterator[CheckResult]:
    """The token's user may write AdminComment. This is known only of root and SlurmUser: the doctor
    submits no job to try it.
    """
    user, config = facts.slurm.user, facts.slurm.conf
    if not user:
        return
    if user == _ROOT or (config is not None and user == config.slurm_user):
        yield ok(f"the token is that of {user}, who may do anything in Slurm")
        return
    yield note(
        f"the token is that of {user}, who may lack the right to write AdminComment",
        f"`sacctmgr show user {user} format=User,AdminLevel` must say Administrator; the scheduler "
        "tries it at its start, and /readyz says what is missing: docs/security.md#the-token",
    )


def gres(facts: Facts) -> Iterator[CheckResult]:
    """The GRES of --device-resources, and the types of --gpu-types, are those of Slurm's nodes."""
    if isinstance(facts.slurm.nodes, Unread):
        return
    there = [it.gres for it in facts.slurm.nodes]
    for resource, name in facts.settings.device_resources.items():
        count = sum(count_of(it, name) for it in there)
        if count:
            yield ok(f"{resource} is the GRES {name}, of which Slurm has {count}")
        else:
            yield note(
                f"{resource} is the GRES {name}, of which no Slurm node has any",
                "GresTypes, and Gres= on the nodes: docs/prepare-slurm.md#3-nodes; or "
                "--device-resources",
            )
    types = {it for gres in there for it in types_of(gres, name="gpu")}
    unknown = sorted(set(facts.settings.gpu_types.values()) - types)
    if unknown:
        yield warning(
            f"--gpu-types names {some(unknown)}, which no Slurm node has; it has "
            f"{some(sorted(types)) or 'no type'}",
            "correct --gpu-types, or Gres= of the nodes: docs/annotations.md#gpu-types",
        )


def nodes(facts: Facts) -> Iterator[CheckResult]:
    """Slurm has nodes, and they can start jobs."""
    if isinstance(facts.slurm.nodes, Unread):
        return
    if not facts.slurm.nodes:
        yield error("Slurm has no nodes", "docs/prepare-slurm.md#3-nodes")
        return
    out = sorted(it.name for it in facts.slurm.nodes if it.states & _OUT_OF_USE)
    off = sum(_OFF in it.states for it in facts.slurm.nodes)
    text = f"{len(facts.slurm.nodes)} nodes" + (f", {off} of them powered down" if off else "")
    if len(out) == len(facts.slurm.nodes):
        yield warning(
            f"{text}, of which none can start a job: {some(out)}", "`sinfo --list-reasons`"
        )
    elif out:
        yield note(
            f"{text}, of which {len(out)} start no job: {some(out)}", "`sinfo --list-reasons`"
        )
    else:
        yield ok(text)


def _span(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
