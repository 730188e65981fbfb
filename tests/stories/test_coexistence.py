"""Each example of deploy/examples works beside nodes and pods as its system makes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.stories.test_nodes import marked, restart, slurm_field
from tests.support import pods
from tests.support.admission import KINDS, admitted, dry
from tests.support.cluster import Cluster
from tests.support.kube import Kube, Object
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

EXAMPLES: Final = Path(__file__).parents[2] / "deploy/examples"
RIGHTS: Final = Path(__file__).parents[2] / "deploy/manifests/rbac.yaml"
HOME: Final = "slurm-pod-scheduler"


def read(path: str) -> list[Object]:
    """The YAML documents of a file of the examples."""
    return list(yaml.safe_load_all((EXAMPLES / path).read_text()))


def flags(path: str, namespace: str) -> tuple[str, ...]:
    """A file of settings as flags, without Slurm's address and with the test's namespace."""
    (settings,) = read(path)
    del settings["slurm-api-base"]
    settings |= {"watch-namespace": namespace}
    if "policy-file" in settings:
        policy = path.replace("settings", "policy")
        settings["policy-file"] = str(EXAMPLES / policy)
    return tuple(f"--{key}={_plain(value)}" for key, value in settings.items())


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={it}" for key, it in value.items())
    return ",".join(value) if isinstance(value, list) else str(value)


def admission(example: str) -> dict[str, str]:
    """The arguments that the guide gives to render.sh."""
    path = EXAMPLES / example / "admission.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def example(request: pytest.FixtureRequest) -> str:
    """The example's folder, as the class of the test names it."""
    return str(request.cls.example)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster that can play the system, as the class of the test names it."""
    found: Cluster = request.getfixturevalue(request.cls.plays)
    return found


@pytest.fixture
def policies(live_kube: KubeRig, example: str) -> Iterator[KubeRig]:
    """The admission policies with the example's settings."""
    with admitted(live_kube, admission(example)):
        yield live_kube


@pytest.fixture
async def account(cluster: Cluster, kube: Kube, tmp_path: Path) -> str:
    """The flag with which the scheduler uses its own service account, as the policies require."""
    from tests.rigs.kube_files import kubeconfig

    for body in yaml.safe_load_all(RIGHTS.read_text()):
        await kube.apply(body)
    token = await kube.service_account_token(HOME, namespace=HOME)
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(cluster.kube_ca, cluster.kube_url, token)))
    return f"--kubeconfig={config}"


@pytest.fixture
def scheduler_flags(namespace: str, example: str, account: str) -> tuple[str, ...]:
    """The example's settings."""
    return (*flags(f"{example}/settings.yaml", namespace), account)


async def label(world: World, rig: KubeRig, body: Object) -> None:
    """Give the test's namespace the labels of the example's, and wait until they take effect."""
    labels = body["metadata"]["labels"]
    await world.kube.patch("namespaces", world.namespace, {"metadata": {"labels": labels}})

    async def counts() -> bool:
        probe = pods.pod("probe", scheduler="default-scheduler")
        answer = await asyncio.to_thread(dry, rig, probe, namespace=world.namespace)
        return bool(answer.body["spec"]["schedulerName"] != "default-scheduler")

    await world.until("the namespace's labels count", counts)


async def create(world: World, kind: str, body: Object, **annotations: str) -> Object:
    """Create an object of the example in the test's namespace; annotations go to its pods."""
    metadata = {key: it for key, it in body["metadata"].items() if key != "namespace"}
    body = body | {"metadata": metadata}
    pod = body if kind == "pods" else body["spec"]["template"]
    asked = {pods.PREFIX + key.replace("_", "-"): it for key, it in annotations.items()}
    pod.setdefault("metadata", {}).setdefault("annotations", {}).update(asked)
    return await world.kube.create(kind, body, namespace=world.namespace)


async def the_pods(world: World, count: int) -> list[Object]:
    """The running pods of the namespace, once there are `count` of them."""

    async def look() -> list[Object] | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        running = [it for it in found if pods.phase(it) == "Running"]
        return running if len(running) == count else None

    return await world.until(f"{count} pods run", look)


@asynccontextmanager
async def slurmd_pods(world: World, namespace: str, *bodies: Object) -> AsyncIterator[None]:
    """Within the block there are these pods with slurmd, in the system's own namespace."""
    kube = world.kube
    if await kube.find("namespaces", namespace) is None:
        await kube.create_namespace(namespace)
    try:
        for body in bodies:
            await kube.create("pods", body, namespace=namespace)
        yield
    finally:
        for body in bodies:
            name = body["metadata"]["name"]
            await kube.delete("pods", name, namespace=namespace, grace_seconds=0)


def slurmd(name: str, node: str, *, labels: dict[str, str], owner: Object, **spec: Any) -> Object:
    """A pod with slurmd on a Node, as the system's own controller would make it."""
    body = pods.pod(name, scheduler="default-scheduler", nodeName=node, **spec)
    body["spec"]["serviceAccountName"] = "default"
    body["spec"]["tolerations"] = [{"operator": "Exists"}]
    reference = {"name": "worker", "uid": "00000000-0000-0000-0000-000000000001", **owner}
    body["metadata"] |= {"labels": labels, "ownerReferences": [reference | {"controller": True}]}
    return body


def _crossed(world: World) -> tuple[str, str]:
    """Two Nodes. Each is mapped to the Slurm node that has the other's name."""
    one, other = world.cluster.nodes[:2]
    world.audit.slurm_nodes |= {one: other, other: one}
    return one, other


class TestSlinky:
    """NodeSets of slurm-operator: the pod's hostname is the Slurm node's name."""

    example = "slinky"
    plays = "live_26"

    async def test_batch_job_runs_behind_a_node_of_a_node_set(
        self, policies: KubeRig, world: World, kube: Kube
    ) -> None:
        one, other = _crossed(world)
        owner = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet"}
        labels = {
            "app.kubernetes.io/name": "slurmd",
            "app.kubernetes.io/component": "worker",
            "app.kubernetes.io/instance": "slurm-worker-slinky",
        }
        taint = {"key": "nodeset.slinky.slurm.net/worker", "effect": "NoExecute"}
        node_set = [
            slurmd(f"slinky-{at}", node, labels=labels, owner=owner, hostname=slurm_node)
            for at, (slurm_node, node) in enumerate([(one, other), (other, one)])
        ]
        async with AsyncExitStack() as stack:
            for node in (one, other):
                await stack.enter_async_context(marked(world, node, spec={"taints": [taint]}))
            await stack.enter_async_context(slurmd_pods(world, "slurm", *node_set))
            namespace, job = read("slinky/workload.yaml")
            await label(world, policies, namespace)
            # At a real site every Slurm node is a pod of a NodeSet; here only two are.
            await create(world, "jobs", job, required_nodes=f"{one},{other}")
            (pod,) = await the_pods(world, 1)
            record = await world.placeholder(pod)
            assert {pods.node_of(pod), record.nodes} == {one, other}
            assert pods.annotation(pod, pods.NODES) == record.nodes
            assert pod["spec"]["terminationGracePeriodSeconds"] == 24
            assert record.raw["user_name"] == "alice"
            await kube.delete("jobs", "train", namespace=world.namespace)
            await world.job_ended(record.job_id)


class TestSoperator:
    """Workers of Soperator: the pod's name is the Slurm node's."""

    example = "soperator"
    plays = "live_24"

    async def test_pod_with_the_usual_grace_runs_behind_a_worker(
        self, policies: KubeRig, world: World, kube: Kube
    ) -> None:
        one, other = _crossed(world)
        owner = {"apiVersion": "slurm.nebius.ai/v1alpha1", "kind": "NodeSet"}
        labels = {"slurm.nebius.ai/worker": "true", "slurm.nebius.ai/nodeset": "worker"}
        workers = [
            slurmd(name, node, labels=labels, owner=owner)
            for name, node in ((one, other), (other, one))
        ]
        async with slurmd_pods(world, "soperator", *workers):
            (body,) = read("soperator/workload.yaml")
            await create(world, "pods", body)
            pod = await world.running("infer")
            record = await world.placeholder(pod)
            assert {pods.node_of(pod), record.nodes} == {one, other}
            assert pod["spec"]["terminationGracePeriodSeconds"] == 30
            # Grace 1, not 0: after a forced deletion the job would stay for the grace and 30 s.
            await kube.delete("pods", "infer", namespace=world.namespace, grace_seconds=1)
            await world.job_ended(record.job_id)


class TestSunk:
    """SUNK's NodeSets and node lock, with this scheduler in place of SUNK's."""

    example = "sunk"
    plays = "live_24"

    async def test_manifest_for_sunk_runs_on_the_locked_node_of_its_job(
        self, policies: KubeRig, world: World
    ) -> None:
        one, other = _crossed(world)
        lock = {"key": "sunk.coreweave.com/lock", "value": "true", "effect": "NoExecute"}
        write = slurm_field("comment")
        async with AsyncExitStack() as stack:
            for node, target in ((one, other), (other, one)):
                stack.push_async_callback(await write(world, node, target))
                await stack.enter_async_context(marked(world, node, spec={"taints": [lock]}))
            # At a real site SUNK's comments exist before the scheduler starts, so start it again.
            await restart(world)
            (body,) = read("sunk/workload.yaml")
            await create(world, "pods", body)
            pod = await world.running("train")
            record = await world.placeholder(pod)
            assert {pods.node_of(pod), record.nodes} == {one, other}
            assert (record.raw["comment"], record.raw["account"]) == ("A Kubernetes job", "root")
            await world.delete("train")
            await world.gone("train")


class TestBareMetal:
    """slurmd and kubelet on the same machines."""

    example = "bare-metal"
    plays = "live_26"

    async def test_deployment_runs_where_slurm_says(self, world: World) -> None:
        (body,) = read("bare-metal/workload.yaml")
        await create(world, "deployments", body)
        for pod in await the_pods(world, 2):
            assert pods.node_of(pod) == (await world.placeholder(pod)).nodes


class TestDstack:
    """Pods that cannot name a scheduler get that of their namespace."""

    example = "dstack"
    plays = "live_26"

    @pytest.fixture
    def bound(self, policies: KubeRig) -> KubeRig:
        (body,) = read("dstack/binding.yaml")
        path = f"{KINDS[body['kind']]}/{body['metadata']['name']}"
        answer = policies.ask("PATCH", path, {"spec": body["spec"]})
        assert answer.status == 200, answer.text
        return policies

    async def left_out(self, world: World, rig: KubeRig) -> None:
        """Wait until the binding of the policy has replaced the former one."""

        async def counts() -> bool:
            proxy = dstack_pod("ssh-proxy")
            answer = await asyncio.to_thread(dry, rig, proxy, namespace=world.namespace)
            return answer.status == 201

        await world.until("the binding counts", counts)

    async def test_job_of_dstack_goes_through_slurm_and_its_proxy_does_not(
        self, bound: KubeRig, world: World, kube: Kube
    ) -> None:
        (namespace,) = read("dstack/namespace.yaml")
        await label(world, bound, namespace)
        await self.left_out(world, bound)
        node = world.cluster.nodes[0]
        product = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
        async with marked(world, node, metadata={"labels": product}):
            await kube.create("pods", dstack_pod("ssh-proxy"), namespace=world.namespace)
            await kube.create("pods", dstack_pod("job"), namespace=world.namespace)
            pod = await world.running("job")
            record = await world.placeholder(pod)
            assert pods.node_of(pod) == node
            assert record.raw["tres_per_node"] == "gres/gpu:h100:1"
            assert record.raw["comment"] == "dstack"
            assert record.number("time_limit") == 24 * 60
            assert pod["spec"]["terminationGracePeriodSeconds"] == 24
            proxy = await kube.get("pods", "ssh-proxy", namespace=world.namespace)
            assert proxy["spec"]["schedulerName"] == "default-scheduler"
            # Grace 1, not 0: after a forced deletion the job would stay for the grace and 30 s,
            # which is all the time that a story has for its leftovers.
            await kube.delete("pods", "job", namespace=world.namespace, grace_seconds=1)
            await kube.delete("pods", "ssh-proxy", namespace=world.namespace, grace_seconds=0)


def dstack_pod(component: str) -> Object:
    """A pod as dstack's Kubernetes backend (0.22) makes it. Its proxies request no resources."""
    labels = {
        "app.kubernetes.io/name": f"dstack-{component}",
        "app.kubernetes.io/instance": component,
        "app.kubernetes.io/managed-by": "dstack",
        "k8s.dstack.ai/project": "main",
    }
    container: Object = {"name": f"{component}-container", "image": "registry.invalid/dstack:1"}
    spec: Object = {"containers": [container]}
    if component == "job":
        gpus = {"nvidia.com/gpu": "1"}
        requests = {"cpu": "2", "memory": "8192Mi", "ephemeral-storage": "1Gi"} | gpus
        container["resources"] = {"requests": requests, "limits": gpus}
        key = {"key": "nvidia.com/gpu.product", "operator": "In"}
        term = {"matchExpressions": [key | {"values": ["NVIDIA-H100-80GB-HBM3"]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
        spec["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    return {"metadata": {"name": component, "labels": labels}, "spec": spec}


class TestManyClusters:
    """Two Kubernetes clusters on one Slurm, played by two namespaces of one cluster."""

    plays = "live_26"

    @pytest.fixture
    def scheduler_flags(self, namespace: str) -> tuple[str, ...]:
        return flags("many-clusters/settings-east.yaml", namespace)

    @pytest.fixture
    def west(self, cluster: Cluster, tmp_path: Path, elsewhere: str) -> Iterator[SchedulerProcess]:
        folder = tmp_path / "west"
        folder.mkdir()
        given = flags("many-clusters/settings-west.yaml", elsewhere)
        with SchedulerProcess(cluster, folder=folder, flags=given) as process:
            yield process

    async def test_each_cluster_has_its_own_jobs_and_nodes(
        self, world: World, west: SchedulerProcess, elsewhere: str
    ) -> None:
        world.audit.clusters |= {"east", "west"}
        await world.create("train")
        await world.kube.create("pods", pods.pod("train"), namespace=elsewhere)
        east = await world.placeholder(await world.running())

        async def runs() -> Object | None:
            pod = await world.kube.get("pods", "train", namespace=elsewhere)
            return pod if pods.phase(pod) == "Running" else None

        theirs = await world.placeholder(await world.until("the other cluster's pod runs", runs))
        assert (east.tag["cluster"], east.raw["partition"]) == ("east", "main")
        assert (theirs.tag["cluster"], theirs.raw["partition"]) == ("west", "high")
        world.scheduler.kill()
        world.scheduler.start()
        await world.create("later")
        await world.running("later")
        for job in (east, theirs):
            record = await world.slurm.job(job.job_id)
            assert record is not None
            assert record.live
        await world.kube.delete("pods", "train", namespace=elsewhere)
        await world.job_ended(theirs.job_id)
