"""Checks the volumes of pods: whether their claims are bound, and which Nodes can reach them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from annotations import Problem
from scheduler.core.node_suitability import NodeFacts, Term, matches
from scheduler.kube.demands import claims_of
from scheduler.kube.store import Store
from scheduler.kube.wire import Claim, PersistentVolume, Pod

Reach = tuple[tuple[str, tuple[Term, ...]], ...]
"""Claims with volumes that not all Nodes can reach, and the terms that a Node must match."""

_UNREAD: Final = (
    "a volume that needs no claim: this scheduler may not read PersistentVolumeClaims and "
    "PersistentVolumes, so that it does not know which Nodes can reach one (--volume-access)"
)
_UNBOUND: Final = (
    "a claim that is bound to a volume already: Slurm chooses the Node, so nobody chooses a volume "
    "for it (volumeBindingMode WaitForFirstConsumer); take a StorageClass with volumeBindingMode "
    "Immediate, or name the volume in the claim's spec.volumeName"
)


class Volumes:
    """Reads the store of volumes, and gets each change of a claim, if we may read both."""

    def __init__(self, volumes: Store[PersistentVolume]) -> None:
        self._volumes = volumes
        self._changed_in: set[str] = set()
        self._by_name: dict[tuple[str, str], Claim] = {}
        self._readable = True

    def do_without(self) -> None:
        """Note that we may not read claims or volumes."""
        self._readable = False

    def claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        """Keep the claims by name, and note this change if it can matter to pods. Called with each
        change of a claim.
        """
        known = tuple(filter(None, (old, new)))
        for claim in known:
            meta = claim.metadata
            self._by_name.pop((meta.namespace, meta.name), None)
        if new is not None:
            self._by_name[new.metadata.namespace, new.metadata.name] = new
        if old is None or new is None or (old.bound, old.spec) != (new.bound, new.spec):
            self._changed_in.update(it.metadata.namespace for it in known)

    def volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """Note this change if it can matter to pods: those beside the claim that the volume belongs
        to. Called with each change of a volume.
        """
        if old is None or new is None or old.spec != new.spec:
            refs = [it.spec.claim_ref for it in (old, new) if it is not None]
            self._changed_in.update(ref.namespace for ref in refs if ref is not None)

    def taken_changes(self) -> frozenset[str]:
        """The namespaces in which a change may help pods, of those since the last call. So who
        changes their own claims all the time costs nobody else's pods a pass.
        """
        taken = frozenset(self._changed_in)
        self._changed_in.clear()
        return taken

    def problems(self, pod: Pod) -> tuple[Problem, ...]:
        """What is wrong with the pod's claims."""
        return tuple(self._problems(pod))

    def reach(self, pod: Pod) -> Reach:
        """What the pod's volumes require of Nodes; empty if all Nodes can reach them."""
        if not self._readable or not pod.spec.volumes:
            return ()
        found = ((name, self._terms(pod, name)) for _, name in claims_of(pod))
        return tuple((name, terms) for name, terms in found if terms is not None)

    def _problems(self, pod: Pod) -> Iterator[Problem]:
        for volume, name in claims_of(pod):
            expected = self._wrong(pod, name) if self._readable else _UNREAD
            if expected:
                yield Problem(f"spec.volumes[{volume}].persistentVolumeClaim", name, expected)

    def _wrong(self, pod: Pod, name: str) -> str:
        claim = self._by_name.get((pod.metadata.namespace, name))
        if claim is None:
            return "the name of a PersistentVolumeClaim in the pod's namespace"
        if claim.metadata.deletion_timestamp is not None:
            return "a PersistentVolumeClaim that is not being deleted"
        if not claim.bound:
            return _UNBOUND
        volume = self._volumes.by_name(claim.spec.volume_name)
        if volume is None:
            return f"a claim whose volume exists: {claim.spec.volume_name} does not"
        return "" if volume.belongs_to(claim) else _UNBOUND

    def _terms(self, pod: Pod, name: str) -> tuple[Term, ...] | None:
        """The terms of the claim's volume; None if there are none. The pod's author may read them
        in a message, so those of a volume of another claim do not count.
        """
        claim = self._by_name.get((pod.metadata.namespace, name))
        if claim is None or not claim.bound:
            return None
        volume = self._volumes.by_name(claim.spec.volume_name)
        return volume.terms if volume is not None and volume.belongs_to(claim) else None


def out_of_reach(reach: Reach, node: NodeFacts) -> str:
    """Why the Node cannot reach a volume, as the rest of a sentence; "" if it can."""
    for claim, terms in reach:
        if not matches(terms, node):
            wanted = "; ".join(
                ", ".join(map(str, (*term.match_expressions, *term.match_fields)))
                for term in terms[:3]
            )
            return f"cannot reach the volume of claim {claim} (which needs {wanted or 'nothing'})"
    return ""
