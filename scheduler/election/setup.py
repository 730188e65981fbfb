"""Builds the election from the settings: the Lease, its connections, and our identity in it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from scheduler.config.settings import Settings, SettingsError
from scheduler.core.lease import Timing
from scheduler.election.elector import Alone, Election, Elector, awake
from scheduler.kube.identity import own_namespace
from scheduler.kube.leases import Leases
from scheduler.kube.session import KubeSession, Observe


@asynccontextmanager
async def election_of(
    settings: Settings, *, user_agent: str, observe: Observe
) -> AsyncIterator[Election]:
    """The election, while the context is open. Raises SettingsError and KubeConfigError.

    Renewals wait for no other request, because they have a connection pool of their own.
    """
    if not settings.leader_elect:
        yield Alone()
        return
    namespace = settings.leader_elect_resource_namespace or await own_namespace(settings)
    if not namespace:
        raise SettingsError(
            "--leader-elect-resource-namespace: '': expected the namespace of the Lease; outside "
            "of a cluster there is none of our own"
        )
    timing = Timing(
        lease=settings.leader_elect_lease_duration,
        renew=settings.leader_elect_renew_deadline,
        retry=settings.leader_elect_retry_period,
    )

    def seconds_to_try() -> float:
        return elector.seconds_to_try()

    opening = KubeSession.open(
        settings.kubeconfig,
        user_agent=user_agent,
        observe=observe,
        permit=seconds_to_try,
        max_connections=2,
    )
    async with await opening as session:
        leases = Leases(
            session,
            namespace,
            settings.leader_elect_resource_name,
            timeout_seconds=timing.renew / 2,
        )
        elector = Elector(leases, identity=_identity(), timing=timing, clock=awake)
        yield elector


def _identity() -> str:
    """The holder identity for the Lease, made as client-go makes it: host name and random UUID. So
    a process that starts again is another candidate.
    """
    return f"{socket.gethostname()}_{uuid4()}"
