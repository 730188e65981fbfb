"""One Lease object: reads it, creates it, and writes it over a known version.

Its times (acquireTime, renewTime) are the only wall-clock times of the leader election. Only people
read them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from scheduler.core.lease import LeaseRecord, Observed
from scheduler.kube.errors import KubeGarbled, NotFound
from scheduler.kube.recorder import ObjectRef
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import decoder

_API: Final = "coordination.k8s.io/v1"


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Lease(msgspec.Struct, frozen=True, rename="camel"):
    metadata: _Meta
    spec: _LeaseSpec = _LeaseSpec()


# Decodes the whole object, so that a write keeps the fields that others have set.
_decode: Final = decoder(dict[str, Any])


class Leases:
    """The Lease `name` in `namespace`. `read` and `write` raise KubeError, also for a request that
    takes longer than `timeout_seconds`. A write keeps the fields that others have set.
    """

    def __init__(
        self, session: KubeSession, namespace: str, name: str, *, timeout_seconds: float
    ) -> None:
        self._session = session
        self._folder = f"/apis/{_API}/namespaces/{namespace}/leases"
        self._timeout = timeout_seconds
        self._object: dict[str, Any] | None = None
        self._namespace = namespace
        self._name = name

    @property
    def ref(self) -> ObjectRef:
        """A reference for Events about the Lease, as it was last read or written."""
        meta = {} if self._object is None else self._object["metadata"]
        return ObjectRef(
            kind="Lease",
            namespace=self._namespace,
            name=self._name,
            uid=meta.get("uid", ""),
            resource_version=meta.get("resourceVersion", ""),
            api_version=_API,
        )

    async def read(self) -> Observed | None:
        """The Lease as it is stored now; None if there is none."""
        try:
            answer = await self._ask("GET", f"{self._folder}/{self._name}", operation="get_lease")
        except NotFound:
            self._object = None
            return None
        return self._took(answer)

    async def write(self, record: LeaseRecord) -> Observed:
        """Replace the last known version, or create the Lease if there was none. Returns the Lease
        as stored. Raises Conflict if another process has written it since the last read, NotFound
        if it was deleted, and KubeGarbled if the answer shows another holder or duration.
        """
        stored = self._took(await (self._create if self._object is None else self._put)(record))
        said = stored.record
        if (said.holder, said.seconds) != (record.holder, int(record.seconds)):
            # An admission webhook may change it, and each candidate would count as the holder.
            raise KubeGarbled(f"the Lease is not stored as sent: its holder is {said.holder!r}")
        return stored

    async def _put(self, record: LeaseRecord) -> bytes:
        known = self._object or {}
        body = {**known, "spec": {**known.get("spec", {}), **self._spec(record)}}
        path = f"{self._folder}/{self._name}"
        return await self._ask("PUT", path, body=body, operation="update_lease")

    async def _create(self, record: LeaseRecord) -> bytes:
        body = {
            "apiVersion": _API,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._spec(record),
        }
        return await self._ask("POST", self._folder, body=body, operation="create_lease")

    def _spec(self, record: LeaseRecord) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec: dict[str, Any] = {
            "holderIdentity": record.holder,
            "leaseDurationSeconds": int(record.seconds),
            "leaseTransitions": record.transitions,
            "renewTime": now,
        }
        before = {} if self._object is None else self._object.get("spec", {})
        if record.holder != before.get("holderIdentity"):
            spec["acquireTime"] = now
        return spec

    async def _ask(self, method: str, path: str, **options: Any) -> bytes:
        return await self._session.request(method, path, timeout=self._timeout, **options)

    def _took(self, answer: bytes) -> Observed:
        whole = _decode(answer)
        try:
            lease = msgspec.convert(whole, _Lease)
        except msgspec.ValidationError as error:
            raise KubeGarbled(f"not a Lease: {error}") from error
        if not (lease.metadata.uid and lease.metadata.resource_version):
            # Such a Lease would seem to have no holder. A PUT without a resourceVersion would
            # overwrite any version.
            raise KubeGarbled("a Lease without a uid or a resourceVersion")
        self._object = whole
        spec = lease.spec
        record = LeaseRecord(
            holder=spec.holder_identity or "",
            seconds=float(spec.lease_duration_seconds or 0),
            transitions=spec.lease_transitions or 0,
        )
        return Observed(record, lease.metadata.resource_version)
