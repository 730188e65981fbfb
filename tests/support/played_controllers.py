"""Applies manifests of groups of pods, and plays the controllers that the sandbox does not have.

Of JobSet v0.11.0 (jobset_controller.go: constructJob, labelAndAnnotateObject) the Jobs are made, of
LeaderWorkerSet v0.8.0 (pod_webhook.go, leaderworkerset_controller.go) the pods. On a real server
only manifests without such objects are applied.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.kube import Object
from tests.support.world import World

_OURS: Final = "podgroups.scheduling.k8s.io"
_JOBSET: Final = "jobset.sigs.k8s.io/"
_LWS: Final = "leaderworkerset.sigs.k8s.io/"
_KINDS: Final = {
    "Pod": "pods",
    "Job": "jobs",
    "JobSet": "jobsets",
    "LeaderWorkerSet": "leaderworkersets",
    "PodGroup": "podgroups",
}


def documents(path: Path) -> list[Object]:
    """The objects of a file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@dataclass(slots=True)
class Applied:
    """What has been created, in order; each with its plural."""

    world: World
    objects: list[tuple[str, Object]] = field(default_factory=list)

    async def apply(self, found: Iterable[Object]) -> None:
        """Create these objects, and what their controllers would create at once of them."""
        for body in found:
            made = await self.create(body)
            if body["kind"] == "LeaderWorkerSet":
                for pod in _pods_of_lws(body):
                    await self.create(pod)
            if body["kind"] == "JobSet":
                for part in _parts(body):
                    if not part.get("dependsOn"):
                        await self.create_jobs(made, part["name"])

    async def create_jobs(self, jobset: Object, name: str) -> None:
        """Create the Jobs of a part of a JobSet that has been created."""
        for job in _jobs_of(jobset, name):
            await self.create(job)

    async def create(self, body: Object) -> Object:
        """Create an object; containers are as this cluster needs them."""
        body = copy.deepcopy(body)
        kind = (
            _OURS if body["apiVersion"].startswith("scheduling.k8s.io/") else _KINDS[body["kind"]]
        )
        for container in _containers(body):
            container.update(self.world.cluster.container)
        made = await self.world.kube.create(kind, body, namespace=self.world.namespace)
        self.objects.append((kind, made))
        return made

    def object(self, kind: str) -> Object:
        """The first object with this plural."""
        return next(it for plural, it in self.objects if plural == kind)

    async def delete(self) -> None:
        """Delete all that has been created, the last first."""
        for kind, it in reversed(self.objects):
            await self.world.kube.delete(
                kind, it["metadata"]["name"], namespace=self.world.namespace
            )


def _containers(body: Any) -> Iterator[Object]:
    if isinstance(body, dict):
        yield from body.get("containers", ())
        for value in body.values():
            yield from _containers(value)
    elif isinstance(body, list):
        for it in body:
            yield from _containers(it)


def _parts(jobset: Object) -> list[Object]:
    return list(jobset["spec"]["replicatedJobs"])


def _jobs_of(jobset: Object, name: str) -> Iterator[Object]:
    """The Jobs of a part, with the labels that they and their pods have."""
    before = 0
    for part in _parts(jobset):
        if part["name"] == name:
            yield from (_job(jobset, part, at, before) for at in range(part["replicas"]))
        before += part["replicas"]


def _job(jobset: Object, part: Object, index: int, before: int) -> Object:
    set_name = jobset["metadata"]["name"]
    name = f"{set_name}-{part['name']}-{index}"
    total = str(sum(it["replicas"] for it in _parts(jobset)))
    labels = {
        f"{_JOBSET}jobset-name": set_name,
        f"{_JOBSET}jobset-uid": jobset["metadata"]["uid"],
        f"{_JOBSET}replicatedjob-name": part["name"],
        f"{_JOBSET}restart-attempt": "0",
        f"{_JOBSET}replicatedjob-replicas": str(part["replicas"]),
        f"{_JOBSET}global-replicas": total,
        f"{_JOBSET}job-index": str(index),
        f"{_JOBSET}job-key": _key(name),
        f"{_JOBSET}job-global-index": str(before + index),
        f"{_JOBSET}group-name": "default",
        f"{_JOBSET}group-replicas": total,
        f"{_JOBSET}job-group-index": str(before + index),
    }
    spec = copy.deepcopy(part["template"]["spec"])
    pod = spec["template"].setdefault("metadata", {})
    for kind in ("labels", "annotations"):
        pod[kind] = (pod.get(kind) or {}) | labels
    # JobSet's webhook sets both where the author does not.
    spec.setdefault("completionMode", "Indexed")
    spec["template"]["spec"].setdefault("restartPolicy", "OnFailure")
    given = part["template"].get("metadata") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": (given.get("labels") or {}) | labels,
            "annotations": dict(labels),
            "ownerReferences": [_owner(jobset)],
        },
        "spec": spec | {"suspend": False},
    }


def _pods_of_lws(group_set: Object) -> Iterator[Object]:
    """The pods of all groups. (Their StatefulSets are not created: nothing here would use them.)"""
    template = group_set["spec"]["leaderWorkerTemplate"]
    worker = template["workerTemplate"]
    leader = template.get("leaderTemplate", worker)
    for group in range(group_set["spec"]["replicas"]):
        for index in range(template["size"]):
            yield _pod_of_lws(group_set, worker if index else leader, group, index)


def _pod_of_lws(group_set: Object, template: Object, group: int, index: int) -> Object:
    name = group_set["metadata"]["name"]
    leader = f"{name}-{group}"
    given = template.get("metadata") or {}
    labels = {
        f"{_LWS}name": name,
        f"{_LWS}group-index": str(group),
        f"{_LWS}worker-index": str(index),
        f"{_LWS}group-key": _key(leader),
        f"{_LWS}template-revision-hash": "7c9d8f6b5",
    }
    annotations = {f"{_LWS}size": str(group_set["spec"]["leaderWorkerTemplate"]["size"])}
    if index:
        annotations[f"{_LWS}leader-name"] = leader
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": leader if index else name, "uid": f"statefulset-{leader}-{index > 0}"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{leader}-{index}" if index else leader,
            "labels": (given.get("labels") or {}) | labels,
            "annotations": (given.get("annotations") or {}) | annotations,
            "ownerReferences": [_owner(owner)],
        },
        "spec": copy.deepcopy(template["spec"]),
    }


def _owner(of: Object) -> Object:
    return {
        "apiVersion": of["apiVersion"],
        "kind": of["kind"],
        "name": of["metadata"]["name"],
        "uid": of["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _key(name: str) -> str:
    """In place of the hash that both controllers make of the namespace and the name."""
    return sha1(name.encode(), usedforsecurity=False).hexdigest()
