"""The API's routes: what each method does to a collection, an object or a subresource."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.sandbox.kube import (
    admission,
    discovery,
    openapi,
    patches,
    paths,
    pods,
    reviews,
    scale,
)
from scheduler.sandbox.kube.answers import (
    AGGREGATED,
    Answer,
    deleted,
    found,
    json_of,
    list_body,
    listed,
    made,
    one_of,
    renderer,
    stored_as_asked,
)
from scheduler.sandbox.kube.calls import Call, delete_options, mapping, options_of
from scheduler.sandbox.kube.errors import bad_request, method_not_allowed, path_not_found
from scheduler.sandbox.kube.listing import list_page, list_query
from scheduler.sandbox.kube.model import KubeModel, check_kind
from scheduler.sandbox.kube.paths import Target
from scheduler.sandbox.kube.resources import REVIEW_KINDS, Body
from scheduler.sandbox.kube.watching import Watch, watch_query

HEALTH = frozenset({"healthz", "livez", "readyz"})

_NO_LOG = b"The containers of this sandbox are only played; they write no log.\n"

_encode = msgspec.json.Encoder().encode


class Api:
    """Answers calls from the model. `users` maps tokens to the known users."""

    def __init__(self, model: KubeModel, *, users: Mapping[str, Body]) -> None:
        self._model = model
        self._users = users

    def answer(self, call: Call, *, bookmark_seconds: float) -> Answer | Watch:
        """Do what the call asks, and return the answer. Raises ApiError for every refusal."""
        parts = paths.split(call.path)
        document = self._document(parts, call)
        if document is not None:
            return document
        target = paths.target(parts)
        if target.subresource:
            return self._subresource(target, call)
        if target.name:
            return self._object(target, call)
        if call.method == "GET" and call.watch:
            return self._watch(target, call, bookmark_seconds=bookmark_seconds)
        return self._collection(target, call)

    def _document(self, parts: list[str], call: Call) -> Answer | None:
        if call.method != "GET":
            return None
        match parts:
            case [probe] if probe in HEALTH:
                return Answer(b"ok", content_type="text/plain")
            case ["version"]:
                return json_of(discovery.VERSION)
            case ["api" | "apis" as root] if "as=APIGroupDiscoveryList" in call.accept:
                body = _encode(discovery.aggregated(core=root == "api"))
                return Answer(body, content_type=AGGREGATED)
            case ["api"]:
                return json_of(discovery.core_versions())
            case ["apis"]:
                return json_of(discovery.group_list())
            case ["api", version]:
                return found(discovery.resource_list("", version))
            case ["apis", group]:
                return found(discovery.group_document(group))
            case ["apis", group, version]:
                return found(discovery.resource_list(group, version))
            case ["openapi", "v3", *rest]:
                return found(_openapi(rest))
            case ["api" | "apis", *_]:
                return None
            case _:
                raise path_not_found()

    def _collection(self, target: Target, call: Call) -> Answer:
        resource = target.resource
        match call.method:
            case "GET" if "list" in resource.verbs:
                return self._list(target, call)
            case "POST":
                return self._create(target, call)
            case "DELETE" if "deletecollection" in resource.verbs:
                return self._delete_all(target, call)
            case _:
                raise method_not_allowed()

    def _list(self, target: Target, call: Call) -> Answer:
        resource = target.resource
        page = list_page(self._model, resource, list_query(target.namespace, call.query))
        return listed(resource, call, page)

    def _watch(self, target: Target, call: Call, *, bookmark_seconds: float) -> Watch:
        if "watch" not in target.resource.verbs:
            raise method_not_allowed()
        resource = target.resource
        return Watch(
            self._model,
            resource,
            watch_query(target.namespace, call.query),
            render=one_of(renderer(resource, call, metadata={}), resource),
            bookmark_seconds=bookmark_seconds,
        )

    def _create(self, target: Target, call: Call) -> Answer:
        resource, body = target.resource, call.document()
        check_kind(resource, body)
        if resource.kind in REVIEW_KINDS:
            return json_of(reviews.answer(resource, body, known=self._users), status=201)
        if resource.namespaced and not target.namespace:
            raise method_not_allowed()
        admission.check_policy(resource, body)
        stored = self._model.create(resource, target.namespace, body, dry_run=call.dry_run)
        return stored_as_asked(resource, call, stored, status=201)

    def _delete_all(self, target: Target, call: Call) -> Answer:
        options = delete_options(call)
        page = list_page(self._model, target.resource, list_query(target.namespace, call.query))
        for stored in page.items:
            metadata = stored.body["metadata"]
            namespace = metadata.get("namespace", "")
            self._model.delete(target.resource, namespace, metadata["name"], options)
        return Answer(list_body(target.resource, page))

    def _object(self, target: Target, call: Call) -> Answer:
        resource, where = target.resource, (target.namespace, target.name)
        if resource.kind in REVIEW_KINDS:
            raise method_not_allowed()
        match call.method:
            case "GET":
                return stored_as_asked(resource, call, self._model.get(resource, *where))
            case "PUT":
                return self._put(target, call)
            case "PATCH":
                return self._patch(target, call)
            case "DELETE":
                return self._delete(target, call)
            case _:
                raise method_not_allowed()

    def _put(self, target: Target, call: Call) -> Answer:
        stored = self._model.update(
            target.resource,
            target.namespace,
            target.name,
            call.document(),
            subresource=target.subresource,
            manager=call.manager,
            dry_run=call.dry_run,
        )
        return stored_as_asked(target.resource, call, stored)

    def _patch(self, target: Target, call: Call) -> Answer:
        if call.content_type == patches.APPLY_PATCH:
            return self._apply(target, call)
        stored = self._model.patch(
            target.resource,
            target.namespace,
            target.name,
            call.document(),
            content_type=call.content_type,
            subresource=target.subresource,
            manager=call.manager,
            dry_run=call.dry_run,
        )
        return stored_as_asked(target.resource, call, stored)

    def _apply(self, target: Target, call: Call) -> Answer:
        manager = call.query.get("fieldManager", "")
        if not manager:
            raise bad_request("fieldManager is required for apply patch")
        stored, created = self._model.apply(
            target.resource,
            target.namespace,
            target.name,
            call.document(),
            manager=manager,
            subresource=target.subresource,
            dry_run=call.dry_run,
        )
        return stored_as_asked(target.resource, call, stored, status=201 if created else 200)

    def _delete(self, target: Target, call: Call) -> Answer:
        resource, options = target.resource, delete_options(call)
        deletion = self._model.delete(resource, target.namespace, target.name, options)
        if deletion.finished and not resource.returns_deleted:
            return json_of(deleted(resource, deletion.stored.body))
        waits = options.propagation == "Foreground" and not deletion.finished
        return stored_as_asked(resource, call, deletion.stored, status=202 if waits else 200)

    def _subresource(self, target: Target, call: Call) -> Answer:
        below = target.resource.subresource(target.subresource)
        if below is None or _VERBS.get(call.method) not in below.verbs:
            raise method_not_allowed()
        admission.admit(self._model, target, call.method)
        match target.subresource:
            case "binding":
                body = mapping(call.document())
                pods.bind(self._model, target.namespace, target.name, body, dry_run=call.dry_run)
                return json_of(made(), status=201)
            case "eviction":
                return self._evict(target, call)
            case "log":
                return self._log(target)
            case "scale":
                return self._scale(target, call)
            case "finalize":
                return self._finalize(target, call)
            case _:
                return self._status(target, call)

    def _evict(self, target: Target, call: Call) -> Answer:
        body = mapping(call.document())
        options = options_of(body.get("deleteOptions") or {}, {})
        pods.evict(self._model, target.namespace, target.name, options, dry_run=call.dry_run)
        return json_of(made(), status=201)

    def _log(self, target: Target) -> Answer:
        self._model.get(target.resource, target.namespace, target.name)
        return Answer(_NO_LOG, content_type="text/plain")

    def _status(self, target: Target, call: Call) -> Answer:
        if call.method == "GET":
            stored = self._model.get(target.resource, target.namespace, target.name)
            return stored_as_asked(target.resource, call, stored)
        return self._put(target, call) if call.method == "PUT" else self._patch(target, call)

    def _scale(self, target: Target, call: Call) -> Answer:
        where = (target.resource, target.namespace, target.name)
        if call.method == "GET":
            return json_of(scale.view(self._model.get(*where).body))
        return json_of(scale.update(self._model, *where, mapping(call.document())))

    def _finalize(self, target: Target, call: Call) -> Answer:
        finalizers = (mapping(call.document()).get("spec") or {}).get("finalizers")
        patch = {"spec": {"finalizers": finalizers or []}}
        stored = self._model.patch(
            target.resource, "", target.name, patch, content_type=patches.MERGE_PATCH
        )
        return stored_as_asked(target.resource, call, stored)


_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _openapi(rest: list[str]) -> Body | None:
    match rest:
        case []:
            return openapi.index()
        case ["api", version]:
            return openapi.document("", version)
        case ["apis", group, version]:
            return openapi.document(group, version)
        case _:
            return None
