"""What was changed on a pod that waits, and what of it its pending job can take.

The owner tag of a job remembers what it was asked for, a digest for each field. So any process sees
an edit, it is carried out once, and what an operator changes in Slurm is not fought.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from typing import Final

import msgspec

from annotations import PREFIX, JobRequest
from annotations.keys import DEFINITIONS
from annotations.node_list import NodeNames
from scheduler.core.tagged import TaggedJob
from slurmapi.model import Job

# What Slurm takes of a pending job (measured on 26.05.5 and 24.11.5, external and batch jobs).
IN_PLACE: Final = frozenset(
    {
        *("partition", "account", "qos", "reservation", "comment", "time_limit_minutes"),
        *("priority", "nice", "hold"),
    }
)
# What a job is charged to. Of an operator, as we are, Slurm takes it for a pending job unseen, so
# that it is to be judged before.
CHARGED: Final = frozenset({"account", "qos"})
# The others have a default of the site's that we do not know, so that they cannot be taken away.
_REMOVABLE: Final = CHARGED | {"reservation", "comment", "priority", "nice", "hold"}
_DIGEST_BYTES: Final = 4
# No field has this digest: whatever the pod asks for by then is an edit.
_UNSETTLED: Final = "?"
# Of two that fill one field the first is SUNK's.
_KEYS: Final = {definition.field: definition.key for definition in reversed(DEFINITIONS)}
# What a request asks for, and not what it says about itself.
_FIELDS: Final = tuple(field for field in fields(JobRequest) if field.compare)


@dataclass(frozen=True, slots=True)
class Edit:
    """Fields of JobRequest: those to be updated `in_place`, and those that need a job `anew`."""

    in_place: tuple[str, ...] = ()
    anew: tuple[str, ...] = ()


# A request may be some 20 KB of texts.
@lru_cache(maxsize=512)
def digests(request: JobRequest) -> Mapping[str, str]:
    """A short digest of each field that is not at its default; not to be changed."""
    return {name: _digest(value) for name, value in _fields_set(request)}


def edit_of(record: TaggedJob, request: JobRequest) -> Edit:
    """How the request differs from what the job was last asked for.

    A tag of a version without digests tells nothing, and its job is left as it is.
    """
    tag = record.tag
    if tag is None or not tag.asked:
        return Edit()
    now = digests(request)
    changed = _changed(tag.asked, request)
    in_place = [
        name for name in changed if name in IN_PLACE and (name in now or name in _REMOVABLE)
    ]
    anew = [name for name in changed if name not in in_place]
    return Edit(tuple(in_place), tuple(anew))


def asks_the_same(before: Mapping[str, str], request: JobRequest) -> bool:
    """Whether the request is the one that these digests were made of."""
    return not _changed(before, request)


def _changed(before: Mapping[str, str], request: JobRequest) -> list[str]:
    now = digests(request)
    return [
        field.name
        for field in _FIELDS
        if before.get(field.name) != now.get(field.name)
        and not _was_spelled_otherwise(field.name, before, request)
    ]


def _was_spelled_otherwise(name: str, before: Mapping[str, str], request: JobRequest) -> bool:
    """Versions up to 8810b89 made the digest of a path as its author had written it."""
    path = request.working_directory
    if name != "working_directory" or path is None:
        return False
    slashes = (*(at for at, letter in enumerate(path) if letter == "/"), len(path))
    return before.get(name) in {_digest(f"{path[:at]}/{path[at:]}") for at in slashes}


def asked_after(
    before: Mapping[str, str], request: JobRequest, taken: tuple[str, ...]
) -> dict[str, str]:
    """The digests of a job that has taken these fields of the request."""
    now = digests(request)
    kept = {name: digest for name, digest in before.items() if name not in taken}
    return kept | {name: now[name] for name in taken if name in now}


def asked_meanwhile(before: Mapping[str, str], changed: tuple[str, ...]) -> dict[str, str]:
    """The digests of a job of which these fields are about to be changed. Until one was taken,
    nobody can tell what the job was asked for last.
    """
    return {**before, **dict.fromkeys(changed, _UNSETTLED)}


def called(name: str, request: JobRequest) -> str:
    """The annotation that the pod has for a field, or could have; or what the field is about."""
    key = _KEYS.get(name)
    otherwise = f"{PREFIX}{key}" if key is not None else f"{name} (the pod's resources)"
    return request.keys.get(name, otherwise)


def differences(record: Job, request: JobRequest) -> Iterator[str]:
    """Where Slurm shows something else than the pod asks for: it has ignored it, a plugin of the
    site or an operator has changed it.
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
    """Slurm sorts the names of partitions, and has those of accounts and QoS in small letters."""
    text = str(value or "").casefold()
    return frozenset(text.split(",")) if name == "partition" else text


def _fields_set(request: JobRequest) -> Iterator[tuple[str, object]]:
    for field in _FIELDS:
        default = field.default
        if default is MISSING and field.default_factory is not MISSING:
            default = field.default_factory()
        value = getattr(request, field.name)
        if default is MISSING or value != default:
            yield field.name, value


def _digest(value: object) -> str:
    # By the names and not by how they are written, as the versions did that kept them as a tuple.
    plain = tuple(value) if isinstance(value, NodeNames) else value
    return hashlib.blake2s(msgspec.json.encode(plain), digest_size=_DIGEST_BYTES).hexdigest()
