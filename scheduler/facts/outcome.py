"""How a pod ended, in a few words for Slurm's users: the text for its job's comment."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.kube.wire import ContainerStatus, Pod, StateTerminated

# The kubelet's reason for every exit with a code above 0; the code itself says more.
_PLAIN = frozenset({"", "Completed", "Error"})


def outcome_of(pod: Pod) -> str:
    """A text such as "pod Failed: container main exit 137 OOMKilled"; "" if the pod is neither
    finished nor being deleted.

    The kubelet reports Failed for a deleted pod too, so a deletion is checked first.
    """
    if pod.metadata.deletion_timestamp is None:
        return _with_details(f"pod {pod.status.phase}", pod) if pod.finished else ""
    return _with_details(
        "pod deleted" if pod.spec.node_name else "pod deleted before it was bound", pod
    )


def _with_details(what: str, pod: Pod) -> str:
    disrupted = pod.condition("DisruptionTarget")
    details = [
        pod.status.reason,  # of the whole pod, such as Evicted or DeadlineExceeded
        disrupted.reason if disrupted is not None and disrupted.status == "True" else "",
        *_exits((*pod.status.init_container_statuses, *pod.status.container_statuses)),
    ]
    said = ", ".join(dict.fromkeys(detail for detail in details if detail))
    return f"{what}: {said}" if said else what


def _exits(statuses: Iterable[ContainerStatus]) -> list[str]:
    ends = [(it.name, it.state.terminated) for it in statuses]
    return [_exit(name, end) for name, end in ends if end is not None and end.exit_code != 0]


def _exit(name: str, end: StateTerminated) -> str:
    why = "" if end.reason in _PLAIN else f" {end.reason}"
    return f"container {name} exit {end.exit_code}{why}"
