"""Joins what annotations say with what the pod's spec says, and checks that both fit together.

Each part has been read and checked by itself before. GPUs and other devices are in `pod_gres.py`,
the time limit is in `time_limit.py`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from annotations.model import JobRequest, Sharing
from annotations.pod_gres import (
    devices_of,
    gpus_in,
    gres_contradictions,
    gres_text,
    uses_gpus,
)
from annotations.resources import Resources
from annotations.time_limit import time_limit_minutes


def combined(
    fields: Mapping[str, Any],
    resources: Resources,
    *,
    keys: Mapping[str, str],
    active_deadline_seconds: int | None,
) -> JobRequest:
    """The request of a pod. `fields` are the values of its annotations by JobRequest field, and
    `keys` the annotations they were read from.
    """
    group = {"group_id": fields["user_id"]} if "user_id" in fields else {}
    devices = devices_of(fields.get("gres"), resources.devices)
    limit = time_limit_minutes(fields.get("time_limit_minutes"), active_deadline_seconds)
    return JobRequest(
        cpus=resources.cpus,
        memory_mib=resources.memory_mib,
        gpus=gpus_in(devices),
        keys=keys,
        **{**group, **fields, "gres": gres_text(devices), "time_limit_minutes": limit},
    )


def contradictions(
    fields: Mapping[str, Any],
    resources: Resources | None,
    *,
    keys: Mapping[str, str],
    mapped: Collection[str],
) -> Iterator[tuple[str, str]]:
    """Fields that contradict others, each with what would be accepted.

    `keys` are the annotations that the fields were read from. `resources` is None if the resources
    have problems of their own. `mapped` are the gres of the site's resources.
    """
    if fields.get("hold") and fields.get("priority"):
        yield "hold", f"no hold beside {keys['priority']}, for which Slurm forgets it"
    both = sorted({*fields.get("required_nodes", ())} & {*fields.get("excluded_nodes", ())})
    if both:
        yield "excluded_nodes", f"no node of {keys['required_nodes']}, such as {both[0]}"
    if resources is not None:
        yield from _about_devices(fields, resources, mapped)


def _about_devices(
    fields: Mapping[str, Any], resources: Resources, mapped: Collection[str]
) -> Iterator[tuple[str, str]]:
    explicit = fields.get("gres")
    for expected in gres_contradictions(explicit, resources.devices, mapped=mapped):
        yield "gres", expected
    if fields.get("exclusive") is Sharing.OK and uses_gpus(devices_of(explicit, resources.devices)):
        yield (
            "exclusive",
            "none or user, or no such annotation: a pod with GPUs cannot share them with other "
            "jobs, since Slurm and the kubelet each choose devices by themselves",
        )
