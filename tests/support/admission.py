"""Installs the admission policies of deploy/admission on a real API server, and removes them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from tests.support import pods

if TYPE_CHECKING:
    from tests.rigs.kube import Answer, KubeRig

FOLDER: Final = Path(__file__).parents[2] / "deploy/admission"
_REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
KINDS: Final = {
    "ValidatingAdmissionPolicy": f"{_REGISTRATION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_REGISTRATION}/validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": f"{_REGISTRATION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{_REGISTRATION}/mutatingadmissionpolicybindings",
}
# Generous, because other work may slow the machine down.
_SECONDS: Final = 60.0
# A toleration that shows the mutating policy at work, whatever else it does.
_PROBE: Final = "admission.test/probe"
_NAME: Final = "slurm-scheduler"


def rendered(settings: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """All objects that render.sh makes of the folder with these settings."""
    given = [f"{key}={value}" for key, value in (settings or {}).items()]
    command = ("sh", str(FOLDER / "render.sh"), *given)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [body for body in yaml.safe_load_all(text) if body]


@contextmanager
def admitted(rig: KubeRig, settings: Mapping[str, str] | None = None) -> Iterator[None]:
    """Within the block the policies are in force, with these settings."""
    given = dict(settings or {})
    given["tolerate"] = ",".join(filter(None, [given.get("tolerate"), _PROBE]))
    names = [*given.get("scheduler-name", _NAME).split(",")]
    try:
        for body in rendered(given):
            answer = rig.ask("POST", KINDS[body["kind"]], body)
            assert answer.status == 201, answer.text
        until(lambda: _all_act(rig, names[0]), "the policies are in force")
        yield
    finally:
        _remove(rig, names[0])


def _remove(rig: KubeRig, name: str) -> None:
    # The server forgets policies in the order of their deletion. `_none_acts` tries out those that
    # are deleted last, so none is in force when it holds.
    for body in sorted(rendered(), key=lambda it: it["metadata"]["name"].endswith("-pods")):
        rig.ask("DELETE", f"{KINDS[body['kind']]}/{body['metadata']['name']}")
    until(lambda: _none_acts(rig, name), "the policies are no longer in force")


def dry(rig: KubeRig, pod: Mapping[str, Any], *, namespace: str = "default") -> Answer:
    """What the API server answers to the creation of a pod, as a dry run."""
    return rig.ask("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", pod)


def deployment(template: Mapping[str, Any]) -> dict[str, Any]:
    """A Deployment with that pod as its template."""
    metadata = {key: it for key, it in template["metadata"].items() if key != "name"}
    return {
        "metadata": {"name": "train"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": template["metadata"]["name"]}},
            "template": {"metadata": metadata, "spec": template["spec"]},
        },
    }


def _dry_template(rig: KubeRig, pod: Mapping[str, Any]) -> Answer:
    where = "/apis/apps/v1/namespaces/default/deployments?dryRun=All"
    return rig.ask("POST", where, deployment(pod))


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a condition; AssertionError after 60 s."""
    end = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < end, f"not within {_SECONDS} s: {what}"
        time.sleep(0.1)


def _all_act(rig: KubeRig, name: str) -> bool:
    plain = dry(rig, pods.pod("plain", scheduler=name))
    return (
        plain.status == 201
        and _PROBE in _tolerated(plain)
        and all(dry(rig, it).status != 201 for it in _refused(name))
        and bool(_dry_template(rig, _misspelt(name)).warnings)
    )


def _none_acts(rig: KubeRig, name: str) -> bool:
    answers = [dry(rig, it) for it in _refused(name)]
    return all(it.status == 201 and _PROBE not in _tolerated(it) for it in answers)


def _tolerated(answer: Answer) -> list[str]:
    return [str(it.get("key")) for it in answer.body["spec"]["tolerations"]]


def _refused(name: str) -> Iterator[dict[str, Any]]:
    yield _misspelt(name)
    yield pods.pod("forged", scheduler=name, annotations={pods.JOB_ID: "1"})


def _misspelt(name: str) -> dict[str, Any]:
    return pods.pod("unknown", scheduler=name, slurm={"no-such-key": "1"})
