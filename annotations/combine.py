"""Checks that the parts of a request fit together, after each part has been checked by itself."""

from collections.abc import Iterator, Mapping
from typing import Any

from annotations.model import JobRequest, Sharing
from annotations.quantity import divide_up
from annotations.resources import Resources


def combined(
    fields: Mapping[str, Any],
    resources: Resources,
    *,
    keys: Mapping[str, str],
    active_deadline_seconds: int | None,
) -> JobRequest:
    """The request of a pod. `fields` are the values of its annotations by JobRequest field, and
    `keys` the annotations they were read from.

    The kubelet ends the pod after `active_deadline_seconds`, so its job needs no longer time limit.
    """
    group = {"group_id": fields["user_id"]} if "user_id" in fields else {}
    limits = [fields.get("time_limit_minutes"), _minutes(active_deadline_seconds)]
    devices = _all_devices(fields, resources)
    return JobRequest(
        cpus=resources.cpus,
        memory_mib=resources.memory_mib,
        gpus=_gpus(devices),
        keys=keys,
        **{
            **group,
            **fields,
            "gres": _gres(devices),
            "time_limit_minutes": min((it for it in limits if it is not None), default=None),
        },
    )


def _minutes(seconds: int | None) -> int | None:
    """The time in Slurm's minutes, rounded up. The API server accepts one second or more."""
    return None if seconds is None else max(1, divide_up(seconds, 60))


def contradictions(
    fields: Mapping[str, Any], resources: Resources | None, *, keys: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Fields that contradict others, each with what would be accepted.

    `keys` are the annotations that the fields were read from. `resources` is None if the resources
    have problems of their own.
    """
    if fields.get("hold") and fields.get("priority"):
        yield "hold", f"no hold beside {keys['priority']}, for which Slurm forgets it"
    both = sorted({*fields.get("required_nodes", ())} & {*fields.get("excluded_nodes", ())})
    if both:
        yield "excluded_nodes", f"no node of {keys['required_nodes']}, such as {both[0]}"
    if resources is not None:
        yield from _about_devices(fields, resources)


def _about_devices(fields: Mapping[str, Any], resources: Resources) -> Iterator[tuple[str, str]]:
    explicit, counted = _gres_counts(fields), resources.devices
    mixed = [name for name in explicit if ":" in name and name.partition(":")[0] in explicit]
    if mixed:
        yield "gres", f"{mixed[0].partition(':')[0]} with a type, or without one, but not both"
    for name in dict.fromkeys(map(_base, explicit)):
        asked, held = _count(explicit, name), _count(counted, name)
        if held and asked != held:
            yield "gres", f"{name} as often as the containers ask for it: {held}"
    if fields.get("exclusive") is Sharing.OK and _gpus(_all_devices(fields, resources)):
        yield (
            "exclusive",
            "none or user, or no such annotation: a pod with GPUs cannot share them with other "
            "jobs, since Slurm and the kubelet each choose devices by themselves",
        )


def _all_devices(fields: Mapping[str, Any], resources: Resources) -> Mapping[str, int]:
    """The count of each gres, such as "gpu" or "gpu:h100". A gres that the pod names explicitly
    replaces the one counted from its resources.
    """
    explicit = _gres_counts(fields)
    named = set(map(_base, explicit))
    counted = {gres: n for gres, n in resources.devices.items() if _base(gres) not in named}
    return counted | explicit


def _gres_counts(fields: Mapping[str, Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in filter(None, (fields.get("gres") or "").split(",")):
        gres, _, count = entry.removeprefix("gres/").rpartition(":")
        counts[gres] = counts.get(gres, 0) + int(count)
    return counts


def _base(gres: str) -> str:
    return gres.partition(":")[0]


def _count(devices: Mapping[str, int], name: str) -> int:
    return sum(count for gres, count in devices.items() if _base(gres) == name)


def _gpus(devices: Mapping[str, int]) -> int:
    return _count(devices, "gpu")


def _gres(devices: Mapping[str, int]) -> str | None:
    return ",".join(f"gres/{gres}:{count}" for gres, count in devices.items()) or None
