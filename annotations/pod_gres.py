"""Which devices a pod asks Slurm for, such as "gres/gpu:h100:2".

They are counted from the containers' resources (`resources.py`), or named by the annotation
`gres`. `slurmapi/submission.py` sends the text as the job's `tres_per_node`. What the nodes of
Slurm have is read in `scheduler/core/node_gres.py`.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

# Slurm shares out the devices of `gpu` under the last two names, too (gres.conf(5)).
_GPU_NAMES: Final = frozenset({"gpu", "mps", "shard"})

Devices = Mapping[str, int]
"""The count of each gres, such as "gpu" or "gpu:h100"."""


def devices_of(explicit: str | None, counted: Devices) -> Devices:
    """What the pod asks for. A gres that the annotation names (`explicit`) replaces the one that is
    counted from the pod's resources.
    """
    named = _counts(explicit)
    bases = set(map(_base, named))
    return {gres: n for gres, n in counted.items() if _base(gres) not in bases} | named


def gres_text(devices: Devices) -> str | None:
    """The devices as Slurm's job submission takes them; None without devices."""
    return ",".join(f"gres/{gres}:{count}" for gres, count in devices.items()) or None


def gpus_in(devices: Devices) -> int:
    """How many GPUs these are, of all types."""
    return _count(devices, "gpu")


def uses_gpus(devices: Devices) -> bool:
    """Whether any of these is a GPU or a part of one."""
    return not _GPU_NAMES.isdisjoint(map(_base, devices))


def asks_for_gpus(gres: str | None) -> bool:
    """The same of devices as in JobRequest (`gres_text`)."""
    return uses_gpus(_counts(gres))


def gres_contradictions(
    explicit: str | None, counted: Devices, *, mapped: Collection[str]
) -> Iterator[str]:
    """What the annotation would have to say instead, for each of its contradictions. `mapped` are
    the gres of the site's resources. Those with a type stand for one resource, so a pod must not
    name them for another, such as a slice of a GPU for a whole one.
    """
    named = _counts(explicit)
    mixed = [name for name in named if ":" in name and _base(name) in named]
    if mixed:
        yield f"{_base(mixed[0])} with a type, or without one, but not both"
    for name in dict.fromkeys(map(_base, named)):
        asked, held = _count(named, name), _count(counted, name)
        if held and asked != held:
            yield f"{name} as often as the containers ask for it: {held}"
        elif held:
            yield from _misnamed(name, named, counted, mapped)


def _misnamed(
    name: str, named: Devices, counted: Devices, mapped: Collection[str]
) -> Iterator[str]:
    for gres in sorted({it for it in mapped if ":" in it and _base(it) == name}):
        held = counted.get(gres, 0)
        if named.get(gres, 0) != held:
            yield f"{gres} as often as the containers ask for it: {held}"


def _counts(explicit: str | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in filter(None, (explicit or "").split(",")):
        gres, _, count = entry.removeprefix("gres/").rpartition(":")
        counts[gres] = counts.get(gres, 0) + int(count)
    return counts


def _base(gres: str) -> str:
    return gres.partition(":")[0]


def _count(devices: Devices, name: str) -> int:
    return sum(count for gres, count in devices.items() if _base(gres) == name)
