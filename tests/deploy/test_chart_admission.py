"""The chart's admission policies: those of deploy/admission, with the settings of the release."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support import admission, pods
from tests.support.chart import CHART, Release, rendered
from tests.support.kube import Kube, KubeAnswerError

if TYPE_CHECKING:
    from tests.rigs.helm import Helm
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

_NAME: Final = "slurm-pod-scheduler"
_PROBE: Final = "admission.test/probe"
_RECORD: Final = {"metadata": {"annotations": {pods.JOB_ID: "4711"}}}


def _policies(helm: Helm, *values: str) -> dict[tuple[str, str], Any]:
    """What the policies and their bindings are, by kind and name without the release's."""
    release = ("tenant-slurm-pods-by-slurm", _NAME)
    objects = rendered(helm, "slurm", "-n", "tenant", "-f", str(CHART / values[0]), *values[1:])
    found = [it for it in objects if it["kind"] in admission.KINDS]
    assert all("app.kubernetes.io/instance" in it["metadata"]["labels"] for it in found)
    return {
        (it["kind"], it["metadata"]["name"].replace(*release)): _spec(it["spec"], *release)
        for it in found
    }


def _spec(spec: dict[str, Any], own: str, plain: str) -> dict[str, Any]:
    if "policyName" in spec:
        return spec | {"policyName": spec["policyName"].replace(own, plain)}
    return spec


def test_policies_are_those_of_the_folder_with_the_settings_of_the_release(
    live_helm: Helm,
) -> None:
    settings = {
        "scheduler-name": "slurm-scheduler",
        "slurm-kill-wait": "1m30s",
        "termination-offset": "6s",
        "grace-policy": "strict",
        "annotation-prefix": "slurm.example.com/",
        "device-resources": "amd.com/gpu=gpu:mi300",
        "scheduler-user": "system:serviceaccount:tenant:slurm,system:serviceaccount:other:slurm",
        "scheduler-account": "system:serviceaccount:tenant:slurm",
        "tolerate": "sunk.coreweave.com/lock",
    }
    wanted = {
        (it["kind"], it["metadata"]["name"]): it["spec"] for it in admission.rendered(settings)
    }
    of_values = {
        "terminationOffset": "6s",
        "gracePolicy": "strict",
        "annotationPrefix": "slurm.example.com/",
        "deviceResources.nvidia\\.com/gpu": "null",
        "deviceResources.amd\\.com/gpu": "gpu:mi300",
    }
    sets = [
        word
        for key, it in of_values.items()
        for word in ("--set", f"scheduler.config.scheduler.{key}={it}")
    ]
    assert _policies(live_helm, "ci/everything-values.yaml", *sets) == wanted


@pytest.mark.parametrize("way", ["--set", "--set-string", "--set-json"])
def test_seconds_without_a_unit_get_one(live_helm: Helm, way: str) -> None:
    """The scheduler accepts them, but the API server would refuse each pod."""
    given = (way, "scheduler.config.slurm.killWait=60", "--set", "scheduler.admission.enabled=true")
    found = _policies(live_helm, "ci/cluster-values.yaml", *given)
    assert "'slurm-kill-wait': '60s'" in str(found)


def test_policies_are_made_where_the_installer_may(live_helm: Helm) -> None:
    """Those of one release must not stop another one, whose account they do not know."""
    new, cluster = ("--kube-version", "1.30.0"), "ci/cluster-values.yaml"
    found = _policies(live_helm, cluster, *new)
    parts = {
        name.rpartition("-")[2]: it for (kind, name), it in found.items() if kind.endswith("y")
    }
    assert parts.keys() == {"account", "pods", "records", "resize"}
    (rule,) = parts["records"]["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["pods", "pods/status"]
    namespaced = ("--set", "scheduler.scope.type=namespace")
    assert _policies(live_helm, cluster, *new, *namespaced) == {}
    assert _policies(live_helm, cluster, "--kube-version", "1.29.9") == {}
    assert _policies(live_helm, cluster, *new, "--set", "scheduler.admission.enabled=false") == {}


def test_policies_are_the_sites_choice(live_helm: Helm) -> None:
    some = ("--set", "scheduler.admission.enabled=true")
    found = _policies(live_helm, "ci/cluster-values.yaml", *some)
    assert {kind for kind, _ in found} == {
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    fewer = (*some, "--set", "scheduler.admission.records=false")
    assert len(_policies(live_helm, "ci/cluster-values.yaml", *fewer)) < len(found)


@pytest.mark.parametrize(("hooks", "policy"), [("true", "auto"), ("false", "strict")])
def test_usual_grace_passes_where_the_release_may_have_a_guard(
    live_helm: Helm, hooks: str, policy: str
) -> None:
    """The default is auto: without the hooks there is no guard, and the scheduler is strict."""
    sets = ("scheduler.admission.enabled=true", f"scheduler.hooks.enabled={hooks}")
    words = [word for it in sets for word in ("--set", it)]
    found = str(_policies(live_helm, "ci/cluster-values.yaml", *words))
    assert f"'grace-policy': '{policy}'" in found.replace('"', "'").replace("\\'", "'")


@pytest.fixture
async def release(
    live_helm: Helm, live_kube: KubeRig, kube: Kube, home: str
) -> AsyncIterator[Release]:
    """The chart with all its policies in force, forgotten afterwards."""
    found = Release(live_helm, kube, _NAME, home)
    values = {
        "name": home,
        "replicas": 0,
        "config": {"slurm": {"apiBase": "http://slurmrestd:6820", "killWait": "60s"}},
        "admission": {"enabled": True, "defaults": True, "tolerate": _PROBE},
    }
    await found.upgrade({"scheduler": values})
    try:
        await asyncio.to_thread(admission.until, lambda: _act(live_kube, home), "they act")
        yield found
    finally:
        await found.uninstall()
        await asyncio.to_thread(admission.until, lambda: _rest(live_kube, home), "they are gone")


def _pods(scheduler: str) -> list[dict[str, Any]]:
    """One that is no good, and one that says of itself what the scheduler alone says."""
    return [
        pods.pod("unknown", scheduler=scheduler, slurm={"no-such-key": "1"}),
        pods.pod("forged", scheduler=scheduler, annotations={pods.JOB_ID: "1"}),
    ]


def _act(rig: KubeRig, scheduler: str) -> bool:
    taken = admission.dry(rig, pods.pod("plain", scheduler=scheduler))
    return _PROBE in taken.text and all(
        admission.dry(rig, it).status != 201 for it in _pods(scheduler)
    )


def _rest(rig: KubeRig, scheduler: str) -> bool:
    taken = [admission.dry(rig, it) for it in _pods(scheduler)]
    return all(it.status == 201 and _PROBE not in it.text for it in taken)


async def test_release_refuses_by_its_own_settings(
    live_kube: KubeRig, release: Release, home: str
) -> None:
    def asked(grace: int) -> tuple[int, str]:
        answer = admission.dry(live_kube, pods.pod("train", scheduler=home, grace=grace))
        return answer.status, answer.text

    assert asked(54)[0] == 201
    status, text = asked(55)
    assert status != 201
    assert "expected at most 54 (KillWait is 60s)" in text


async def test_uninstalled_release_refuses_no_pod_of_the_next_test(
    live_helm: Helm, live_kube: KubeRig, kube: Kube, home: str
) -> None:
    found = Release(live_helm, kube, _NAME, home)
    slurm = {"apiBase": "http://slurmrestd:6820"}
    await found.upgrade({"scheduler": {"name": home, "replicas": 0, "config": {"slurm": slurm}}})
    refused = _pods(home)
    try:
        denied = partial(_all_denied, live_kube, refused)
        await asyncio.to_thread(admission.until, denied, "the policies act")
    finally:
        await found.uninstall()
    assert [admission.dry(live_kube, it).status for it in refused] == [201, 201]


def _all_denied(rig: KubeRig, refused: list[dict[str, Any]]) -> bool:
    return all(admission.dry(rig, it).status != 201 for it in refused)


async def test_records_are_for_the_account_of_the_release(
    live_kube: KubeRig, kube: Kube, release: Release, home: str
) -> None:
    await kube.create("pods", pods.pod("train", scheduler=home), namespace=home)
    token = await kube.service_account_token(_NAME, namespace=home)
    with pytest.raises(KubeAnswerError, match="the scheduler alone writes it"):
        await kube.patch("pods", "train", _RECORD, namespace=home, subresource="status")
    async with Kube(live_kube.url, token=token, ca=live_kube.ca) as scheduler:
        await scheduler.patch("pods", "train", _RECORD, namespace=home, subresource="status")
    found = await kube.get("pods", "train", namespace=home)
    assert pods.annotation(found, pods.JOB_ID) == "4711"
