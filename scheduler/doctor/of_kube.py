"""The checks of Kubernetes alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import TypeAdapter, ValidationError

from scheduler.config.settings import Seconds, Settings
from scheduler.doctor.facts import AdmissionPolicy, Facts, Unread
from scheduler.doctor.finding import CheckResult, error, note, ok, some, warning
from scheduler.doctor.read_kube import MOST_NAMESPACES
from scheduler.doctor.rights import Right

_RUNBOOK: Final = "docs/runbooks.md#slurmpodschedulernoanswerfromkubernetes"
_GRANT: Final = (
    "grant it: deploy/manifests, docs/security.md#rights-in-kubernetes. The credentials that were "
    "asked are those of this command; `kubectl exec` into the scheduler's pod asks with its own"
)
_DURATIONS: Final = TypeAdapter[float](Seconds)
_POLICIES: Final = "docs/admission.md#install"


def api_server(facts: Facts) -> Iterator[CheckResult]:
    """The API server answers."""
    version = facts.kube.version
    if isinstance(version, Unread):
        yield error(version.why, _RUNBOOK)
        return
    yield ok(f"{facts.kube.server} is Kubernetes {version}")


def rights_granted(facts: Facts) -> Iterator[CheckResult]:
    """These credentials have each right that the scheduler needs (SelfSubjectAccessReview)."""
    found = facts.kube.rights
    if isinstance(found, Unread):
        if found.why:
            yield error(f"the API server cannot be asked about rights: {found.why}", _RUNBOOK)
        return
    lacking = [it for it, granted in found.items() if not granted]
    needed = [it for it in lacking if it.needed]
    if needed:
        yield error(f"{len(needed)} rights are missing: {_listed(needed)}", _GRANT)
    if len(needed) < len(lacking):
        yield note(
            "these rights are missing, and the scheduler works without them: "
            f"{_listed(it for it in lacking if not it.needed)}",
            _GRANT,
        )
    if not lacking:
        yield ok(f"all {len(found)} rights are granted")


def _listed(lacking: Iterable[Right]) -> str:
    """The missing rights by their purpose."""
    purposes: dict[str, list[str]] = {}
    for right in lacking:
        purposes.setdefault(right.purpose, []).append(str(right))
    return "; ".join(f"{some(it, most=4)} ({purpose})" for purpose, it in purposes.items())


def served(facts: Facts) -> Iterator[CheckResult]:
    """The namespaces of --watch-namespace exist."""
    names, absent = facts.settings.watch_namespace, facts.kube.absent
    if isinstance(absent, Unread) or not names:
        return
    if len(names) > MOST_NAMESPACES:
        yield note(f"of {len(names)} served namespaces the first {MOST_NAMESPACES} were looked at")
    if absent:
        yield warning(
            f"--watch-namespace names {some(list(absent))}, which do not exist",
            "correct --watch-namespace, or create them",
        )
    else:
        yield ok(f"pods of {some(list(names))} are served, which exist")


def namespace_known(facts: Facts) -> Iterator[CheckResult]:
    """The scheduler's own namespace is known, where rights or the election need it."""
    settings, own = facts.settings, facts.kube.own_namespace
    if own or isinstance(facts.kube.version, Unread):
        return
    if settings.leader_elect and not settings.leader_elect_resource_namespace:
        yield error(
            "--leader-elect is given, and no namespace for its Lease is known",
            "--own-namespace, the namespace that the scheduler runs in",
        )
    elif settings.watch_namespace and not settings.cluster_id:
        yield note(
            "the scheduler's own namespace is not known, so its rights there were not looked at",
            "--own-namespace, the namespace that the scheduler runs in",
        )


def admission(facts: Facts) -> Iterator[CheckResult]:
    """The admission policies are in force, with the settings of the scheduler."""
    policies = facts.kube.policies
    if isinstance(policies, Unread):
        if policies.cause == "denied":
            yield note("these credentials may not read admission policies", _POLICIES)
        elif policies.why:
            yield note(f"admission policies could not be read: {policies.why}", _POLICIES)
        return
    if not policies:
        yield note(
            f"no admission policy is for pods of {facts.settings.scheduler_name}: what Slurm "
            "cannot run is refused after kubectl apply only, on the pod",
            _POLICIES,
        )
        return
    loose = [it.name for it in policies if not it.bound]
    if loose:
        yield warning(f"admission policies without a binding: {some(loose)}", _POLICIES)
    wrong = [text for it in policies for text in _differences(it, facts.settings)]
    if wrong:
        yield warning(
            f"admission policies differ from the scheduler's settings: {some(wrong)}",
            f"render them again with the scheduler's settings: {_POLICIES}",
        )
    if not loose and not wrong:
        yield ok(f"admission policies: {some([it.name for it in policies])}")


def _differences(policy: AdmissionPolicy, settings: Settings) -> Iterator[str]:
    """Settings of the policy that are not those of the scheduler."""
    wanted = {
        "slurm-kill-wait": f"{settings.slurm_kill_wait:g}s",
        "termination-offset": f"{settings.termination_offset:g}s",
        "grace-policy": _grace_policy(settings),
        "annotation-prefix": settings.annotation_prefix,
    }
    for name, value in wanted.items():
        given = policy.settings.get(name, value)
        if given != value and _seconds(given) != _seconds(value):
            yield f"{policy.name} has {name} {given!r} for {value!r}"


def _grace_policy(settings: Settings) -> str:
    """Without the hooks API there is no guard, so `auto` is then what `strict` is."""
    is_auto = settings.grace_policy == "auto"
    return "strict" if is_auto and not settings.serves_hooks else settings.grace_policy


def _seconds(text: str) -> float | str:
    """A duration in seconds; the text itself if it is none."""
    try:
        return _DURATIONS.validate_python(text)
    except ValidationError:
        return text
