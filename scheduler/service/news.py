"""Decides which units get a pass when a cache shows something new."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from scheduler.execute.owner_hints import OwnerHints
from scheduler.facts.gather import LARGE_GANG
from scheduler.facts.pod_endings import Partings
from scheduler.kube.demands import depends_on_pods, has_claims
from scheduler.kube.slim import decides_nothing, edited, only_bound
from scheduler.kube.store import Joined
from scheduler.kube.wire import Namespace, Pod
from scheduler.nodes.neighbourhood import RoomChange
from scheduler.nodes.presence import Presence
from scheduler.observe.wake import WakeCause
from scheduler.reconcile.standby import Standby
from scheduler.reconcile.workqueue import WorkQueue
from scheduler.service.gang_pace import GangPace
from scheduler.service.gauges import observe_start
from scheduler.service.outside import Outside
from scheduler.service.rounds import Rounds
from scheduler.state.gangs import Gangs
from scheduler.state.units import Unit, Units

# The pass after a binding comes so late, and later for each unit that waits for a worker: in a
# burst, a hundred pods a second are bound at least.
_CONFIRM_SECONDS: Final = 5.0
_CONFIRM_SECONDS_PER_UNIT: Final = 0.01


class News:
    """What the caches report, passed on to the work queue, or to the standby while another process
    leads. The caches are made before the standby, so `stand_by` names it later, but before any
    cache is filled.
    """

    def __init__(
        self,
        outside: Outside,
        *,
        units: Units,
        gangs: Gangs,
        pods: Joined[Pod],
        queue: WorkQueue[str],
        presence: Presence,
        partings: Partings,
        owner_hints: OwnerHints,
    ) -> None:
        self._leads = outside.leads
        self._metrics = outside.metrics
        self._clock = outside.clock
        self._units = units
        self._gangs = gangs
        self._pods = pods
        self._queue = queue
        self._presence = presence
        self._partings = partings
        self._owner_hints = owner_hints
        self._standby: Standby | None = None
        self._gpu_types: frozenset[str] | None = None
        self._pace = GangPace()
        self.rounds = Rounds(units, wake=self.wake, wake_pods=self._wake_pods)

    def stand_by(self, standby: Standby) -> None:
        """Name the standby, which gets the units' news while another process leads."""
        self._standby = standby

    def wake(self, key: str, cause: WakeCause) -> None:
        """Something about this unit has changed, or may have."""
        if self._leads():
            self._queue.add(key, cause)
        elif self._standby is not None:
            self._standby.follow(key)

    def wake_unit_of(self, pod: Pod, cause: WakeCause) -> None:
        """Something about this pod has changed, or may have."""
        key = self.key_of(pod)
        if not self._leads():
            if self._standby is not None:
                self._standby.follow(key, pod.metadata.uid)
            return
        unit = self._units.get(key)
        # A gang of which all pods have ended has no unit, and each pass makes it anew.
        pods = len(self._gangs.pods(key) if unit is None else unit.members)
        if pods < LARGE_GANG:
            self._queue.add(key, cause)
            return
        seconds = self._pace.wait(
            key, pod.metadata.namespace, pods=pods, now=self._clock(), unread=unit is None
        )
        self._queue.add_after(key, seconds)

    def key_of(self, pod: Pod) -> str:
        """The key of the pod's unit, or of the unit that is to be made for it."""
        self._gangs.settle(pod)
        return self._key_of(pod.metadata.uid)

    def _key_of(self, uid: str) -> str:
        unit = self._units.of_pod(uid)
        return self._gangs.key_of(uid) if unit is None else unit.key

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """One of our pods was added, changed or deleted."""
        if new is None and old is not None:
            old = self._where_bound(old)
        self._presence.changed(old, new)
        if old is None and new is not None:
            self._gangs.came(new)
        elif new is not None:
            self._gangs.changed(new)
        pod = new or old
        observe_start(self._metrics, self._units, old=old, new=new, now=self._clock())
        if pod is not None:
            self._partings.saw(pod)
            if old is None and self._leads():
                self._owner_hints.see(pod)
            if old is None or new is None:
                self.wake_unit_of(pod, WakeCause.WATCH)
            elif not decides_nothing(old, new):
                self._changed(old, new)
        if old is not None and new is None:
            self._gangs.went(old.metadata.uid)

    def _where_bound(self, pod: Pod) -> Pod:
        """The pod, which is gone, on its Node. It may be deleted by force before the watch has
        shown our binding, and its containers may run nevertheless.
        """
        uid = pod.metadata.uid
        unit = self._units.of_pod(uid)
        node = "" if unit is None else unit.bindings.nodes.get(uid, "")
        if pod.spec.node_name or not node:
            return pod
        return pod.bound_to(node)

    def _changed(self, old: Pod, new: Pod) -> None:
        if self._leads() and self._is_our_binding(old, new):
            seconds = _CONFIRM_SECONDS + _CONFIRM_SECONDS_PER_UNIT * len(self._queue)
            self._queue.add_after(self._key_of(new.metadata.uid), seconds)
            return
        edit = edited(old, new)
        self.wake_unit_of(new, WakeCause.EDIT if edit else WakeCause.WATCH)

    def _is_our_binding(self, old: Pod, new: Pod) -> bool:
        """Whether the pod is on the Node that we have sent it to, as a pass has decided, so the
        next pass will decide nothing. A gang's next pass may have to bind other pods.
        """
        unit = self._units.of_pod(new.metadata.uid)
        if unit is None or unit.gang is not None:
            return False
        return self._presence.is_proven(new.metadata.uid) and only_bound(old, new)

    def nodes_changed(self, gpu_types: frozenset[str] | None) -> None:
        """Nodes have changed, so a pod that fitted no Node may fit one now. If the types of GPUs
        that Slurm knows (None: unknown) have changed, the request of any pod may be read
        differently.
        """
        read_anew, self._gpu_types = gpu_types != self._gpu_types, gpu_types
        self.rounds.ask(_any if read_anew else _has_no_job, WakeCause.NODES)

    def compared(self, uid: str) -> None:
        """A pod that waited to be compared with the Nodes has been compared."""
        self._queue.add(self._key_of(uid), WakeCause.NODES)

    def counted(self, key: str) -> None:
        """The census has found something out about this unit's job."""
        self._queue.add(key, WakeCause.CENSUS)

    def room_changed(self, change: RoomChange) -> None:
        """Pods have come or gone, so a pod that no Node could take may fit one now."""
        for_all = change is RoomChange.FOR_ALL
        concerns = _has_no_job if for_all else self._waits_beside_pods
        self.rounds.ask(concerns, WakeCause.NODES)

    def volumes_changed(self, namespaces: Collection[str]) -> None:
        """Claims of these namespaces or their volumes have changed, so pods there that wait for a
        claim to be bound may go on.
        """
        self.rounds.ask(self._waits_with_claim, WakeCause.NODES, namespaces=namespaces)

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        """A namespace's labels have changed or have become known; the policy may decide
        differently.
        """
        if new is None:
            return
        name = new.metadata.name
        if old is None:  # its pods may have waited for this, and have no unit yet
            self.rounds.visit(name)
        elif old.metadata.labels != new.metadata.labels:
            self.rounds.ask(self._is_unfinished, WakeCause.POLICY, namespaces=(name,))

    async def policy_changed(self) -> None:
        """Pods that were refused may be allowed now, and others may be refused."""
        await self._wake_pods()

    async def _wake_pods(self, namespace: str | None = None) -> None:
        """Wake the unit of each pod, or of each pod of the namespace."""
        async for pod in self._pods.with_pauses(namespace):
            if not pod.finished:
                self.wake_unit_of(pod, WakeCause.POLICY)

    def guard_known(self) -> None:
        """The handover guard is known to be installed: pods that were refused for their grace
        periods may be accepted now.
        """
        self.rounds.ask(_has_no_job, WakeCause.KILL_WAIT)

    def kill_wait_changed(self) -> None:
        """KillWait has changed, and with it the longest grace period that a pod may have."""
        self.rounds.ask(_any, WakeCause.KILL_WAIT)

    def _waits_with_claim(self, unit: Unit) -> bool:
        return any(not pod.spec.node_name and has_claims(pod) for pod in self._pods_of(unit))

    def _is_unfinished(self, unit: Unit) -> bool:
        return any(not pod.finished for pod in self._pods_of(unit))

    def _waits_beside_pods(self, unit: Unit) -> bool:
        return _has_no_job(unit) and any(map(depends_on_pods, self._pods_of(unit)))

    def _pods_of(self, unit: Unit) -> Iterator[Pod]:
        return (pod for uid in unit.uids if (pod := self._pods.get(uid)) is not None)


def _any(_unit: Unit) -> bool:
    return True


def _has_no_job(unit: Unit) -> bool:
    """Also if it does not say yet that it is refused or fits nowhere: the write may be on its way,
    and this process has not heard of what a former one has written.
    """
    return unit.job is None
