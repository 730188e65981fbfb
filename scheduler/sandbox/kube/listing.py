"""Lists: selectors, versions, and pages that all show the state of the same version."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from scheduler.sandbox.kube import events, selectors
from scheduler.sandbox.kube.errors import bad_request, expired, invalid, too_large_version
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import Body, Resource
from scheduler.sandbox.kube.store import Key, Stored, Test

TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 - a format, not a secret
LIST_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The query parameters that lists and watches share."""

    namespace: str
    labels: str = ""
    fields: str = ""
    version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""

    def test(self, resource: Resource) -> Test | None:
        """The selectors as one test of stored objects; raises ApiError 400."""
        test = selectors.compile_test(resource, labels=self.labels, fields=self.fields)
        if test is None or not resource.stored_as:
            return test
        return lambda body: test(events.to_new(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of a list: its objects, the version, and the token of the next page."""

    items: list[Stored]
    version: int
    token: str = ""
    remaining: int = 0

    def metadata(self) -> Body:
        """The ListMeta."""
        metadata: Body = {"resourceVersion": str(self.version)}
        if self.token:
            metadata["continue"] = self.token
            if self.remaining:
                metadata["remainingItemCount"] = self.remaining
        return metadata


def list_query(namespace: str, parameters: Mapping[str, str]) -> ListQuery:
    """The list parameters of a request; raises ApiError 400."""
    return ListQuery(
        namespace=namespace,
        labels=parameters.get("labelSelector", ""),
        fields=parameters.get("fieldSelector", ""),
        version=parameters.get("resourceVersion", ""),
        match=parameters.get("resourceVersionMatch", ""),
        limit=number("limit", parameters.get("limit") or "0"),
        token=parameters.get("continue", ""),
    )


def parse_version(text: str) -> int:
    """A resourceVersion parameter; 0 for none. Raises ApiError 400."""
    return number("resourceVersion", text or "0")


def list_page(model: KubeModel, resource: Resource, query: ListQuery) -> Page:
    """One page of a list. Raises ApiError: 400 for a wrong query, 410 for a version that is too
    old, 504 for a future version, and 422 for a resourceVersionMatch that does not fit.
    """
    moment, start = _moment(model, query)
    test = query.test(resource)
    past = moment < model.store.version
    if past and moment < model.store[resource.storage].compacted:
        if not query.token:
            raise expired(f"The resourceVersion for the provided list is too old: {moment}")
        token = _encode_token(model.store.version, start)
        raise expired(LIST_EXPIRED, metadata={"continue": token})
    entries = model.store[resource.storage].at(moment)
    if start is not None:
        entries = entries[bisect_right([key for key, _ in entries], start) :]
    return _cut(_chosen(entries, query, test), query, moment, counted=test is None)


def _moment(model: KubeModel, query: ListQuery) -> tuple[int, Key | None]:
    current = model.store.version
    if query.token:
        if parse_version(query.version):
            raise bad_request("specifying resource version is not allowed when using continue")
        return _decode_token(query.token)
    wanted = parse_version(query.version)
    if query.match and not query.version:
        _refuse_match("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if query.match == "Exact" and not wanted:
        _refuse_match('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if query.match not in {"", "Exact", "NotOlderThan"}:
        raise bad_request(f"resourceVersionMatch: Unsupported value: {query.match!r}")
    if wanted > current:
        raise too_large_version(wanted, current)
    return (wanted if query.match == "Exact" else current), None


def _refuse_match(why: str) -> None:
    raise invalid(
        "ListOptions", "", [("resourceVersionMatch", f"Forbidden: {why}")], group="meta.k8s.io"
    )


def _chosen(
    entries: list[tuple[Key, Stored]], query: ListQuery, test: Test | None
) -> list[tuple[Key, Stored]]:
    if query.namespace:
        entries = [entry for entry in entries if entry[0][0] == query.namespace]
    if test is None:
        return entries
    return [entry for entry in entries if test(entry[1].body)]


def _cut(
    entries: list[tuple[Key, Stored]], query: ListQuery, moment: int, *, counted: bool
) -> Page:
    if not query.limit or len(entries) <= query.limit:
        return Page(items=[stored for _, stored in entries], version=moment)
    page = entries[: query.limit]
    return Page(
        items=[stored for _, stored in page],
        version=moment,
        token=_encode_token(moment, page[-1][0]),
        remaining=len(entries) - len(page) if counted else 0,
    )


def _encode_token(version: int, start: Key | None) -> str:
    token = {"v": TOKEN_VERSION, "rv": version, "start": "/".join(start or ("", ""))}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode_token(text: str) -> tuple[int, Key]:
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        namespace, _, name = token["start"].partition("/")
        return int(token["rv"]), (namespace, name)
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error


def number(name: str, text: str) -> int:
    """A query parameter that must be a number; raises ApiError 400."""
    if not text.isdecimal():
        raise bad_request(f"{name}: Invalid value: {text!r}: must be a number")
    return int(text)
