"""The chart's own Deployment on a real kubelet: the built image, its token, a real `helm test`."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import aiohttp
import pytest

from tests.rigs.chart import in_pod_network, on_one_node
from tests.rigs.default_scheduler import DefaultScheduler
from tests.stories.test_chart import SCOPES, Scope, values_for
from tests.support import pods
from tests.support.chart import Release, chart_of_version
from tests.support.cluster import Cluster
from tests.support.cluster import release as release_of
from tests.support.hooks import SECRET
from tests.support.kube import Kube, KubeAnswerError, Object, namespace_for
from tests.support.slurm import SlurmHand
from tests.support.world import REAL_SECONDS

if TYPE_CHECKING:
    from tests.rigs.helm import Helm
    from tests.rigs.kube import KubeRig
    from tests.rigs.node_real import RealNode

# The first of these tests may have to build the image within its time.
pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

T = TypeVar("T")
_NAME: Final = "slurm-pod-scheduler"
_OF_SERVICE: Final = "kubernetes.io/service-name"
_NOT_THE_LEADER: Final = (503, "another process leads, ask again\n")


@pytest.fixture
def cluster(live_26_real: Cluster) -> Cluster:
    """The one cluster that has real containers."""
    return live_26_real


@pytest.fixture(params=SCOPES)
def scope(request: pytest.FixtureRequest) -> Scope:
    """The scope: which pods are served."""
    return SCOPES[request.param]


@pytest.fixture
async def release(
    live_helm: Helm, live_kube: KubeRig, cluster: Cluster, kube: Kube, namespace: str, scope: Scope
) -> AsyncIterator[Release]:
    """The chart's release. A default scheduler runs, which binds the pods of the Deployment."""
    with DefaultScheduler(live_kube, str(cluster.real_node)):
        async with namespace_for(kube, "chart") as apart:
            found = Release(live_helm, kube, _NAME, namespace if scope.at_home else apart)
            try:
                yield found
            finally:
                await found.uninstall()
                await kube.delete("namespaces", namespace)


@pytest.fixture
def values(
    live_kube: KubeRig,
    live_image: str,
    cluster: Cluster,
    namespace: str,
    scope: Scope,
    release: Release,
) -> dict[str, Any]:
    """The chart's values, adapted to a Node without a pod network and without a registry."""
    found = values_for(cluster, scope, home=release.namespace, served=namespace)
    found["scheduler"] |= {"replicas": 1} | on_one_node(live_kube, live_image)
    found["scheduler"]["test"] = {
        "annotations": {"sunk.coreweave.com/partition": cluster.real_partition}
    }
    found["scheduler"]["config"]["slurm"]["killWait"] = "41s"  # wrong, so that the scheduler warns
    return found


@pytest.fixture
async def installed(release: Release, values: dict[str, Any]) -> Release:
    """The installed chart."""
    await release.upgrade(values)
    return release


async def test_deployment_runs_the_image_and_pods_live_and_end_through_slurm(
    live_real_node: RealNode,
    cluster: Cluster,
    kube: Kube,
    namespace: str,
    installed: Release,
    scope: Scope,
) -> None:
    name = (await _until(lambda: _pod(kube, installed)))["metadata"]["name"]
    await _until(lambda: _ready(kube, installed))
    said = await installed.test("--logs")
    where = re.escape(str(cluster.real_node))
    assert re.search(rf"Slurm job \d+ on {where} ran this pod on the Node {where}\.", said), said
    await _until(lambda: _has_event(kube, installed, name))
    slurm = SlurmHand(cluster.slurm_url, major=release_of(cluster), token=cluster.slurm_token)
    await _until(lambda: _no_job(slurm, installed.namespace))

    for name in ("cancelled", "deleted"):
        await kube.create("pods", _shell(name, live_real_node, cluster), namespace=namespace)
        await _until(partial(_is_running, kube, namespace, name))
        pod = await kube.get("pods", name, namespace=namespace)
        job = await slurm.job(int(str(pods.annotation(pod, pods.JOB_ID))))
        assert job is not None
        assert job.states == ("RUNNING",)
        if name == "cancelled":
            await slurm.cancel(job.job_id)
            await _until(partial(_is_told, kube, namespace, name, "PlaceholderCancelled"))
        else:
            await kube.delete("pods", name, namespace=namespace)
        await _until(partial(_is_gone, kube, namespace, name))
        await _until(partial(_no_job, slurm, namespace))
    wrong = _shell("wrong", live_real_node, cluster)
    wrong["spec"]["terminationGracePeriodSeconds"] = 600
    if scope.values["type"] == "cluster":
        with pytest.raises(KubeAnswerError, match="termination grace period"):
            await kube.create("pods", wrong, namespace=namespace)
        return  # the admission policies come with the chart
    await kube.create("pods", wrong, namespace=namespace)
    await _until(partial(_is_told, kube, namespace, "wrong", "SchedulingFailed"))
    await kube.delete("pods", "wrong", namespace=namespace)


@pytest.mark.parametrize("scope", ["cluster"], indirect=True)
async def test_pods_do_not_notice_an_upgrade_a_rollback_and_a_new_installation(
    live_real_node: RealNode,
    cluster: Cluster,
    kube: Kube,
    namespace: str,
    installed: Release,
    values: dict[str, Any],
    tmp_path: Path,
) -> None:
    slurm = SlurmHand(cluster.slurm_url, major=release_of(cluster), token=cluster.slurm_token)
    await _until(lambda: _ready(kube, installed))
    for name, settled in (("runs", _is_running), ("waits", _is_waiting)):
        await kube.create("pods", _shell(name, live_real_node, cluster), namespace=namespace)
        await _until(partial(settled, kube, namespace, name))
    before = await _seen(kube, slurm, namespace)
    assert [it[1:] for it in before] == [("RUNNING", "Running", 0), ("PENDING", "Pending", None)]

    changed = json.loads(json.dumps(values))
    changed["scheduler"]["config"]["scheduler"] = {"conditionInterval": "1s"}
    newer = chart_of_version("0.2.0", folder=tmp_path)
    for step in (
        lambda: installed.upgrade(changed, chart=newer),
        installed.rollback,
        lambda: _anew(kube, installed, values),
    ):
        await step()
        await _until(lambda: _ready(kube, installed))
        assert await _seen(kube, slurm, namespace) == before
        assert not [it for it in await _own(kube, installed) if pods.phase(it) == "Failed"]
    await kube.delete("pods", "runs", namespace=namespace)
    await _until(lambda: _is_running(kube, namespace, "waits"))
    # The job of a pod ends when its containers have ended, before the kubelet removes the pod.
    await _until(lambda: _is_gone(kube, namespace, "runs"))
    assert (await _seen(kube, slurm, namespace))[0][0] == before[1][0]
    await kube.delete("pods", "waits", namespace=namespace)
    await _until(lambda: _no_job(slurm, namespace))


class TestTwoReplicas:
    """Each replica is a pod with an address of its own, as in a cluster with a pod network."""

    @pytest.fixture
    def scope(self) -> Scope:
        """One scope is enough: the election does not depend on the scope."""
        return SCOPES["cluster"]

    @pytest.fixture(autouse=True)
    def places(
        self, live_kube: KubeRig, live_image: str, live_real_node: RealNode, cluster: Cluster
    ) -> Iterator[dict[str, Any]]:
        """Values for relays to the servers. The relays exist until the chart is uninstalled."""
        with in_pod_network(
            live_kube, cluster.slurm_url, image=live_image, node=live_real_node
        ) as found:
            yield found

    @pytest.fixture
    def values(
        self,
        cluster: Cluster,
        namespace: str,
        scope: Scope,
        release: Release,
        places: dict[str, Any],
    ) -> dict[str, Any]:
        """Values for two replicas with the hooks API."""
        found = values_for(cluster, scope, home=release.namespace, served=namespace)
        slurm = found["scheduler"]["config"]["slurm"] | places["config"]["slurm"]
        more = {"replicas": 2, "hooks": {"enabled": True, "token": SECRET}}
        found["scheduler"] |= places | more | {"config": {"slurm": slurm}}
        return found

    async def test_other_one_takes_over_when_the_pod_of_the_leader_is_deleted(
        self,
        live_real_node: RealNode,
        cluster: Cluster,
        kube: Kube,
        namespace: str,
        installed: Release,
    ) -> None:
        await _until(lambda: _ready(kube, installed, replicas=2))
        leader = str(await _until(lambda: _leader(kube, installed)))
        await kube.create("pods", _half("before", live_real_node, cluster), namespace=namespace)
        await _until(lambda: _is_running(kube, namespace, "before"))
        slurm = SlurmHand(cluster.slurm_url, major=release_of(cluster), token=cluster.slurm_token)
        before = await _seen(kube, slurm, namespace)
        await _until(lambda: _all_answer(kube, installed, cluster, leader=leader))

        began = time.monotonic()
        await kube.delete("pods", leader, namespace=installed.namespace)
        other = str(await _until(lambda: _leader(kube, installed, but=leader)))
        print(f"another one leads after {time.monotonic() - began:.1f} s")
        await kube.create("pods", _half("next", live_real_node, cluster), namespace=namespace)
        await _until(lambda: _is_running(kube, namespace, "next"))
        assert (await _seen(kube, slurm, namespace))[:1] == before
        await _until(lambda: _is_gone(kube, installed.namespace, leader))
        await _until(lambda: _ready(kube, installed, replicas=2))
        await _until(lambda: _all_answer(kube, installed, cluster, leader=other))
        for name in ("before", "next"):
            await kube.delete("pods", name, namespace=namespace)
        await _until(lambda: _no_job(slurm, namespace))


async def _leader(kube: Kube, installed: Release, *, but: str = "") -> str | None:
    """The pod of the leader, from the Lease: the holder's identity begins with its host name."""
    lease = await kube.find("leases", _NAME, namespace=installed.namespace)
    holder = "" if lease is None else str(lease["spec"]["holderIdentity"]).rpartition("_")[0]
    return holder if holder not in {"", but} else None


async def _all_answer(kube: Kube, installed: Release, cluster: Cluster, *, leader: str) -> bool:
    """Whether the Service has two endpoints that answer hooks as leader and as standby should."""
    faces = await _hooks(kube, installed)
    if len(faces) != 2 or faces.keys() != {_name(it) for it in await _own(kube, installed)}:
        return False
    for name, face in faces.items():
        asked, _ = await _ask(face, "guard", nodes=str(cluster.real_node))
        assert asked == 200, "what takes no more than the pods, each of them says"
        hinted = await _ask(face, "hints", event="ended")
        assert hinted == ((202, "heard\n") if name == leader else _NOT_THE_LEADER)
    return True


async def _hooks(kube: Kube, installed: Release) -> dict[str, str]:
    """The URL of each endpoint of the hooks API's Service, by pod."""
    slices = await kube.items("endpointslices", namespace=installed.namespace)
    mine = [it for it in slices if it["metadata"]["labels"][_OF_SERVICE] == f"{_NAME}-hooks"]
    return {
        str(end["targetRef"]["name"]): f"http://{end['addresses'][0]}:{it['ports'][0]['port']}/v1"
        for it in mine
        for end in it["endpoints"] or ()
    }


async def _ask(face: str, what: str, **fields: str) -> tuple[int, str]:
    """Status and text of the answer to a hook, about a job id that nobody has."""
    head = {"Authorization": f"Bearer {SECRET}"}
    form = {"job": "4000000000", "wait": "30"} | fields
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REAL_SECONDS)) as session,
        session.post(f"{face}/{what}", data=form, headers=head) as answer,
    ):
        return answer.status, await answer.text()


async def _anew(kube: Kube, installed: Release, values: dict[str, Any]) -> None:
    await installed.uninstall()
    assert await kube.find("deployments", _NAME, namespace=installed.namespace) is None
    await installed.upgrade(values)


def _shell(name: str, node: RealNode, cluster: Cluster) -> Object:
    """A pod that takes both CPUs in Slurm, and leaves the kubelet some CPU for the scheduler."""
    container = {
        "image": node.image,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "exec sleep 3600"],
        "resources": {"requests": {"cpu": "1500m", "memory": "100Mi"}},
    }
    partition = {"partition": str(cluster.real_partition)}
    return pods.pod(name, container=container, slurm=partition, grace=1, restartPolicy="Never")


def _half(name: str, node: RealNode, cluster: Cluster) -> Object:
    """A pod that takes one of the CPUs, and leaves room for two schedulers."""
    pod = _shell(name, node, cluster)
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "500m"
    return pod


async def _seen(
    kube: Kube, slurm: SlurmHand, namespace: str
) -> list[tuple[int, str, str, int | None]]:
    """For each pod: its job id, the job's state, its phase, and its container's restart count."""
    found = []
    for pod in sorted(await kube.items("pods", namespace=namespace), key=_name):
        job_id = int(str(pods.annotation(pod, pods.JOB_ID)))
        job = await slurm.job(job_id)
        assert job is not None
        containers = pod["status"].get("containerStatuses", ())
        restarts = next((it["restartCount"] for it in containers), None)
        found.append((job_id, job.states[0], pods.phase(pod), restarts))
    return found


async def _is_waiting(kube: Kube, namespace: str, name: str) -> bool:
    pod = await kube.get("pods", name, namespace=namespace)
    said = pods.condition(pod, "PodScheduled") or {}
    return said.get("reason") == "SlurmPending"


async def _is_running(kube: Kube, namespace: str, name: str) -> bool:
    return pods.phase(await kube.get("pods", name, namespace=namespace)) == "Running"


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


async def _own(kube: Kube, installed: Release) -> list[Object]:
    """The scheduler's own pods."""
    return await kube.items("pods", namespace=installed.namespace)


async def _pod(kube: Kube, installed: Release) -> Object | None:
    found = await kube.items("pods", namespace=installed.namespace)
    return found[0] if found else None


async def _ready(kube: Kube, installed: Release, *, replicas: int = 1) -> bool:
    found = await kube.get("deployments", _NAME, namespace=installed.namespace)
    status, counts = found["status"], ("replicas", "updatedReplicas", "readyReplicas")
    # A status of an older generation does not show the last change yet.
    return status.get("observedGeneration") == found["metadata"]["generation"] and all(
        status.get(it) == replicas for it in counts
    )


async def _has_event(kube: Kube, installed: Release, pod: str) -> bool:
    """Whether the scheduler's own pod has the Event, which needs a right of its own."""
    return await _is_told(kube, installed.namespace, pod, "KillWaitMismatch")


async def _is_told(kube: Kube, namespace: str, pod: str, reason: str) -> bool:
    events = await kube.events_of(pod, namespace=namespace)
    return reason in {it["reason"] for it in events}


async def _is_gone(kube: Kube, namespace: str, name: str) -> bool:
    return await kube.find("pods", name, namespace=namespace) is None


async def _no_job(slurm: SlurmHand, namespace: str) -> bool:
    return not await slurm.live_placeholders(namespace)


async def _until(look: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(REAL_SECONDS):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.1)
