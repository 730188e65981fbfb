"""Finds the objects in a document, and the pod templates in each object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.migrate.changes import Path, at, mapping_at

_EACH: Final = "*"
_POD_TEMPLATE: Final[Path] = ("spec", "template")
_JOB_TEMPLATE: Final[Path] = ("spec", "jobTemplate")
_OF_LWS: Final[Path] = ("spec", "leaderWorkerTemplate")
_METADATA: Final[Path] = ("metadata",)
# By API group and kind. `*` stands for each item of a list.
TEMPLATES: Final[Mapping[tuple[str, str], tuple[Path, ...]]] = {
    ("", "Pod"): ((),),
    ("", "ReplicationController"): (_POD_TEMPLATE,),
    ("apps", "Deployment"): (_POD_TEMPLATE,),
    ("apps", "StatefulSet"): (_POD_TEMPLATE,),
    ("apps", "DaemonSet"): (_POD_TEMPLATE,),
    ("apps", "ReplicaSet"): (_POD_TEMPLATE,),
    ("batch", "Job"): (_POD_TEMPLATE,),
    ("batch", "CronJob"): ((*_JOB_TEMPLATE, *_POD_TEMPLATE),),
    ("jobset.x-k8s.io", "JobSet"): (("spec", "replicatedJobs", _EACH, "template", *_POD_TEMPLATE),),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        (*_OF_LWS, "leaderTemplate"),
        (*_OF_LWS, "workerTemplate"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An object with pods, or with what looks like pod templates if the kind is not `known`.

    `title` is how messages name it. `root` is the metadata from which slurm-bridge reads the
    annotations of its pods; `above` is other metadata, which nobody reads. For a pod, `root` is the
    metadata of the only template.
    """

    kind: str
    title: str
    path: Path
    root: Path
    above: tuple[Path, ...]
    templates: tuple[Path, ...]
    known: bool


def title_of(item: Mapping[Any, Any]) -> str:
    """How messages name an object."""
    kind, name = item.get("kind") or "", mapping_at(item, _METADATA).get("name") or ""
    return f"{_printable(kind)}/{_printable(name)}" if name else _printable(kind)


def objects_in(data: Any, path: Path = ()) -> Iterator[tuple[Path, Mapping[Any, Any]]]:
    """Each object of the document with its place: the items of a List, else the document."""
    if not isinstance(data, Mapping):
        return
    items = data.get("items")
    if isinstance(items, list) and str(data.get("kind", "")).endswith("List"):
        for index, item in enumerate(items):
            yield from objects_in(item, (*path, "items", index))
    else:
        yield path, data


def workload(item: Mapping[Any, Any], path: Path) -> Workload | None:
    """The object as a workload; None if it has no pod template."""
    kind, group = str(item.get("kind", "")), str(item.get("apiVersion", "")).rpartition("/")[0]
    known = TEMPLATES.get((group, kind))
    found = _expanded(item, known) if known is not None else _search(item)
    templates = tuple(it for it in found if _is_template(at(item, it)))
    if not kind or not templates:
        return None
    inner = (*_JOB_TEMPLATE, *_METADATA) if kind == "CronJob" else _METADATA
    return Workload(
        kind=_printable(kind),
        title=title_of(item),
        path=path,
        root=(*path, *inner),
        above=() if inner == _METADATA else ((*path, *_METADATA),),
        templates=tuple((*path, *it) for it in templates),
        known=known is not None,
    )


def _is_template(found: Any) -> bool:
    """Whether a change can be made in it: its metadata may be missing, but is nothing else."""
    metadata = at(found, _METADATA)
    own = at(metadata, ("annotations",))
    return isinstance(at(found, ("spec", "containers")), list) and all(
        it is None or isinstance(it, Mapping) for it in (metadata, own)
    )


def _expanded(item: Any, patterns: tuple[Path, ...]) -> Iterator[Path]:
    for pattern in patterns:
        if _EACH not in pattern:
            yield pattern
            continue
        cut = pattern.index(_EACH)
        found = at(item, pattern[:cut])
        for index in range(len(found) if isinstance(found, list) else 0):
            yield (*pattern[:cut], index, *pattern[cut + 1 :])


def _search(data: Any, path: Path = ()) -> Iterator[Path]:
    if _is_template(data):
        yield path
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _search(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _search(value, (*path, index))


def _printable(found: object) -> str:
    text = str(found)[:253]
    return text if text.isprintable() else ascii(text)
