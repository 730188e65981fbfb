"""An admission policy that denies some writes on pods, as a scheduler meets it."""

from __future__ import annotations

from tests.contract.kube.client import Body, KubeClient, Namespace
from tests.support.refusing import Ask, denying

JOB_ID = {"metadata": {"annotations": {"slurm-pod-scheduler/job-id": "4711"}}}


async def test_denied_binding_is_invalid_and_names_the_policy(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    async with denying(_ask(kube), namespace.name, "pods/binding", message="not at night"):
        refusal = (await namespace.bind()).refused(422, "Invalid")
        assert (await kube.patch(namespace.path("pods", "p1/status"), JOB_ID)).status == 200
    name = f"deny-pods-binding-{namespace.name}"
    said = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: not at night"
    assert refusal["message"] == f'pods "p1" is forbidden: {said}'
    assert (await namespace.bind()).status == 201


async def test_denied_status_is_invalid_and_names_the_policy(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    async with denying(_ask(kube), namespace.name, "pods/status", message="not at night"):
        answer = await kube.patch(namespace.path("pods", "p1/status"), JOB_ID)
        refusal = answer.refused(422, "Invalid")
        assert (await namespace.bind()).status == 201
    assert refusal["message"].startswith('pods "p1" is forbidden: ValidatingAdmissionPolicy ')
    assert refusal["message"].endswith("denied request: not at night")


def _ask(kube: KubeClient) -> Ask:
    async def ask(method: str, path: str, body: Body | None) -> tuple[int, Body]:
        kind = {"PATCH": "application/strategic-merge-patch+json"}
        form = kind.get(method, "application/json")
        answer = await kube.call(method, path, body, content_type=form)
        return answer.status, answer.body

    return ask
