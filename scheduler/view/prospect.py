"""What comes next for a pod, the command to give next, and what only others know.

Meanings and remedies are those of the tables of reasons; a command that a remedy names in
backquotes is offered, with the pod's own job and names in it. Every word that comes from a pod is
quoted for a shell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Final

from annotations.keys import BY_KEY
from scheduler.core.event_reasons import MEANINGS, Reason
from scheduler.core.pending_reasons import STUCK, Why, label, why
from scheduler.kube.wire import OwnerReference
from scheduler.view.asked import annotation_keys
from scheduler.view.row import Names, Row, State
from scheduler.view.safe_text import shown
from scheduler.view.seen import Sighting

_CODE: Final = re.compile(r"`([^`]+)`")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_SLURM_TOOLS: Final = frozenset({"scontrol", "sinfo", "squeue", "sacctmgr"})
_JOB_ID: Final = re.compile(r"\bID\b")
_MOST_STEPS: Final = 3
_HELD: Final = "JobHeldUser"
_SIZE: Final = "the containers' resources"
_LABEL: Final = "app.kubernetes.io/name=slurm-pod-scheduler"
_PLAIN_KINDS: Final = frozenset({"apps/v1", "batch/v1"})
# The API server accepts any text as the kind and the name of an owner.
_OWNER: Final = re.compile(
    r"(?:[a-z][-a-z0-9.]*/)?v[a-z0-9]+ [A-Za-z][A-Za-z0-9]* [a-z0-9][-a-z0-9.]*", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and what it is for."""

    what: str
    command: str


@dataclass(frozen=True, slots=True)
class Prospect:
    """What comes next by itself, and commands, the most useful first."""

    what: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """The pod that is looked at. `row` is None if it is gone. `scheduler` is the name of ours."""

    seen: Sighting
    row: Row | None
    names: Names
    scheduler: str

    @property
    def where(self) -> str:
        """The pod as words of a kubectl command."""
        return f"-n {quote(self.seen.namespace)} pod/{quote(self.seen.name)}"


def meaning_of(reason: str) -> Why | None:
    """What a reason means and what to do about it: one of Slurm's, or one of the scheduler's."""
    known = why(reason)
    if known is not None or reason not in set(Reason):
        return known
    found = MEANINGS[Reason(reason)]
    return Why(_LINK.sub(r"\1", found.meaning), _LINK.sub(r"\1", found.remedy))


def prospect(case: Case) -> Prospect:
    """What comes next."""
    row = case.row
    if row is None:
        return Prospect(f"The pod does not exist any more. {_after(case)}", (_queue(case),))
    match row.state:
        case State.PENDING:
            return Prospect(_while_it_waits(case, row), tuple(_steps(case, row))[:_MOST_STEPS])
        case State.CONFIGURING:
            what = "The pod is bound; its kubelet prepares the containers (volumes, images)."
            return Prospect(what, (_describe(case),))
        case State.RUNNING:
            return Prospect(_runs(row), (Step("see what it does", f"kubectl logs {case.where}"),))
        case State.COMPLETING:
            what = f"The pod goes once its containers have stopped. {_after(case)}"
            return Prospect(what, (_queue(case),))
        case State.UNKNOWN:
            what = (
                "Its kubelet has not reported for a long time, so the pod's state is not known: "
                "look at its Node."
            )
            return Prospect(what, (Step("see why", f"kubectl describe node {quote(row.node)}"),))
        case _:
            return Prospect(
                f"The pod has ended, and its Slurm job is cancelled. {_after(case)}",
                (Step("see what it said", f"kubectl logs {case.where}"),),
            )


def _runs(row: Row) -> str:
    if row.ends_at is None:
        return "The pod runs until it ends by itself, or Slurm ends its job."
    return f"The pod runs until it ends by itself; Slurm ends it at {row.ends_at:%F %T} UTC."


def _after(case: Case) -> str:
    owner = case.seen.owner
    if owner is not None:
        return f"{owner.kind} {owner.name} decides whether another pod follows."
    if case.seen.pod is None:
        return "If a controller made it, that decides whether another pod follows."
    return "No controller made it, so nobody makes it again."


def _while_it_waits(case: Case, row: Row) -> str:
    pod = case.seen.pod
    if pod is not None and pod.spec.scheduling_gates:
        gate = shown(pod.spec.scheduling_gates[0].name)
        return f"No scheduler serves it before its scheduling gate {gate} is removed."
    if not row.reason:
        return (
            "No scheduler has written anything on the pod yet. That takes a few seconds. If it "
            "takes longer than a minute, no scheduler runs that serves the schedulerName "
            f"{case.scheduler} in this namespace, or it has no right to write on pods."
        )
    if _needs_somebody(row):
        return "Waiting does not help: somebody must change something, as said above."
    if row.job is None:
        return "The scheduler goes on by itself once the cause is gone."
    return (
        "Slurm starts the job by itself once that has changed, and the scheduler binds the pod "
        "within seconds."
    )


def _needs_somebody(row: Row) -> bool:
    return label(row.reason) in STUCK or row.reason == Reason.SCHEDULING_FAILED


def _steps(case: Case, row: Row) -> Iterator[Step]:
    """Commands for a pod that waits."""
    pod = case.seen.pod
    if pod is None or pod.spec.scheduling_gates:
        yield _describe(case)
    elif not row.reason:
        yield Step(
            "see whether a scheduler runs, if it was installed in this cluster",
            f"kubectl get pods -A -l {_LABEL}",
        )
        yield Step("see what is wrong (for the site)", "slurm-pod-scheduler doctor")
    elif _needs_somebody(row):
        yield from _edits(case, row)
        yield from _slurm_commands(row)
        yield _describe(case)
    elif why(row.reason) is None:  # Slurm has no such job in its queue
        yield from _edits(case, row)
        yield from _slurm_commands(row)
        if row.reason == Reason.NO_NODE_FITS:
            yield _partitions(case, "see how large the nodes are")
        else:
            yield from _waiting(case, row)
    else:
        yield from _waiting(case, row)
        yield from _edits(case, row)
        yield from _slurm_commands(row)


def _waiting(case: Case, row: Row) -> Iterator[Step]:
    wait = f"kubectl wait --for=condition=PodScheduled --timeout=1h {case.where}"
    yield Step("wait until it is bound", wait)
    if row.job is not None:
        partition = f" -p {quote(row.partition)}" if row.partition else ""
        yield Step("see who else waits", f"kubectl slurm queue -A -t PENDING{partition}")


def _partitions(case: Case, what: str) -> Step:
    return Step(what, f"kubectl slurm partitions -n {quote(case.seen.namespace)}")


def _edits(case: Case, row: Row) -> Iterator[Step]:
    """How to change what the reason is about: an annotation in place, or the template."""
    remedy = _remedy(row)
    key = next(_named_keys(case, row, remedy), None)
    if key is not None:
        yield Step(
            "change the annotation",
            f"kubectl annotate --overwrite {case.where} {_annotate_argument(key)}",
        )
        if key.rpartition("/")[2] == "partition":
            yield _partitions(case, "see which partitions there are")
    if _SIZE in row.message or ("template" in remedy and (key is None or "spec." in row.message)):
        yield _template(case)


def _annotate_argument(key: str) -> str:
    """What `kubectl annotate` takes to change the annotation: "KEY=VALUE", with VALUE to be filled
    in, or "KEY-", which removes it, if no annotation for Slurm has that name. A held pod is let go.
    """
    name = key.rpartition("/")[2]
    if name not in BY_KEY:
        return f"{quote(key)}-"
    return f"{quote(key)}={'false' if name == 'hold' else 'VALUE'}"


def _remedy(row: Row) -> str:
    known = meaning_of(row.reason)
    return "" if known is None else known.remedy


def _named_keys(case: Case, row: Row, remedy: str) -> Iterator[str]:
    """The pod's annotation that the message names; otherwise the one that the remedy names."""
    pod = case.seen.pod
    keys = {} if pod is None else annotation_keys(pod, case.names)
    if row.reason == _HELD:
        yield from (key for key, name in keys.items() if name == "hold")
    yield from (key for key in keys if key in row.message)
    by_name = {name: key for key, name in keys.items()}
    for word in _CODE.findall(remedy):
        if word in BY_KEY:
            yield by_name.get(word, f"{case.names.prefixes[0]}{word}")


def _template(case: Case) -> Step:
    owner, controller = case.seen.owner, case.seen.controller
    if owner is None:
        command = (
            f"kubectl get {case.where} -o yaml > pod.yaml; ${{EDITOR:-vi}} pod.yaml; "
            "kubectl replace --force -f pod.yaml"
        )
        return Step("change the pod, and create it again", command)
    above = () if controller is None else controller.owner_references
    top = next((it for it in above if it.controller), owner)
    if _OWNER.fullmatch(f"{top.api_version} {top.kind} {top.name}") is None:
        return _describe(case)
    edited = quote(f"{_kind(top)}/{top.name}")
    return Step("change the template", f"kubectl edit -n {quote(case.seen.namespace)} {edited}")


def _kind(owner: OwnerReference) -> str:
    """The kind as kubectl takes it; one that is not Kubernetes' own, with its version and group."""
    kind = owner.kind.lower()
    if owner.api_version in _PLAIN_KINDS:
        return kind
    group, _, version = owner.api_version.rpartition("/")
    return f"{kind}.{version}.{group}" if group else kind


def _slurm_commands(row: Row) -> Iterator[Step]:
    """The commands of Slurm that the remedy names, with the pod's job in them."""
    for command in _CODE.findall(_remedy(row)):
        known = row.job is not None or not _JOB_ID.search(command)
        if command.split(maxsplit=1)[0] in _SLURM_TOOLS and known:
            yield Step(_for_whom(row, command), _JOB_ID.sub(str(row.job), command))


def _for_whom(row: Row, command: str) -> str:
    """Who gives the command. Whoever creates a pod may write any job's id on it."""
    if command.startswith("scontrol release"):
        return f"for an operator of Slurm, if `squeue -j {row.job}` shows a job of this pod"
    return "with Slurm's tools"


def _queue(case: Case) -> Step:
    return Step("see what is there now", f"kubectl slurm queue -n {quote(case.seen.namespace)}")


def _describe(case: Case) -> Step:
    return Step("see the whole pod", f"kubectl describe {case.where}")
