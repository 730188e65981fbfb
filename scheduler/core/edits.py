"""What was edited on a waiting pod, and which of those edits its pending job can take.

The job's owner tag has a digest of each field that the job was submitted with. So any process
notices an edit, it is carried out once, and changes by an operator in Slurm are left alone. The
excluded nodes of a waiting job have no digest: `waiting.py` has them follow the Nodes that suit the
pod, whoever has set them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import fields

from annotations import PREFIX, JobRequest
from annotations.keys import DEFINITIONS
from annotations.node_list import NodeNames
from scheduler.core.tagged import TaggedJob
from slurmapi.model import Job

# The fields that Slurm lets us change on a pending job (measured on 26.05.5 and 24.11.5, external
# and batch jobs).
IN_PLACE: Final = frozenset(
    {
        *("partition", "account", "qos", "reservation", "comment", "time_limit_minutes"),
        *("priority", "nice", "hold"),
    }
)
# What a job is charged to. For an operator like us Slurm accepts any value on a pending job without
# a check, so it is checked by a trial before.
CHARGED: Final = frozenset({"account", "qos"})
# The other fields have a site default that we do not know, so they cannot be removed.
_REMOVABLE: Final = CHARGED | {"reservation", "comment", "priority", "nice", "hold"}
_DIGEST_BYTES: Final = 4
# No value has this digest, so the field counts as edited in any case.
_UNSETTLED: Final = "?"
# If two annotations fill one field, SUNK's is the first.
_KEYS: Final = {definition.field: definition.key for definition in reversed(DEFINITIONS)}
# Slurm does not get these, so an edit concerns no job.
_OUR_OWN: Final = frozenset({"gang_lost_slot"})
# The fields that request something, without those that only describe the request.
_FIELDS: Final = tuple(
    it for it in fields(JobRequest) if it.name not in JobRequest.ASIDE | _OUR_OWN
)


@dataclass(frozen=True, slots=True)
class Edit:
    """Edited fields of JobRequest: those to be updated `in_place`, and those that need a new job
    (`anew`).
    """

    in_place: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()


# Bounded, because a request may have some 20 KB of text.
@lru_cache(maxsize=512)
def digests(request: JobRequest) -> Mapping[str, str]:
    """A short digest of each field that differs from its default. The result must not be
    changed.
    """
    return {name: _digest(value) for name, value in _fields_set(request)}


def edit_of(record: TaggedJob, request: JobRequest) -> Edit:
    """How the request differs from the job's last submit or update.

    Tags of old versions have no digests; such a job counts as not edited.
    """
    tag = record.tag
    if tag is None or not tag.asked:
        return Edit()
    now = digests(request)
    changed = _changed_fields(tag.asked, request)
    in_place = [
        name for name in changed if name in IN_PLACE and (name in now or name in _REMOVABLE)
    ]
    anew = [name for name in changed if name not in in_place]
    return Edit(tuple(in_place), tuple(anew))


def asks_the_same(before: Mapping[str, str], request: JobRequest) -> bool:
    """Whether a job with these digests was submitted or last updated with the same request."""
    return not _changed_fields(before, request)


def _changed_fields(before: Mapping[str, str], request: JobRequest) -> list[str]:
    now = digests(request)
    return [
        field.name
        for field in _FIELDS
        if before.get(field.name) != now.get(field.name)
        and not _was_spelled_otherwise(field.name, before, request)
    ]


def _was_spelled_otherwise(name: str, before: Mapping[str, str], request: JobRequest) -> bool:
    """Whether only the spelling of the path differs: versions up to 8810b89 made the digest from
    the path as its author wrote it.
    """
    path = request.working_directory
    if name != "working_directory" or path is None:
        return False
    slashes = (*(at for at, letter in enumerate(path) if letter == "/"), len(path))
    return before.get(name) in {_digest(f"{path[:at]}/{path[at:]}") for at in slashes}


def asked_after(
    before: Mapping[str, str], request: JobRequest, taken: tuple[str, ...]
) -> dict[str, str]:
    """The digests of the tag once Slurm has accepted these fields of the request."""
    now = digests(request)
    kept = {name: digest for name, digest in before.items() if name not in taken}
    return kept | {name: now[name] for name in taken if name in now}


def asked_meanwhile(before: Mapping[str, str], changed: tuple[str, ...]) -> dict[str, str]:
    """The digests while these fields are being changed: until an update is confirmed, nobody knows
    which values the job has.
    """
    return {**before, **dict.fromkeys(changed, _UNSETTLED)}


def called(name: str, request: JobRequest) -> str:
    """The annotation for this field that the pod has or could have; otherwise what the field is
    about.
    """
    key = _KEYS.get(name)
    otherwise = f"{PREFIX}{key}" if key is not None else f"{name} (the pod's resources)"
    return request.keys.get(name, otherwise)


def differences(record: Job, request: JobRequest) -> Iterator[str]:
    """One text for each field in which the job in Slurm differs from the pod's request: Slurm
    ignored the value, or a plugin or an operator changed it.
    """
    for name, shown in _recorded_values(record).items():
        wanted = getattr(request, name)
        if wanted is not None and _plain(name, wanted) != _plain(name, shown):
            yield f"{called(name, request)} is {wanted!r}, the job's is {shown or 'none'!r}"


def _recorded_values(record: Job) -> dict[str, object]:
    return {
        "partition": record.partition,
        "account": record.account,
        "qos": record.qos,
        "reservation": record.reservation,
    }


def _plain(name: str, value: object) -> object:
    """A form to compare: Slurm sorts the names of partitions, and lower-cases accounts and QoS."""
    text = str(value or "").casefold()
    return frozenset(text.split(",")) if name == "partition" else text


def _fields_set(request: JobRequest) -> Iterator[tuple[str, object]]:
    """Each field that has no default or differs from its default, with its value."""
    for field in _FIELDS:
        default = field.default
        if default is NODEFAULT and field.default_factory is not NODEFAULT:
            default = field.default_factory()
        value = getattr(request, field.name)
        if default is NODEFAULT or value != default:
            yield field.name, value


def _digest(value: object) -> str:
    # The digest is of the expanded names and not of their spelling. Versions that stored a tuple
    # did the same.
    plain = tuple(value) if isinstance(value, NodeNames) else value
    return hashlib.blake2s(msgspec.json.encode(plain), digest_size=_DIGEST_BYTES).hexdigest()
