"""Answers of the API: objects, lists and refusals in the form that the caller asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from scheduler.sandbox.kube import tables
from scheduler.sandbox.kube.calls import Call
from scheduler.sandbox.kube.errors import ApiError, path_not_found
from scheduler.sandbox.kube.events import to_new
from scheduler.sandbox.kube.listing import Page
from scheduler.sandbox.kube.resources import Body, Resource
from scheduler.sandbox.kube.store import Stored

JSON = "application/json"
AGGREGATED = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_TEXT = "text/plain; charset=utf-8"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request that is not a watch."""

    body: bytes
    status: int = 200
    content_type: str = JSON


def json_of(body: Body, *, status: int = 200) -> Answer:
    """The body as an answer."""
    return Answer(_encode(body), status)


def found(body: Body | None) -> Answer:
    """The document as an answer. Raises ApiError 404 if there is none."""
    if body is None:
        raise path_not_found()
    return json_of(body)


def made() -> Body:
    """The Status that answers a binding or an eviction."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }


def deleted(resource: Resource, body: Body) -> Body:
    """The Status that answers a deletion."""
    metadata = body["metadata"]
    details = {"name": metadata["name"], "kind": resource.plural, "uid": metadata["uid"]}
    if resource.group:
        details["group"] = resource.group
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**status, "details": details}


def stored_as_asked(resource: Resource, call: Call, stored: Stored, *, status: int = 200) -> Answer:
    """One object in the form that the caller asked for."""
    body = _seen(resource, stored.body)
    version = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
    render = renderer(resource, call, metadata=version)
    if render is not None and call.method == "GET":
        return json_of(render([body]) if _wants_table(call) else tables.partial(body))
    return Answer(stored.raw if body is stored.body else _encode(body), status)


def _seen(resource: Resource, body: Body) -> Body:
    return to_new(body) if resource.stored_as else body


def listed(resource: Resource, call: Call, page: Page) -> Answer:
    """A page of a list in the form that the caller asked for."""
    render = renderer(resource, call, metadata=page.metadata())
    if render is None:
        return Answer(list_body(resource, page))
    return json_of(render([_seen(resource, stored.body) for stored in page.items]))


def list_body(resource: Resource, page: Page) -> bytes:
    """A list as JSON, joined from the JSON that each object already has."""
    if resource.stored_as:
        items = [_encode(to_new(stored.body)) for stored in page.items]
    else:
        items = [stored.item for stored in page.items]
    return b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
        resource.list_kind.encode(),
        resource.api_version.encode(),
        _encode(page.metadata()),
        b",".join(items),
    )


def _wants_table(call: Call) -> bool:
    return "as=Table" in call.accept


def renderer(
    resource: Resource, call: Call, *, metadata: Body
) -> Callable[[list[Body]], Body] | None:
    """A function that turns objects into the Table or the PartialObjectMetadataList that the caller
    asked for; None if it asked for plain objects.
    """
    if _wants_table(call):
        include = call.query.get("includeObject") or "Metadata"
        return lambda bodies: tables.table(resource, bodies, metadata=metadata, include=include)
    if "as=PartialObjectMetadata" in call.accept:
        return lambda bodies: {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "items": [tables.partial(body) for body in bodies],
        }
    return None


def one_of(
    render: Callable[[list[Body]], Body] | None, resource: Resource
) -> Callable[[Body], Body] | None:
    """The renderer for single objects of a watch; None if there is no renderer for lists."""
    if render is None:
        return None

    def render_one(body: Body) -> Body:
        rendered = render([_seen(resource, body)])
        if rendered["kind"] != "Table":
            return dict(rendered["items"][0])
        version = {"resourceVersion": body["metadata"].get("resourceVersion", "")}
        return {**rendered, "metadata": version}

    return render_one


def refusal(error: ApiError) -> Answer:
    """An error as an answer."""
    if not error.reason:
        return Answer(f"{error.message}\n".encode(), error.code, _TEXT)
    return Answer(_encode(error.status()), error.code)
