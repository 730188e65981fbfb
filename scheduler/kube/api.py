"""The scheduler's few writes to the API server, and the reads that show what became of a write.

The methods return expected refusals as values, such as `Gone` or `AlreadyBound`, and do not raise
them. Every write of a pod names its uid, so that it cannot reach another pod of the same name. The
retry policy repeats requests that are safe to repeat. If the outcome of a binding is unknown, the
pod is read; the binding is not written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from groundwork.retry import RetryPolicy, once
from scheduler.core.gang_objects import GroupObject, Unserved
from scheduler.core.gang_sources import OBJECTS, GroupRef, Source
from scheduler.core.group_status import FIELD_MANAGER
from scheduler.kube import errors
from scheduler.kube.clip import clipped
from scheduler.kube.depth import decoded
from scheduler.kube.errors import (
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    KubeGarbled,
    KubeRefused,
    NotFound,
    TooMany,
)
from scheduler.kube.group_wire import decode_group, served_versions
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import Pod, PodCondition, check_done, decode_identified, decode_pod

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
# Custom resources take no other patch than a plain merge, which replaces lists.
_MERGED_BY_KEY = frozenset({OBJECTS[Source.POD_GROUP]})
# A webhook that hangs has ten seconds by default. Then the server goes on without it, or refuses
# the write in words; a client that has gone by then gets neither, however often it tries.
_WRITE_SECONDS: Final = 15.0
# Who asks for the server's time can do without it.
_CLOCK_SECONDS = 3.0
_INTERNAL_ERROR = 500
_NOT_FOUND = 404
# Limit for the quoted message of the server. It leaves room in the 1024 characters of an Event.
_MOST_BYTES_QUOTED = 512

Condition = PodCondition


def condition(kind: str, status: str, *, reason: str, message: str) -> Condition:
    """A condition whose transition time is now, in whole seconds as in Kubernetes. A message that
    is too long is cut.
    """
    return Condition(
        kind, status, reason, clipped(message), datetime.now(UTC).replace(microsecond=0)
    )


class Bound(msgspec.Struct, frozen=True):
    """The pod is bound to the requested Node."""


@dataclass(frozen=True, slots=True)
class AlreadyBound:
    """The pod is bound to another Node; a binding is never changed."""

    node: str


@dataclass(frozen=True, slots=True)
class DeletionAccepted:
    """The API server has accepted the deletion; the containers may still run."""


@dataclass(frozen=True, slots=True)
class Held:
    """The pod may not be evicted now: a PodDisruptionBudget forbids it, or the server is
    overloaded.
    """


@dataclass(frozen=True, slots=True)
class Patched:
    """The patch is stored."""


@dataclass(frozen=True, slots=True)
class Gone:
    """No pod has that uid any more. `bind` also returns this for a pod that is being deleted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server refuses this write, and will refuse it again until something changes: a
    policy, a webhook, a quota, a limit or a missing right. `why` is its message.
    """

    why: str

    @classmethod
    def of(cls, error: KubeRefused) -> Refused:
        """A refusal with the server's message, cut so that the text around it has room."""
        return cls(str(error).encode()[:_MOST_BYTES_QUOTED].decode(errors="ignore"))


class KubeApi:
    """Operations on pods, groups of pods, namespaces and Events. All raise KubeError for unexpected
    answers.
    """

    def __init__(self, session: KubeSession, *, policy: RetryPolicy = once) -> None:
        self._session = session
        self._policy = policy

    async def bind(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        node: str,
        annotations: Mapping[str, str] | None = None,
    ) -> Bound | AlreadyBound | Refused | Gone:
        """Bind the pod to the Node; the API server copies the annotations onto the pod.

        The server does not check whether the Node exists (measured on 1.36.3), so the caller has
        to. A pod that is being deleted cannot be bound, and is Gone. If the answer was lost, the
        pod is read; if it is unbound, the error is raised, and a later pass decides anew.
        """
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": uid, "annotations": dict(annotations or {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"{_pod_path(namespace, name)}/binding"
        try:
            await self._write("POST", path, body=binding, operation="bind")
        except KubeError as error:
            if (
                isinstance(error, KubeRefused)
                and error.concerns_this_request
                and not error.maybe_applied
            ):
                return Refused.of(error)
            if isinstance(error, NotFound):
                return Gone()
            if not _look_first(error):
                raise
            return await self._resolve_binding(namespace, name, uid, node=node, error=error)
        return Bound()

    async def _resolve_binding(
        self, namespace: str, name: str, uid: str, *, node: str, error: KubeError
    ) -> Bound | AlreadyBound | Refused | Gone:
        pod = await self.get_pod(namespace, name)
        if pod is None or pod.metadata.uid != uid:
            return Gone()
        if pod.spec.node_name:
            return Bound() if pod.spec.node_name == node else AlreadyBound(pod.spec.node_name)
        if pod.metadata.deletion_timestamp is not None:
            return Gone()
        if isinstance(error, KubeRefused) and _fails_for_this(error):
            return Refused.of(error)
        raise error

    async def delete_pod(
        self, namespace: str, name: str, uid: str, *, grace_seconds: int | None = None
    ) -> DeletionAccepted | Gone:
        """Delete the pod with this grace period in seconds; None stands for the pod's own."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
        }
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self._write_again(
                "DELETE", _pod_path(namespace, name), body=options, operation="delete_pod"
            )
        except NotFound:
            return Gone()
        except Conflict as error:
            if _about_uid(error):
                return Gone()
            raise
        return DeletionAccepted()

    async def evict_pod(
        self, namespace: str, name: str, uid: str, *, grace_seconds: int | None = None
    ) -> DeletionAccepted | Held | Gone:
        """Delete the pod through the Eviction API, which checks its PodDisruptionBudgets. The
        server replaces a DisruptionTarget condition with its own (reason EvictionByEvictionAPI).
        """
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        path = f"{_pod_path(namespace, name)}/eviction"
        try:
            await self._write("POST", path, body=eviction, operation="evict_pod")
        except NotFound:
            return Gone()
        except TooMany:
            return Held()
        except Conflict as error:
            if _about_uid(error):
                return Gone()
            raise
        return DeletionAccepted()

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        conditions: Sequence[Condition] = (),
        annotations: Mapping[str, str | None] | None = None,
    ) -> Patched | Refused | Gone:
        """Merge conditions (by type) and annotations (None removes one) into the pod, in one
        request. For a pod of another uid the server answers 422 "field is immutable" (measured on
        1.36.3); the result is then Gone.
        """
        metadata: dict[str, Any] = {"uid": uid}
        if annotations:
            metadata["annotations"] = dict(annotations)
        patch: dict[str, Any] = {"metadata": metadata}
        if conditions:
            patch["status"] = {"conditions": list(conditions)}
        try:
            await self._write_again(
                "PATCH",
                f"{_pod_path(namespace, name)}/status",
                body=patch,
                content_type=STRATEGIC_MERGE,
                operation="patch_pod_status",
            )
        except KubeRefused as error:
            if isinstance(error, Conflict | Invalid) and _about_uid(error):
                return Gone()
            if error.concerns_this_request:
                return Refused.of(error)
            if isinstance(error, NotFound):
                return Gone()
            raise
        return Patched()

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """The pod that has this name now, whatever its uid; None if there is none."""
        try:
            body = await self._read(_pod_path(namespace, name), operation="get_pod")
        except NotFound:
            return None
        pod = await decoded(decode_pod, body)
        if not pod.metadata.uid or pod.metadata.name != name:
            raise KubeGarbled("an answer about a pod does not hold it")
        return pod

    async def get_group(self, ref: GroupRef) -> GroupObject | None:
        """The object behind a gang; None if there is none, or only another of the same name. If the
        API server has no such kind, that is said in its place. Raises Forbidden.
        """
        path = _group_path(ref)
        try:
            body = await self._read(path, operation="get_group")
        except NotFound:
            return None
        except KubeRefused as error:
            # The answer about a kind that is not served is none of the API's (measured on 1.36.3).
            # A gateway may give such an answer too.
            if error.status != _NOT_FOUND or await self._serves(ref.api_version):
                raise
            return Unserved(ref.api_version, ref.plural)
        found = await decoded(partial(decode_group, ref), body)
        return None if ref.uid and found.metadata.uid != ref.uid else found

    async def patch_group_status(
        self, ref: GroupRef, *, version: str, status: Mapping[str, object]
    ) -> Patched | Refused | Gone:
        """Merge this into the status of the object behind a gang. Raises Conflict if the object has
        another resourceVersion by now, so that another one of its name is never written on.
        """
        by_key = (ref.api_version, ref.plural) in _MERGED_BY_KEY
        try:
            await self._write(
                "PATCH",
                f"{_group_path(ref)}/status",
                query={"fieldManager": FIELD_MANAGER},
                body={"metadata": {"resourceVersion": version}, "status": status},
                content_type=STRATEGIC_MERGE if by_key else MERGE,
                operation="patch_group_status",
            )
        except NotFound:
            return Gone()
        except KubeRefused as error:
            if error.concerns_this_request:
                return Refused.of(error)
            raise
        return Patched()

    async def _serves(self, api_version: str) -> bool:
        return api_version in served_versions(await self._read("/apis", operation="list_apis"))

    async def get_namespace_uid(self, name: str) -> str | None:
        """The namespace's uid; None if it does not exist or may not be read."""
        path = f"/api/v1/namespaces/{name}"
        try:
            body = await self._read(path, operation="get_namespace")
        except (NotFound, Forbidden):
            return None
        uid = (await decoded(decode_identified, body)).metadata.uid
        if not uid:
            raise KubeGarbled("an answer about a Namespace does not hold it")
        return uid

    async def server_time(self) -> float | None:
        """The API server's time, in seconds since the epoch; None if it does not say. Requested
        once, and soon given up.
        """
        now = await self._session.server_time(timeout=_CLOCK_SECONDS)
        return None if now is None else now.timestamp()

    async def lacks_namespace(self, name: str) -> bool:
        """Whether there is no such Namespace. If we may not read it, it counts as existing: a
        scheduler with roles in single namespaces often may not.
        """
        try:
            with suppress(Forbidden):
                await self._read(f"/api/v1/namespaces/{name}", operation="get_namespace")
        except NotFound:
            return True
        return False

    async def annotations_of(self, path: str) -> Mapping[str, str]:
        """The annotations of the object at that path; empty if there is no such object. Raises
        Forbidden.
        """
        try:
            body = await self._read(path, operation="probe")
        except NotFound:
            return {}
        return (await decoded(decode_identified, body)).metadata.annotations

    async def probe(self, path: str) -> None:
        """Check that this list may be read, by a request for one item of it. Raises Forbidden."""
        await self._read(path, query={"limit": 1}, operation="probe")

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """Create a core/v1 Event. A Conflict is no error: an earlier try has stored the Event."""
        path = f"/api/v1/namespaces/{namespace}/events"
        try:
            await self._session.request("POST", path, body=event, operation="create_event")
        except Conflict:
            return

    async def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        """Merge-patch a core/v1 Event. Raises NotFound if it has expired (after an hour)."""
        await self._session.request(
            "PATCH",
            f"/api/v1/namespaces/{namespace}/events/{name}",
            body=patch,
            content_type=MERGE,
            operation="patch_event",
        )

    async def _read(self, path: str, **options: Any) -> bytes:
        """Send a GET under the retry policy."""
        return await self._policy(lambda: self._session.request("GET", path, **options))

    async def _write_again(self, method: str, path: str, **options: Any) -> None:
        """Send an idempotent write under the retry policy."""
        await self._policy(lambda: self._write(method, path, **options))

    async def _write(self, method: str, path: str, **options: Any) -> None:
        """Send a write once. Raises KubeGarbled if the answer does not confirm it. It mostly holds
        the object, whose author decides how deeply it is nested.
        """
        answer = await self._session.request(method, path, timeout=_WRITE_SECONDS, **options)
        await decoded(check_done, answer)


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _group_path(ref: GroupRef) -> str:
    return f"/apis/{ref.api_version}/namespaces/{ref.namespace}/{ref.plural}/{ref.name}"


def _look_first(error: KubeError) -> bool:
    """Whether this process or an earlier one may have applied the write, so that the pod must be
    read.
    """
    if isinstance(error, KubeRefused):
        return error.maybe_applied or isinstance(error, Conflict)
    return not isinstance(error, errors.KubeUnreachable)


def _fails_for_this(error: KubeRefused) -> bool:
    """Whether the error concerns this pod alone. A 500 does too, because the server has just
    answered a read of the pod.
    """
    return error.concerns_this_request or error.status == _INTERNAL_ERROR


def _about_uid(error: KubeRefused) -> bool:
    """Whether the refusal says that the pod has another uid. For a binding the server says "UID in
    precondition", for a deletion "the UID in the precondition" (measured).

    Most refusals quote the pod's name, which its author chooses, for example `metadata.uid`. No
    name has a colon, a blank or a capital letter.
    """
    message = error.message
    return "metadata.uid: " in message or ("UID in" in message and "precondition" in message)
