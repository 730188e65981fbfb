"""Manifests to migrate, and what becomes of them."""

from __future__ import annotations

from typing import Any

import yaml

from annotations import Rules
from scheduler.migrate.examine import Examined, examine
from scheduler.migrate.plan import Site

SITE = Site(rules=Rules())
BRIDGE = "slurmjob.slinky.slurm.net/"
SUNK = "sunk.coreweave.com/"
REQUESTS = {"requests": {"cpu": "1", "memory": "1Gi"}}


def pod_spec(**more: Any) -> dict[str, Any]:
    """A spec that the scheduler takes."""
    return {
        "schedulerName": "slurm-scheduler",
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "resources": dict(REQUESTS)}],
        **more,
    }


def sunk_pod(**annotations: str) -> dict[str, Any]:
    """A pod as it is written for SUNK. `_` in names stands for `-`."""
    own = {SUNK + name.replace("_", "-"): it for name, it in annotations.items()}
    spec = pod_spec(schedulerName="tenant-slurm-slurm-scheduler")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": own},
        "spec": spec,
    }


def bridge_job(inside: dict[str, str] | None = None, /, **annotations: str) -> dict[str, Any]:
    """A Job as it is written for slurm-bridge."""
    own = {BRIDGE + name.replace("_", "-"): it for name, it in annotations.items()}
    template: dict[str, Any] = {"spec": pod_spec(schedulerName="slurm-bridge-scheduler")}
    if inside is not None:
        template["metadata"] = {"annotations": inside}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "annotations": own},
        "spec": {"template": template},
    }


def examined(*objects: Any, site: Site = SITE) -> Examined:
    """What is found in a file of these objects."""
    return examine(yaml.safe_dump_all(objects, sort_keys=False).encode(), site)


def after(*objects: Any, site: Site = SITE) -> Any:
    """The first object after the changes."""
    return next(yaml.safe_load_all(examined(*objects, site=site).new_text))


def annotations_of(job: dict[str, Any]) -> dict[str, str]:
    """Those of the pod template, without our prefix."""
    own = job["spec"]["template"]["metadata"]["annotations"]
    return {key.removeprefix(SUNK): it for key, it in own.items()}


def texts(found: Examined) -> list[str]:
    """What people are told."""
    return [it.note.problem.text for it in found.findings]
