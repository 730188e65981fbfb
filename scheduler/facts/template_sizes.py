"""Finds the sizes of pods that do not exist yet, by reading their template as a pod is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from annotations import JobRequest, Problem
from groundwork.pauses import in_slices
from scheduler.core.gang_shape import Template
from scheduler.core.gang_sources import GroupRef
from scheduler.core.shapes import Expected, Size
from scheduler.facts.reader import RequestReader
from scheduler.kube.clip import clipped
from scheduler.kube.errors import KubeGarbled
from scheduler.kube.slim import slim
from scheduler.kube.wire import Pod, PodStatus, decode_pod

MOST_TEMPLATES: Final = 64
"""How many templates of one object are read. A gang has fewer sizes by far (`core.shapes`)."""

_WHY_BYTES: Final = 256


class TemplateSizes:
    """`prefixes` are those of the site's annotations. Only sizes are kept, not the templates."""

    def __init__(self, reader: RequestReader, *, prefixes: Sequence[str]) -> None:
        self._reader = reader
        self._prefixes = tuple(prefixes)

    async def of(self, templates: Iterable[Template], ref: GroupRef) -> tuple[Expected, ...]:
        """The sizes of the pods of these templates of the object, or why they are not known."""
        known: dict[bytes, Size | Problem] = {}
        sizes: list[Expected] = []
        async for template in in_slices(templates):
            if template.data not in known and len(known) < MOST_TEMPLATES:
                known[template.data] = self._size(template, ref)
            sizes.append(_expected_of(template, known.get(template.data)))
        return tuple(sizes)

    def _size(self, template: Template, ref: GroupRef) -> Size | Problem:
        request = self._request(template, ref)
        return Size.of(request) if isinstance(request, JobRequest) else request[0]

    def _request(self, template: Template, ref: GroupRef) -> JobRequest | tuple[Problem, ...]:
        if not template.data:
            return (Problem("template", "none", "a template of pods"),)
        try:
            pod = decode_pod(_with_metadata(template.data))
        except (KubeGarbled, msgspec.DecodeError):
            return (Problem("template", "something else", "a template of pods"),)
        return self._reader.read_template(slim(_as_pod(pod, ref), self._prefixes))


def _expected_of(template: Template, found: Size | Problem | None) -> Expected:
    if isinstance(found, Size):
        return Expected(template.pods, found)
    if found is None:
        why = f"{template.field} is not read: there are more than {MOST_TEMPLATES} templates"
        return Expected(template.pods, None, why)
    problem = replace(found, field=f"{template.field}: {found.field}")
    return Expected(template.pods, None, clipped(problem.text, _WHY_BYTES))


def _with_metadata(template: bytes) -> bytes:
    """The JSON of a template, which may lack the metadata that each pod has."""
    fields = msgspec.json.decode(template, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({"metadata": msgspec.Raw(b"{}")} | fields)


def _as_pod(template: Pod, ref: GroupRef) -> Pod:
    """A pod of the template in the namespace of the object, without what only a pod has."""
    meta = msgspec.structs.replace(
        template.metadata, namespace=ref.namespace, name=ref.name, uid=""
    )
    spec = msgspec.structs.replace(template.spec, node_name="")
    return Pod(metadata=meta, spec=spec, status=PodStatus())
