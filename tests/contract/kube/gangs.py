"""What the scheduler reads of gangs, from pods and objects of groups as an API server has them."""

from __future__ import annotations

from typing import Any

import msgspec

from annotations import PREFIX
from scheduler.core.gang_shape import shape_of
from scheduler.core.gang_sources import ALL_SOURCES, Membership
from scheduler.core.membership import membership
from scheduler.facts.group_view import group_view
from scheduler.kube.group_wire import decode_group
from scheduler.kube.wire import decode_pod
from tests.contract.kube.client import Body, KubeClient


def gang_of(pod: Body) -> Membership:
    """The gang of a pod that is in one."""
    read = decode_pod(msgspec.json.encode(pod))
    found = membership(group_view(read, read.metadata.annotations, (PREFIX,)), ALL_SOURCES)
    assert isinstance(found, Membership), found
    return found


async def read_shape(kube: KubeClient, member: Membership) -> Any:
    """The shape of a gang whose size its object says."""
    ref = member.object
    assert ref is not None
    path = f"/apis/{ref.api_version}/namespaces/{ref.namespace}/{ref.plural}/{ref.name}"
    answer = await kube.get(path)
    return shape_of(member, decode_group(ref, msgspec.json.encode(answer.body)))
