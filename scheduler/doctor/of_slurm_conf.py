"""The checks of slurm.conf, as far as Slurm shows it (version v0.0.45 of its API)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from annotations.grace import USUAL_GRACE, longest_grace
from scheduler.config.annotation_rules import rules_of
from scheduler.config.settings import Settings
from scheduler.doctor.facts import Facts, Unread
from scheduler.doctor.finding import CheckResult, note, ok, some, warning
from scheduler.hooks.heartbeat import Heartbeat
from scheduler.slurm.slurmctld import LEAST_JOB_AGE

_NO_ACCOUNTING: Final = frozenset({"", "accounting_storage/none"})
_ENFORCED: Final = frozenset({"associations", "limits", "qos"})
# What delays starts: the parameter, Slurm's default, and which values do.
_SLOW: Final[Mapping[str, tuple[int, Callable[[int], bool]]]] = {
    "batch_sched_delay": (3, lambda it: it > 0),
    "sched_interval": (60, lambda it: it > 5),
    "default_queue_depth": (100, lambda it: it < 500),
}
FAST: Final = (
    "batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=5,"
    "default_queue_depth=1000"
)
"""The SchedulerParameters that docs/operations.md recommends, with the measurements."""


def kill_wait(facts: Facts) -> Iterator[CheckResult]:
    """Slurm's KillWait is what --slurm-kill-wait says, and leaves room for pods' grace periods."""
    config, given = facts.slurm.conf, facts.settings.slurm_kill_wait
    seconds = None if config is None else config.kill_wait
    if isinstance(facts.slurm.version, Unread):
        return
    if seconds is None:
        yield note(
            f"KillWait is not shown by this Slurm: --slurm-kill-wait={given:g}s is believed",
            "compare it with `scontrol show config`",
        )
    elif seconds == given:
        yield ok(f"KillWait is {seconds} s, as --slurm-kill-wait says")
    else:
        yield warning(
            f"KillWait is {seconds} s, --slurm-kill-wait says {given:g} s: Slurm's own is used, "
            "and admission policies that were made with the setting differ from the scheduler",
            f"--slurm-kill-wait={seconds}s, and the same in the admission policies",
        )
    yield from _grace(facts.settings, seconds, _guard_of(facts))


def _grace(settings: Settings, seconds: int | None, guard: str) -> Iterator[CheckResult]:
    """The usual grace period must be acceptable, since most manifests say nothing about it."""
    rules = rules_of(settings)
    longest = longest_grace(rules if seconds is None else replace(rules, kill_wait_seconds=seconds))
    policy = settings.grace_policy
    if policy == "guarded" or longest >= USUAL_GRACE:
        return
    if policy == "auto" and guard and settings.serves_hooks:
        yield ok(
            f"pods may have a grace period of {USUAL_GRACE} s, Kubernetes' default, because the "
            "handover guard keeps their nodes"
        )
    else:
        yield note(
            f"pods may have a grace period of at most {max(longest, 0)} s, so Kubernetes' default "
            f"of {USUAL_GRACE} s is refused",
            "terminationGracePeriodSeconds in each pod, a default by docs/admission.md, a larger "
            "KillWait, or the guard: docs/annotations.md#the-grace-rule",
        )


def job_memory(facts: Facts) -> Iterator[CheckResult]:
    """Slurm remembers how jobs ended (MinJobAge) until that has been read, but not for ever."""
    config = facts.slurm.conf
    if config is None or config.min_job_age is None:
        return
    if config.min_job_age >= LEAST_JOB_AGE:
        yield ok(f"MinJobAge is {config.min_job_age} s")
        return
    if not config.min_job_age:
        yield warning(
            "MinJobAge is 0: Slurm forgets no job that has ended, and accepts no further job once "
            "there are as many as MaxJobCount",
            f"MinJobAge={LEAST_JOB_AGE} or more in slurm.conf",
        )
        return
    yield warning(
        f"MinJobAge is {config.min_job_age} s: Slurm forgets how a job ended before that is read, "
        "and its pod runs on",
        f"MinJobAge={LEAST_JOB_AGE} or more in slurm.conf",
    )


def fast_starts(facts: Facts) -> Iterator[CheckResult]:
    """SchedulerParameters let bursts of pods start quickly."""
    config = facts.slurm.conf
    if config is None:
        return
    slow = slow_parameters(config.scheduler_parameters)
    if not slow:
        yield ok("SchedulerParameters start bursts quickly")
        return
    yield warning(
        f"SchedulerParameters start bursts slowly: {', '.join(slow)}",
        f"SchedulerParameters={FAST}: docs/operations.md#slurm-for-fast-starts",
    )


def slow_parameters(given: Iterable[str]) -> list[str]:
    """The parameters that delay starts, with their values."""
    values = dict(it.partition("=")[::2] for it in given)
    found = [
        f"{name}={values[name]}" if name in values else f"{name} is not set ({usual})"
        for name, (usual, is_slow) in _SLOW.items()
        if is_slow(_whole_number(values.get(name, ""), but=usual))
    ]
    return [*found, *({"defer", "defer_batch"} & values.keys())]


def preemption(facts: Facts) -> Iterator[CheckResult]:
    """What Slurm does to the job of a pod when another job takes its place."""
    config = facts.slurm.conf
    if config is None:
        return
    modes = set(config.preempt_modes) - {"GANG", "WITHIN"}
    text = f"PreemptType is {config.preempt_type or 'none'}, PreemptMode {', '.join(sorted(modes))}"
    if not config.preempts:
        yield ok("jobs are not preempted (PreemptType)")
    elif "SUSPEND" in modes and facts.settings.suspend_policy == "keep":
        yield warning(
            f"{text}, and --suspend-policy=keep: pods run on beside the jobs that suspend theirs",
            "--suspend-policy=evict, or PreemptMode=CANCEL",
        )
    elif "SUSPEND" in modes:
        yield note(f"{text}: a pod whose job is suspended is deleted", "docs/endings.md")
    else:
        yield ok(text)


def guard(facts: Facts) -> Iterator[CheckResult]:
    """The handover guard: PrologSlurmctld and the hooks API, as far as nodes with a slurmd need
    it.
    """
    config, nodes = facts.slurm.conf, facts.slurm.nodes
    if config is None or isinstance(nodes, Unread):
        return
    prolog, ours = config.prolog_slurmctld, _guard_of(facts)
    with_slurmd = [it.name for it in nodes if "EXTERNAL" not in it.states]
    if ours:
        yield _of_our_prolog(prolog, facts.settings)
    elif not with_slurmd:
        yield ok("no node has a slurmd, so no handover guard is needed")
    elif prolog:
        yield note(
            f"PrologSlurmctld is {prolog}: whether it asks the handover guard is known to the "
            "running scheduler alone, once a job has started",
            "docs/install-slurm.md#install",
        )
    else:
        yield _without_a_guard(with_slurmd, facts.settings)


def _guard_of(facts: Facts) -> str:
    """How slurm.conf shows that PrologSlurmctld asks the handover guard; "" if it does not."""
    config = facts.slurm.conf
    if config is None:
        return ""
    return Heartbeat(
        listens=True, prolog=lambda: config.prolog_slurmctld, clock=lambda: 0.0
    ).installed


def _of_our_prolog(prolog: str, settings: Settings) -> CheckResult:
    if settings.serves_hooks:
        return ok(f"PrologSlurmctld is {prolog}")
    return warning(
        f"PrologSlurmctld is {prolog}, but the hooks API is off: nobody answers the handover "
        "guard, and each job waits for it",
        "--hooks-api-token-file, with the secret of the hooks: docs/install.md#the-hooks-api",
    )


def _without_a_guard(with_slurmd: list[str], settings: Settings) -> CheckResult:
    nodes = f"{len(with_slurmd)} nodes have a slurmd ({some(with_slurmd)})"
    remedy = "docs/install-slurm.md#the-handover-guard"
    if settings.placeholder_mode != "external":
        return note(f"there is no handover guard, and {nodes}: pods there get scripts", remedy)
    return warning(
        f"--placeholder-mode=external without a handover guard, and {nodes}: the next job starts "
        "there beside a pod that is still ending",
        remedy,
    )


def accounting(facts: Facts) -> Iterator[CheckResult]:
    """Whether Slurm checks accounts and charges somebody."""
    config = facts.slurm.conf
    if config is None or config.accounting_storage is None:
        return
    missing = sorted(_ENFORCED - set(config.accounting_enforce))
    if config.accounting_storage in _NO_ACCOUNTING:
        yield note(
            "there is no accounting: Slurm accepts any account and QoS, and charges nobody",
            "docs/prepare-slurm.md#5-accounts",
        )
    elif missing:
        yield note(
            f"AccountingStorageEnforce lacks {', '.join(missing)}: Slurm does not check these",
            "docs/prepare-slurm.md#5-accounts",
        )
    else:
        yield ok(f"{config.accounting_storage}, and associations, limits and QoS are enforced")


def _whole_number(text: str, *, but: int) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else but
