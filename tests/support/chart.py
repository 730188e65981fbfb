"""Renders and installs the Helm chart, and reads the command line of its Deployment."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.rigs.helm import Helm
from tests.support.kube import Kube, Object
from tests.support.refusing import denying
from tests.support.world import REAL_SECONDS

CHART: Final = Path(__file__).parents[2] / "deploy/helm/slurm-pod-scheduler"
VALUES: Final = sorted((CHART / "ci").glob("*-values.yaml"))
# Flags that only make sense in a pod: `command_line` leaves them out.
_OF_THE_POD: Final = ("-bind-address=",)
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


def chart_of_version(version: str, *, folder: Path) -> Path:
    """A copy of the chart with that version in Chart.yaml."""
    chart = folder / CHART.name
    shutil.copytree(CHART, chart)
    text = (chart / "Chart.yaml").read_text()
    assert "\nversion: 0.1.0\n" in text
    changed = text.replace("\nversion: 0.1.0\n", f"\nversion: {version}\n")
    (chart / "Chart.yaml").write_text(changed)
    return chart


def rendered(helm: Helm, *arguments: str | Path, chart: Path = CHART) -> list[Object]:
    """All objects that `helm template` prints, including those of hooks."""
    text = helm("template", *arguments, chart)
    return [it for it in yaml.safe_load_all(text) if it]


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    """The objects of one kind."""
    return [it for it in objects if it["kind"] == kind]


@dataclass(frozen=True, slots=True)
class Release:
    """An installed chart."""

    helm: Helm
    kube: Kube
    name: str
    namespace: str

    async def upgrade(self, values: Mapping[str, Any], *, chart: Path = CHART) -> str:
        """Install the chart, or upgrade it to other values; returns the notes that helm prints."""
        return await self._run("upgrade", "--install", self.name, chart, "-f", "-", values=values)

    async def test(self, *more: str) -> str:
        """Run `helm test`, which waits until the test pod has ended; returns what it prints."""
        return await self._run("test", self.name, "--timeout", f"{REAL_SECONDS:g}s", *more)

    async def rollback(self) -> None:
        """Roll back to the revision before the last one."""
        await self._run("rollback", self.name)

    async def uninstall(self) -> None:
        """Uninstall the release, and wait until the API server no longer applies its policies."""
        had_policies = await self._has_policies()
        await self._run("uninstall", self.name, "--ignore-not-found", "--wait", "--timeout", "30s")
        if had_policies:
            await policies_forgotten(self.kube, namespace=self.namespace)

    async def _has_policies(self) -> bool:
        status, found = await self.kube.answer("GET", _POLICIES, None)
        assert status == 200, found
        owners = [it["metadata"].get("annotations", {}) for it in found["items"]]
        return any(it.get("meta.helm.sh/release-namespace") == self.namespace for it in owners)

    async def _run(self, *arguments: str | Path, values: Mapping[str, Any] | None = None) -> str:
        given = json.dumps(values) if values is not None else ""
        words = (*arguments, "--namespace", self.namespace)
        return await asyncio.to_thread(self.helm, *words, stdin=given)


async def policies_forgotten(kube: Kube, *, namespace: str) -> None:
    """Wait until deleted policies no longer refuse anything.

    The chart's policies cover the whole cluster, so they would refuse the next test's pods too.
    A real API server applies changes of policies once a second, all together and in their order.
    So this makes a new policy: once the new one is in force, the deleted ones are not
    (kube-apiserver 1.36, `admission/plugin/policy/generic/policy_source.go`).
    """
    async with denying(kube.answer, namespace, "pods/binding", message="a later policy"):
        pass


async def command_line(kube: Kube, release: Release, *, folder: Path) -> tuple[str, ...]:
    """The arguments of the Deployment's container, for a process on this machine.

    The files that the kubelet would mount are written into `folder`. Addresses to listen at are
    left out.
    """
    found = await kube.get("deployments", release.name, namespace=release.namespace)
    pod = found["spec"]["template"]["spec"]
    container = pod["containers"][0]
    words = [it for it in container["args"] if not any(part in it for part in _OF_THE_POD)]
    volumes = {it["name"]: it for it in pod["volumes"]}
    for mount in container["volumeMounts"]:
        place = folder / mount["name"]
        files = await _files(kube, volumes[mount["name"]], namespace=release.namespace)
        _write(place, files)
        words = [it.replace(f"{mount['mountPath']}/", f"{place}/") for it in words]
    assert words[0] == "run"
    return tuple(words[1:])


async def _files(kube: Kube, volume: Object, *, namespace: str) -> dict[str, bytes]:
    """The files of a Secret or ConfigMap that a pod mounts."""
    if "secret" in volume:
        found = await kube.get("secrets", volume["secret"]["secretName"], namespace=namespace)
        return {key: base64.b64decode(it) for key, it in found["data"].items()}
    found = await kube.get("configmaps", volume["configMap"]["name"], namespace=namespace)
    return {key: it.encode() for key, it in found["data"].items()}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
