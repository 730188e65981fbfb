"""What a pod's spec requires is honoured, or refused in words, or let pass knowingly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec
import pytest

from scheduler.kube.store import Store
from scheduler.kube.wire import Claim, ClaimSpec, Identity, PersistentVolume, Pod, decoder
from scheduler.nodes.fit import SURVEY_SECONDS
from scheduler.nodes.neighbourhood import MOST_CROWDS
from scheduler.nodes.volumes import Volumes
from scheduler.observe.wake import WakeCause
from scheduler.policy.rules import Policy, Rule
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime

Spec = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"
WEB: Spec = {"matchLabels": {"app": "web"}}
_read = decoder(Pod)


def pod(uid: str, *, node: str = "", app: str = "train", **spec: Any) -> Pod:
    """As the API server shows it."""
    requests = {"cpu": "1", "memory": "1Gi"}
    main = {"name": "c", "resources": {"requests": requests}} | spec.pop("container", {})
    body = {
        "metadata": {
            "name": uid,
            "namespace": "ns",
            "uid": uid,
            "resourceVersion": "1",
            "labels": {"app": app},
        },
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 20, **spec},
        "status": {"phase": "Pending"},
    }
    if node:
        body["spec"] |= {"nodeName": node, "schedulerName": "default-scheduler"}
    return _read(msgspec.json.encode(body))


def needs(kind: str, key: str = ZONE, **term: Any) -> dict[str, Any]:
    """A pod's affinity to the pods of `web`, or its anti-affinity."""
    terms = [{"topologyKey": key, "labelSelector": WEB} | term]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


SPREAD: Spec = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": WEB,
        }
    ]
}
PORT: Spec = {"container": {"ports": [{"hostPort": 8080, "protocol": "TCP"}]}}
FPGA: Spec = {
    "container": {"resources": {"requests": {"cpu": "1", "memory": "1Gi", "x.org/fpga": "1"}}}
}
HUGE: Spec = {
    "resources": {"requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi"}},
    "initContainers": [{"name": "i", "resources": {"requests": {"x.org/fpga": "1"}}}],
}
CLAIM: Spec = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
DEVICE: Spec = {"resourceClaims": [{"name": "gpu"}]}


@pytest.fixture(autouse=True)
async def zones(kube):
    kube.set_node("n1", labels={ZONE: "a"})
    kube.set_node("n2", labels={ZONE: "b"})


async def served(service: Service, found: Pod) -> str:
    """What the pod says once it has been looked at."""
    service.kube._put(found)
    if not service._tasks:
        service.start()
    await asyncio.sleep(5)
    condition = service.kube.condition_of(found.metadata.uid)
    return "" if condition is None else f"{condition.reason}: {condition.message}"


def left_out(service: Service) -> tuple[str, ...]:
    """The nodes that the last job was not to get."""
    return service.slurm.submissions[max(service.slurm.jobs)].excluded_nodes


@pytest.mark.parametrize(
    ("spec", "excluded"),
    [
        (needs("podAffinity"), ("n2",)),
        (needs("podAntiAffinity"), ("n1",)),
        (SPREAD | {"app": "web"}, ("n1",)),
        (PORT, ("n1",)),
    ],
    ids=["affinity", "anti-affinity", "spread", "port"],
)
async def test_nodes_that_other_pods_rule_out_are_left_out_from_the_beginning(
    service, kube, spec, excluded
):
    kube.add_neighbour(pod("web-1", node="n1", app="web", **PORT))
    assert "SlurmPending" in await served(service, pod("uid-1", **spec))
    assert left_out(service) == excluded


async def test_pods_that_are_being_deleted_do_not_count_for_spread_but_do_for_anti_affinity(
    service, kube
):
    """As in kube-scheduler: podtopologyspread's countPodsMatchSelector skips them."""
    going = pod("web-1", node="n1", app="web")
    meta = msgspec.structs.replace(
        going.metadata, deletion_timestamp=msgspec.json.decode('"2026-01-01T00:00:00Z"')
    )
    kube.add_neighbour(msgspec.structs.replace(going, metadata=meta))
    await served(service, pod("uid-1", **SPREAD, app="web"))
    assert service.slurm.submissions[1].excluded_nodes == ()
    await served(service, pod("uid-2", **needs("podAntiAffinity")))
    assert service.slurm.submissions[2].excluded_nodes == ("n1",)


async def test_pod_that_runs_keeps_others_away(service, kube):
    """The anti-affinity of one counts for both."""
    kube.add_neighbour(pod("web-1", node="n1", app="web", **needs("podAntiAffinity")))
    await served(service, pod("uid-1", app="web"))
    assert left_out(service) == ("n1",)


def volume(*zones: str, **ref: str) -> PersistentVolume:
    """One that can be reached from these zones; from everywhere without any. It belongs to the
    claim `data`, unless `ref` says otherwise.
    """
    required = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": required}}} if zones else {}
    belongs = {"claimRef": {"namespace": "ns", "name": "data", "uid": "c-1"} | ref}
    body = {"metadata": {"name": "pv-1", "uid": "v-1"}, "spec": affinity | belongs}
    return decoder(PersistentVolume)(msgspec.json.encode(body))


def comes(**spec: Any) -> Callable[[TinyKube], None]:
    return lambda kube: kube.add_neighbour(pod("web-1", node="n1", app="web", **spec))


def moves_away(kube: TinyKube) -> None:
    kube.volumes.apply(volume("b"))


def fills_up(kube: TinyKube) -> None:
    kube.set_node("n1", labels={ZONE: "a"}, pods="1")
    comes()(kube)


@pytest.mark.parametrize(
    ("spec", "change", "words"),
    [
        (
            needs("podAntiAffinity"),
            comes(),
            "is near a pod of the pod's required podAntiAffinity (app In [web] by",
        ),
        ({"app": "web"}, comes(**needs("podAntiAffinity")), "keeps this pod away"),
        (SPREAD | {"app": "web"}, comes(), "allow a maxSkew of 1"),
        (PORT, comes(**PORT), "has its port 8080/TCP taken by pod ns/web-1"),
        (CLAIM, moves_away, "cannot reach the volume of claim data"),
        ({}, fills_up, "has 0 of 1 pods free"),
    ],
    ids=["anti-affinity", "another's anti-affinity", "spread", "port", "volume", "pods"],
)
async def test_what_has_changed_since_the_submit_is_found_before_the_bind(
    service, kube, spec, change, words
):
    kube.set_claim(claim(bound=True))
    kube.volumes.apply(volume())
    await served(service, pod("uid-1", **spec))
    assert left_out(service) == ()
    change(kube)
    service.slurm.start(1, node="n1")
    await asyncio.sleep(5)
    assert kube.bindings == []
    (message,) = [it.message for it in service.recorder.events if it.reason == "NodeUnavailable"]
    assert "Node n1 " in message
    assert words in message
    assert "the job is cancelled" in message
    assert left_out(service) == ("n1",)
    service.slurm.start(2, node="n2")
    await asyncio.sleep(5)
    assert kube.bindings == [("uid-1", "n2")]


async def test_pod_that_no_node_can_take_beside_the_others_says_so(service, kube):
    for name in ("n1", "n2"):
        kube.add_neighbour(pod(f"web-{name}", node=name, app="web", **PORT))
    message = await served(service, pod("uid-1", **PORT))
    assert message == (
        "NoNodeFits: None of the 2 Kubernetes Nodes can take the pod: 1 has its port 8080/TCP "
        "taken by pod ns/web-n1; 1 has its port 8080/TCP taken by pod ns/web-n2"
    )
    assert not service.slurm.jobs


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (needs("podAffinity"), "spec.affinity.podAffinity is 'required'; expected preferred"),
        (needs("podAntiAffinity"), "spec.affinity.podAntiAffinity is 'required'"),
        (SPREAD, "whenUnsatisfiable is 'DoNotSchedule'; expected ScheduleAnyway"),
        (PORT, "spec.containers[c].ports.hostPort is '8080'; expected no port of the Node"),
        (FPGA, "requests.x.org/fpga is '1'; expected a resource that Slurm counts as gres"),
        (HUGE, "spec.resources.requests.hugepages-2Mi is '4Mi'; expected a resource that Slurm"),
        (HUGE, "spec.initContainers[i].resources.requests.x.org/fpga is '1'"),
    ],
    ids=["affinity", "anti-affinity", "spread", "port", "resource", "of the pod", "init"],
)
async def test_without_the_right_to_read_pods_it_is_refused_with_a_remedy(service, spec, words):
    service.fit.do_without()
    message = await served(service, pod("uid-1", **spec))
    assert message.startswith("SchedulingFailed: ")
    assert words in message
    assert "--pod-access" in message
    assert not service.slurm.jobs


async def test_resource_of_no_gres_is_counted_with_the_right_to_read_pods(service, kube):
    kube.set_node("n2", labels={ZONE: "b"}, **{"x.org/fpga": "1"})
    await served(service, pod("uid-1", **FPGA))
    assert left_out(service) == ("n1",)


async def test_labels_of_namespaces_that_are_not_read_cannot_be_selected_by(service):
    term: Spec = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    message = await served(service, pod("uid-1", **needs("podAffinity", **term)))
    assert (
        "spec.affinity.podAffinity.namespaceSelector is 'set'; expected namespaces by n" in message
    )
    named: Spec = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}}
    message = await served(service, pod("uid-2", **needs("podAntiAffinity", **named)))
    assert "SlurmPending" in message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (CLAIM, "spec.volumes[data].persistentVolumeClaim is 'data'; expected the name of a"),
        (DEVICE, "spec.resourceClaims[gpu] is 'set'; expected no ResourceClaims"),
    ],
    ids=["claim", "device"],
)
async def test_what_nobody_honours_is_refused(service, spec, words):
    message = await served(service, pod("uid-1", **spec))
    assert message.startswith("SchedulingFailed: ")
    assert words in message


def claim(*, bound: bool, version: str = "1") -> Claim:
    meta = Identity("data", "ns", "c-1", resource_version=version)
    return Claim(meta, ClaimSpec("pv-1" if bound else ""), completed=bound)


async def test_pod_waits_for_its_claim_and_goes_where_the_volume_can_be_reached(service, kube):
    kube.set_claim(claim(bound=False))
    message = await served(service, pod("uid-1", **CLAIM))
    assert "expected a claim that is bound to a volume already" in message
    assert "WaitForFirstConsumer" in message
    kube.volumes.apply(volume("b"))
    kube.set_claim(claim(bound=True, version="2"))
    await asyncio.sleep(5)
    assert left_out(service) == ("n1",)


@pytest.mark.parametrize(
    "ref",
    [{"namespace": "team-b"}, {"name": "secret"}, {"uid": "c-0"}],
    ids=["namespace", "name", "an earlier claim of that name"],
)
async def test_claim_that_names_a_volume_of_another_is_not_bound(service, kube, ref):
    """Anybody can write into a claim that it is bound, and to which volume."""
    kube.set_claim(claim(bound=True))
    kube.volumes.apply(volume("r17-node-4", **ref))
    message = await served(service, pod("uid-1", **CLAIM))
    assert "expected a claim that is bound to a volume already" in message
    assert not service.slurm.jobs


@pytest.mark.parametrize("ref", [{"namespace": "team-b"}, {"name": "secret"}, {"uid": "c-0"}])
async def test_volume_of_another_claim_is_quoted_to_nobody(lenient, kube, ref):
    """Also where the site lets pods with unbound claims pass."""
    kube.set_claim(claim(bound=True))
    kube.volumes.apply(volume("r17-node-4", **ref))
    assert lenient.volumes.reach(pod("uid-1", **CLAIM)) == ()
    assert "SlurmPending" in await served(lenient, pod("uid-1", **CLAIM))
    assert not any("r17" in it.message for it in lenient.recorder.events)


def test_volume_that_gets_its_claim_is_news_to_the_pods_that_wait_for_it():
    """The watches of claims and of volumes may bring the news in either order."""
    found = Volumes(Store())
    found.volume_changed(volume("b", uid="c-0"), volume("b"))
    assert found.taken_changes() == {"ns"}
    found.volume_changed(volume("b"), volume("b"))
    assert not found.taken_changes()


async def test_claims_of_a_namespace_cost_pods_of_another_no_pass(service, kube, monkeypatch):
    """A tenant may create and delete claims all the time."""
    kube.set_claim(claim(bound=False))
    await served(service, pod("uid-1", **CLAIM))
    woken = []
    monkeypatch.setattr(service.queue, "add", lambda key, *causes: woken.append((key, *causes)))
    kube.set_claim(Claim(Identity("data", "elsewhere", "c-2"), ClaimSpec("pv-2"), completed=True))
    await asyncio.sleep(1)
    assert not woken
    kube.set_claim(claim(bound=True, version="2"))
    await asyncio.sleep(1)
    assert woken == [("uid-1", WakeCause.NODES)]


async def test_without_the_right_to_read_volumes_a_claim_is_refused(service, kube):
    kube.set_claim(claim(bound=True))
    service.volumes.do_without()
    assert "(--volume-access)" in await served(service, pod("uid-1", **CLAIM))


@pytest.fixture
async def lenient(slurm, kube) -> AsyncIterator[Service]:
    """A scheduler that was set not to mind."""
    service = Service(slurm, kube, ignored=("pod-affinity", "volumes", "resource-claims"))
    yield service
    service.unharmed()
    await service.kill()


async def test_site_may_let_pass_what_cannot_be_honoured_and_the_pod_says_so(lenient, kube):
    lenient.fit.do_without()
    spec = needs("podAffinity") | CLAIM | DEVICE
    assert "SlurmPending" in await served(lenient, pod("uid-1", **spec))
    passed = [it.message for it in lenient.recorder.events if it.reason == "RequirementIgnored"]
    assert len(passed) == 3
    assert passed[0].startswith(
        "The site allows that this requirement is ignored: spec.affinity.pod"
    )
    assert "SchedulingFailed" in await served(lenient, pod("uid-2", **SPREAD))


async def test_what_can_be_honoured_is_honoured_whatever_the_site_lets_pass(lenient, kube):
    kube.add_neighbour(pod("web-1", node="n1", app="web"))
    await served(lenient, pod("uid-1", **needs("podAntiAffinity")))
    assert left_out(lenient) == ("n1",)


async def test_pods_of_others_are_not_gone_through_again_for_each_pod_of_a_template(service, kube):
    for number in range(500):
        kube.add_neighbour(pod(f"web-{number}", node="n1", app="web"))
    around = service.fit.around
    spec = needs("podAntiAffinity")
    await served(service, pod("uid-0", **spec))
    assert around.counted == 500
    for number in range(1, 50):
        kube._put(pod(f"uid-{number}", **spec))
    await asyncio.sleep(10)
    assert around.counted == 500
    kube.add_neighbour(pod("web-500", node="n2", app="web"))
    await asyncio.sleep(SURVEY_SECONDS)
    assert around.counted == 501


async def test_crowds_that_are_counted_along_are_limited(service, kube):
    for number in range(MOST_CROWDS + 10):
        term: Spec = {"labelSelector": {"matchLabels": {"app": f"app-{number}"}}}
        service.fit.unfit(pod(f"uid-{number}", **needs("podAffinity", **term)), "n1")
    around = service.fit.around
    before = around.counted
    kube.add_neighbour(pod("web-1", node="n1", app="web"))
    assert around.counted - before == MOST_CROWDS


async def test_rule_of_the_policy_lets_pods_of_a_namespace_pass(service):
    rule = Rule(name="volumes", namespaces=("ns",), ignored=frozenset({"volumes"}))
    service.rulebook.take(Policy((rule,)))
    assert "SlurmPending" in await served(service, pod("uid-1", **CLAIM))
    assert "SchedulingFailed" in await served(service, pod("uid-2", **DEVICE))
    elsewhere = Rule(name="volumes", namespaces=("other",), ignored=frozenset({"volumes"}))
    service.rulebook.take(Policy((elsewhere,)))
    assert "SchedulingFailed" in await served(service, pod("uid-3", **CLAIM))
