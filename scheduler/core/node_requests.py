"""What a pod takes of a Node, counted as kube-scheduler's NodeResourcesFit counts it.

CPU is in thousandths, everything else in whole units, and each pod's sum is rounded up. The API
server has already set the defaults, so limits do not replace missing requests here. What the job in
Slurm asks for is counted in `annotations/resources.py`, its devices in `annotations/pod_gres.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from annotations.quantity import NANOS, divide_up, parse_quantity

Amounts = tuple[tuple[str, int], ...]
"""Resources and amounts, sorted. All pods of a template share one value."""

Given = Mapping[str, object]
"""Quantities by resource, as the API writes them."""

CPU: Final = "cpu"
PODS_RESOURCE: Final = "pods"
_MILLI: Final = NANOS // 1000
_HUGE_PAGES: Final = "hugepages-"
_OF_PODS: Final = frozenset({CPU, "memory"})
PLAIN: Final = frozenset({CPU, "memory", "ephemeral-storage"})
"""The resources that every Node has."""
# Resources are counted if they have one of these prefixes or a domain in their name.
_COUNTED: Final = (_HUGE_PAGES, "attachable-volumes-")
_NONE: Final[Given] = {}


class ContainerRequests(msgspec.Struct, frozen=True):
    """A container. `actuated` and `allocated` are the kubelet's report on a container that was
    resized; `actuated` is None if there is no report.
    """

    requests: Given
    restartable: bool = False
    actuated: Given | None = None
    allocated: Given = msgspec.field(default_factory=dict)


def requested(
    containers: Iterable[ContainerRequests],
    init_containers: Iterable[ContainerRequests] = (),
    *,
    whole: Given = _NONE,
    overhead: Given = _NONE,
    infeasible: bool = False,
) -> Amounts:
    """The amounts that the pod takes. `whole` is what the pod requests as a whole (pod-level
    resources). `infeasible` says that its Node refuses the resize.
    """
    needed: dict[str, int] = {}
    for container in containers:
        _add_amounts(needed, _effective(container, infeasible=infeasible))
    _with_init(needed, init_containers, infeasible=infeasible)
    needed.update(
        (name, amount)
        for name, amount in _amounts(whole).items()
        if name in _OF_PODS or name.startswith(_HUGE_PAGES)
    )
    _add_amounts(needed, _amounts(overhead))
    found = ((name, _rounded(name, amount)) for name, amount in needed.items() if is_counted(name))
    return tuple(sorted((name, amount) for name, amount in found if amount))


def is_counted(name: str) -> bool:
    """Whether kube-scheduler compares this resource with a Node's allocatable."""
    return name in PLAIN or "/" in name or name.startswith(_COUNTED)


def is_extended(name: str) -> bool:
    """Whether it is an extended resource, of a device plugin."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and not domain.endswith("kubernetes.io")


def allocatable(given: Given) -> dict[str, int]:
    """A Node's amounts, in the same units as `requested`."""
    return {name: _rounded(name, amount) for name, amount in _amounts(given).items()}


def _with_init(
    needed: dict[str, int], containers: Iterable[ContainerRequests], *, infeasible: bool
) -> None:
    """Add init containers: each runs together with the sidecars that were started before it."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in containers:
        # Resources that a container does not ask for need no new maximum, because sidecars only add
        # to them.
        if container.restartable:
            asked = _effective(container, infeasible=infeasible)
            _add_amounts(needed, asked)
            _add_amounts(sidecars, asked)
            beside = {name: sidecars[name] for name in asked}
        else:
            asked = _amounts(container.requests)
            beside = {name: amount + sidecars.get(name, 0) for name, amount in asked.items()}
        _raise_to(peak, beside)
    _raise_to(needed, peak)


def _effective(container: ContainerRequests, *, infeasible: bool) -> dict[str, int]:
    asked = _amounts(container.requests)
    if container.actuated is None:
        return asked
    found = {} if infeasible else asked
    _raise_to(found, _amounts(container.actuated))
    _raise_to(found, _amounts(container.allocated))
    return found


def _add_amounts(to: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, 0) + amount


def _raise_to(to: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        to[name] = max(to.get(name, amount), amount)


def _amounts(given: Given) -> dict[str, int]:
    return {name: _parsed_amount(str(quantity)) for name, quantity in given.items()}


@lru_cache(maxsize=4096)
def _parsed_amount(text: str) -> int:
    """The amount of a quantity; 0 for an invalid one, which the API server would not accept."""
    try:
        return parse_quantity(text)
    except ValueError:
        return 0


def _rounded(name: str, amount: int) -> int:
    return divide_up(amount, _MILLI if name == CPU else NANOS)
