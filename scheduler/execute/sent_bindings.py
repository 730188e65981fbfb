"""Asks the API server what became of bindings that neither an answer nor the watch has shown.

The pod may run on the Node of such a binding. So `nodes/presence.py` counts it there, and no other
pod is bound beside it, until the watch shows where it is or that it is gone. What the API server
says here comes earlier, and does not end that.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.execute.tools import Tools
from scheduler.state.units import Unit


class SentBindings:
    """`is_shown` says whether the watch shows the pod with this uid."""

    def __init__(self, tools: Tools, *, is_shown: Callable[[str], bool]) -> None:
        self._kube = tools.kube
        self._units = tools.units
        self._is_shown = is_shown

    def is_open(self, uid: str) -> bool:
        """Whether a binding was sent for the pod that the watch does not show yet."""
        return uid in self._units.binding

    async def node_of(self, unit: Unit, uid: str) -> str | None:
        """The Node of one of the unit's pods, by the API server: "" if it has none, None if there
        is no such pod any more. Raises KubeError.
        """
        pod = await self._kube.get_pod(unit.namespace, unit.pod(uid).name)
        if pod is None or pod.metadata.uid != uid:
            self.is_gone(uid)
            return None
        node = pod.spec.node_name
        if node:
            self.is_found(unit, uid, node)
        return node

    def is_found(self, unit: Unit, uid: str, node: str) -> None:
        """The API server says that the pod is on this Node. A binding to another Node has not taken
        effect.
        """
        if self._units.binding.get(uid) != node:
            self._units.binding.pop(uid, None)
        unit.bindings.nodes[uid] = node

    def is_gone(self, uid: str) -> None:
        """The API server says that there is no such pod, or that it binds it no more. A pod that
        was deleted by force leaves containers, so if the watch shows it, the watch has to show its
        end first: that says whether it was on a Node.
        """
        if not self._is_shown(uid):
            self._units.binding.pop(uid, None)

    def is_unbound(self, uid: str) -> None:
        """The API server says that the pod is on no Node, and no other binding will be sent."""
        self._units.binding.pop(uid, None)
