"""What a pod on a Node means for other pods, in the types of the core."""

from __future__ import annotations

import msgspec

from scheduler.core.node_requests import Amounts
from scheduler.core.pod_affinity import PodTerm
from scheduler.core.ports import HostPort


class Shape(msgspec.Struct, frozen=True, gc=False):
    """What a pod uses of its Node, and which pods it does not want near it."""

    requests: Amounts = ()
    ports: tuple[HostPort, ...] = ()
    apart: tuple[PodTerm, ...] = ()
