from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from annotations import ContainerResources, JobRequest, PodView, Rules, parse
from tests.unit.annotations.pods import WEB, accepted, pod, refused, the_problem


def container(
    name: str = "c",
    *,
    restartable: bool = False,
    limits: Mapping[str, str] | None = None,
    **requests: str,
) -> ContainerResources:
    return ContainerResources(
        name=name, requests=requests, limits=limits or {}, restartable=restartable
    )


def cpus_of(
    *containers: ContainerResources,
    init: tuple[ContainerResources, ...] = (),
    overhead: Mapping[str, str] | None = None,
) -> int:
    spec = pod(containers=containers, init_containers=init, overhead=overhead or {})
    return accepted(spec).cpus


def with_gpus(*requests: Mapping[str, str]) -> PodView:
    gpu_containers = tuple(
        ContainerResources(name=f"g{i}", requests=r) for i, r in enumerate(requests)
    )
    return pod(containers=(WEB, *gpu_containers))


def test_cpu_is_summed_exactly_and_then_rounded_up():
    assert cpus_of(container("a", cpu="700m", memory="1Gi"), container("b", cpu="700m")) == 2
    assert cpus_of(container("a", cpu="500m", memory="1Gi"), container("b", cpu="500m")) == 1
    assert cpus_of(container("a", cpu="1n", memory="1Gi")) == 1


@pytest.mark.parametrize(
    ("memory", "mib"), [("1", 1), ("1Mi", 1), ("1048577", 2), ("1G", 954), ("2Gi", 2048), ("1m", 1)]
)
def test_memory_is_rounded_up_to_mib(memory, mib):
    assert accepted(pod(containers=(container(cpu="1", memory=memory),))).memory_mib == mib


def test_missing_request_is_taken_from_its_own_limit():
    limits = {"cpu": "4", "memory": "2Gi"}
    request = accepted(pod(containers=(container(limits=limits, cpu="1"),)))
    assert (request.cpus, request.memory_mib) == (1, 2048)


def test_larger_init_container_counts_instead_of_the_sum():
    web = container("web", cpu="1", memory="1Gi")
    assert cpus_of(web, init=(container("setup", cpu="8"),)) == 8
    assert cpus_of(web, web, init=(container("setup", cpu="1"),)) == 2


def test_sidecar_counts_beside_containers_and_later_init_containers():
    web = container("web", cpu="1", memory="1Gi")
    sidecar = container("proxy", cpu="2", restartable=True)
    setup = container("setup", cpu="4")
    assert cpus_of(web, init=(sidecar,)) == 3
    assert cpus_of(web, init=(sidecar, setup)) == 6
    assert cpus_of(web, init=(setup, sidecar)) == 4


def test_overhead_comes_on_top():
    assert cpus_of(container(cpu="1", memory="1Gi"), overhead={"cpu": "250m"}) == 2


GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
quantities = st.integers(0, 4000).map("{}m".format)
bytes_of_memory = st.integers(0, 2**24).map(str) | st.integers(0, 40).map("{}Mi".format)
counts = st.integers(0, 4).map(str)
amounts = st.fixed_dictionaries(
    {}, optional={"cpu": quantities, "memory": bytes_of_memory, GPU: counts, SLICE: counts}
)
containers = st.builds(
    ContainerResources, requests=amounts, limits=amounts, restartable=st.booleans()
)


def fraction(text: str) -> Fraction:
    """A quantity of the kinds that these tests use."""
    for suffix, factor in (("m", Fraction(1, 1000)), ("Mi", Fraction(2**20))):
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * factor
    return Fraction(text)


def needed(
    resource: str, mains: tuple[ContainerResources, ...], inits: tuple[ContainerResources, ...]
) -> Fraction:
    """Independent of the code under test: the pod's life played phase by phase, in fractions."""

    def need(c: ContainerResources) -> Fraction:
        return fraction(c.requests.get(resource, c.limits.get(resource, "0")))

    sidecars = list(accumulate((need(c) * c.restartable for c in inits), initial=Fraction(0)))
    phases = [running + need(c) for running, c in zip(sidecars, inits, strict=False)]
    phases.append(sidecars[-1] + sum(need(c) for c in mains))
    return max(phases)


@given(
    st.lists(containers, max_size=5).map(tuple),
    st.lists(containers, max_size=5).map(tuple),
    amounts,
)
def test_resources_equal_the_pods_life_played_phase_by_phase(mains, inits, overhead):
    mains = (container("base", cpu="1m", memory="1Mi"), *mains)
    rules = Rules(device_resources={GPU: "gpu", SLICE: "gpu:1g.10gb"})
    spec = pod(containers=mains, init_containers=inits, overhead=overhead)
    request = accepted(spec, rules)

    def held(resource: str) -> Fraction:
        return needed(resource, mains, inits) + fraction(overhead.get(resource, "0"))

    assert request.cpus == ceil(held("cpu"))
    assert request.memory_mib == ceil(held("memory") / 2**20)
    named = ((held(GPU), "gpu"), (held(SLICE), "gpu:1g.10gb"))
    gres = ",".join(f"gres/{name}:{count}" for count, name in named if count)
    assert request.gres == (gres or None)
    assert request.gpus == int(held(GPU) + held(SLICE))


@given(
    st.lists(containers, max_size=3).map(tuple),
    st.lists(containers, max_size=3).map(tuple),
    st.none() | quantities,
    st.none() | quantities,
)
def test_pods_own_cpus_go_before_those_of_its_containers(mains, inits, request, limit):
    spec = pod(
        containers=(container("base", memory="1Mi"), *mains),
        init_containers=inits,
        requests={} if request is None else {"cpu": request},
        limits={} if limit is None else {"cpu": limit},
    )
    expected = needed("cpu", mains, inits) or fraction(limit or "0m")
    if request is not None:
        expected = fraction(request)
    parsed = parse(spec, Rules())
    assert (parsed.cpus if isinstance(parsed, JobRequest) else 0) == ceil(expected)


def test_memory_of_the_pod_as_a_whole_is_enough():
    spec = pod(containers=(container(),), requests={"cpu": "3", "memory": "2Gi"})
    request = accepted(replace(spec, overhead={"cpu": "1", "memory": "1Gi"}))
    assert (request.cpus, request.memory_mib) == (4, 3072)


def test_unreadable_request_of_the_pod_is_told_where_it_stands():
    problem = the_problem(pod(requests={"cpu": "lots"}))
    assert problem.field == "spec.resources.requests.cpu"


def test_devices_are_never_asked_for_by_the_pod_as_a_whole():
    assert accepted(pod(requests={"nvidia.com/gpu": "2"})).gres is None


@pytest.mark.parametrize("resource", ["cpu", "memory"])
@pytest.mark.parametrize(("stated", "shown"), [({}, "not set"), ("0", "0"), ("0m", "0m")])
def test_pod_without_cpu_or_memory_names_the_containers(resource, stated, shown):
    requests = {"cpu": "1", "memory": "1Gi"} | {resource: stated}
    if not stated:
        del requests[resource]
    both = (container("web", **requests), container("log", **requests))
    problem = the_problem(pod(containers=both))
    assert problem.field == f"spec.containers[web,log].resources.requests.{resource}"
    assert problem.value == shown
    assert problem.expected == f"a {resource} request above 0 in at least one container"


def test_absent_request_reads_as_not_set():
    text = the_problem(pod(containers=(container("web", cpu="1"),))).text
    assert text == (
        "spec.containers[web].resources.requests.memory is not set; "
        "expected a memory request above 0 in at least one container"
    )


def test_unnamed_containers_are_named_by_their_place():
    fields = [problem.field for problem in refused(pod(containers=(container(name=""),)))]
    assert fields == [
        "spec.containers[0].resources.requests.cpu",
        "spec.containers[0].resources.requests.memory",
    ]


def test_overhead_alone_is_no_request():
    spec = pod(containers=(container(memory="1Gi"),), overhead={"cpu": "1"})
    assert the_problem(spec).field == "spec.containers[c].resources.requests.cpu"


def test_injected_container_without_requests_does_no_harm():
    assert cpus_of(container("web", cpu="2", memory="1Gi"), container("injected")) == 2


@pytest.mark.parametrize("junk", ["lots", "1 Gi", "-1", ""])
def test_unreadable_quantities_are_told_where_they_stand(junk):
    spec = pod(
        containers=(WEB, container("log", cpu=junk)),
        init_containers=(ContainerResources(name="setup", limits={"memory": junk}),),
        overhead={"memory": junk},
    )
    problems = refused(spec)
    assert [problem.field for problem in problems] == [
        "spec.containers[log].resources.requests.cpu",
        "spec.initContainers[setup].resources.limits.memory",
        "spec.overhead.memory",
    ]
    assert {problem.value for problem in problems} == {junk}
    assert all("500m" in problem.expected for problem in problems)


def test_more_cpus_than_slurm_can_count_are_refused():
    assert cpus_of(container(cpu="65533", memory="1Gi")) == 65533
    problem = the_problem(pod(containers=(container(cpu="65534", memory="1Gi"),)))
    assert (problem.value, problem.expected) == ("65534", "at most 65533")


def test_pod_without_gpus_has_no_gres():
    request = accepted(pod())
    assert (request.gpus, request.gres) == (0, None)


def test_gpus_of_all_containers_become_one_gres():
    request = accepted(with_gpus({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"}))
    assert (request.gpus, request.gres) == (3, "gres/gpu:3")


def test_gpu_limit_is_enough():
    spec = pod(
        containers=(ContainerResources(requests=WEB.requests, limits={"nvidia.com/gpu": "4"}),)
    )
    assert accepted(spec).gres == "gres/gpu:4"


def test_resources_go_through_the_map():
    rules = Rules(
        device_resources={
            "nvidia.com/gpu": "gpu:h100",
            "amd.com/gpu": "gpu:mi300",
            "intel/a": "gpu:h100",
        }
    )
    spec = with_gpus({"nvidia.com/gpu": "2", "amd.com/gpu": "1"}, {"intel/a": "1", "rdma/ib": "1"})
    request = accepted(spec, rules)
    assert (request.gpus, request.gres) == (4, "gres/gpu:h100:3,gres/gpu:mi300:1")


@pytest.mark.parametrize(
    ("asked", "field", "expected"),
    [
        ({"memory": "1E"}, "requests.memory", "at most 2147483647 MiB"),
        ({"nvidia.com/gpu": "1G"}, "requests.nvidia.com/gpu", "at most 999999999"),
    ],
)
def test_more_than_a_job_can_ask_for_is_refused(asked, field, expected):
    problem = the_problem(with_gpus(asked))
    assert problem.field.endswith(field)
    assert problem.expected == expected


@pytest.mark.parametrize("count", ["1500m", "0.5", "1e-1"])
def test_part_of_a_gpu_is_refused(count):
    problem = the_problem(with_gpus({"nvidia.com/gpu": count}))
    assert problem.field == "spec.containers[g0].resources.requests.nvidia.com/gpu"
    assert problem.expected == "a whole number of devices"


def annotated(gpus: str, **annotations: str) -> PodView:
    return replace(pod(annotations), containers=with_gpus({"nvidia.com/gpu": gpus}).containers)


def test_explicit_gres_comes_beside_what_the_containers_ask_for():
    request = accepted(annotated("2", gres="nic:1"))
    assert (request.gpus, request.gres) == (2, "gres/gpu:2,gres/nic:1")


def test_explicit_gres_gives_the_containers_gpus_their_type():
    request = accepted(annotated("3", gres="gpu:h100:2,gpu:a100:1"))
    assert (request.gpus, request.gres) == (3, "gres/gpu:h100:2,gres/gpu:a100:1")


def test_explicit_gres_with_another_count_is_refused():
    problem = the_problem(annotated("2", gres="gpu:h100:3"))
    assert problem.expected == "gpu as often as the containers ask for it: 2"


@pytest.mark.parametrize(
    ("asked", "gres", "expected"),
    [
        ({"nvidia.com/gpu": "2"}, "gpu:1g.10gb:2", "gpu:1g.10gb as often as"),
        ({"nvidia.com/mig-1g.10gb": "2"}, "gpu:h100:2", "gpu:1g.10gb as often as"),
        ({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1"}, "gpu:h100:2", "gpu:1g.10gb as"),
        ({"nvidia.com/gpu": "2"}, "gpu:h100:2", ""),
        ({"nvidia.com/mig-1g.10gb": "2"}, "gpu:1g.10gb:2", ""),
        ({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1"}, "gpu:h100,gpu:1g.10gb", ""),
        ({"nvidia.com/gpu": "0"}, "gpu:1g.10gb:2", ""),
    ],
)
def test_slice_of_a_gpu_is_not_named_for_a_whole_one(asked, gres, expected):
    """Slurm would give the whole GPUs, which the pod gets from the kubelet, to others, too."""
    devices = {"nvidia.com/gpu": "gpu", "nvidia.com/mig-1g.10gb": "gpu:1g.10gb"}
    spec = replace(pod({"gres": gres}), containers=with_gpus(asked).containers)
    found = parse(spec, Rules(device_resources=devices))
    if not expected:
        assert isinstance(found, JobRequest)
        return
    assert isinstance(found, tuple)
    (problem,) = found
    assert problem.field.endswith("/gres")
    assert problem.expected.startswith(expected)


@pytest.mark.parametrize("gres", ["shard:1", "mps:50"])
def test_parts_of_gpus_are_not_for_others_either(gres):
    assert the_problem(annotated("0", exclusive="ok", gres=gres)).expected.startswith("none or")


@pytest.mark.parametrize("value", ["ok", "shared"])
def test_gpus_are_not_for_cpus_that_others_may_share(value):
    problem = the_problem(annotated("1", exclusive=value))
    assert problem.value == value
    assert problem.expected.startswith("none or user")
    assert accepted(annotated("0", exclusive=value)).gpus == 0


@pytest.mark.parametrize("value", ["none", "user", "mcs", "topo", "false"])
def test_other_ways_to_share_go_with_gpus(value):
    assert accepted(annotated("1", exclusive=value)).gpus == 1
