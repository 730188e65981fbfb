"""Parses requests to the API, and the options of deletions in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from aiohttp import web

from scheduler.sandbox.kube import patches, protobuf
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.errors import bad_request, unsupported_media_type
from scheduler.sandbox.kube.listing import number
from scheduler.sandbox.kube.resources import Body

READ_TYPES = ("application/json", "application/yaml")

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Call:
    """The parts of a request."""

    method: str
    path: str
    query: Mapping[str, str]
    accept: str
    content_type: str
    body: bytes
    agent: str = ""

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be stored."""
        return self.query.get("dryRun") == "All"

    @property
    def manager(self) -> str:
        """Under which name it is noted what the client writes."""
        return self.query.get("fieldManager") or self.agent.partition("/")[0]

    @property
    def watch(self) -> bool:
        """Whether the request is for a watch."""
        return self.query.get("watch", "").lower() in {"true", "1"}

    def document(self) -> Any:
        """The body, decoded; raises ApiError 400 or 415."""
        if self.content_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(self.body)
        if self.content_type and self.content_type not in {*READ_TYPES, *patches.PATCH_TYPES}:
            raise unsupported_media_type(", ".join(READ_TYPES))
        try:
            return _decode(self.body)
        except msgspec.DecodeError as error:
            if not self.content_type.endswith("yaml"):
                raise bad_request(
                    f"couldn't get version/kind; json parse error: {error}"
                ) from error
            return self._yaml()

    def _yaml(self) -> Any:
        try:
            return yaml.safe_load(self.body)
        except yaml.YAMLError as error:
            raise bad_request(f"error converting YAML to JSON: {error}") from error


def call_of(request: web.BaseRequest, body: bytes) -> Call:
    """The parts of an aiohttp request that the API reads."""
    headers = request.headers
    return Call(
        method=request.method,
        path=request.path,
        query=request.query if request.query_string else {},
        accept=headers.get("Accept", ""),
        content_type=headers.get("Content-Type", "").partition(";")[0].strip(),
        body=body,
        agent=headers.get("User-Agent", ""),
    )


def delete_options(call: Call) -> DeleteOptions:
    """The options of a deletion, from its body and its query; raises ApiError 400."""
    body = mapping(call.document()) if call.body else {}
    return options_of(body, call.query)


def options_of(body: Body, query: Mapping[str, str]) -> DeleteOptions:
    """The options in a DeleteOptions object and in the query. Raises ApiError 400."""
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in query:
        grace = number("gracePeriodSeconds", query["gracePeriodSeconds"])
    if grace is not None and not isinstance(grace, int):
        raise bad_request(f"gracePeriodSeconds: Invalid value: {grace!r}: must be an integer")
    return DeleteOptions(
        grace_seconds=grace,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=body.get("propagationPolicy") or query.get("propagationPolicy"),
        dry_run=bool(body.get("dryRun")) or query.get("dryRun") == "All",
    )


def mapping(document: Any) -> Body:
    """The document itself. Raises ApiError 400 if it is not a JSON object."""
    if not isinstance(document, dict):
        raise bad_request("the object provided is unrecognized (must be of type map)")
    return document
