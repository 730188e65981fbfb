"""The GPU type a pod wants, from node selector and required node affinity."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from annotations import AffinityExpression, ContainerResources, JobRequest, PodView, Rules, parse
from annotations.gpu_type import LONGEST_LABEL
from tests.support.costs import calls
from tests.unit.annotations.pods import WEB, accepted, pod, the_problem

CLASS, MODEL = "gpu.nvidia.com/class", "gpu.nvidia.com/model"
TYPES = {"NVIDIA_H100": "h100", "H100_NVLINK_80GB": "h100", "A100_PCIE_80GB": "a100"}
MAPPED = Rules(gpu_types=TYPES)
LEARNT = Rules(known_gpu_types=frozenset({"h100", "h100_nvl", "a100", "1g.10gb"}))


def wants(
    *terms: Mapping[str, tuple[str, ...]], selector: Mapping[str, str] | None = None, **more: Any
) -> PodView:
    """A pod with two GPUs; each term says which values are allowed for which labels."""
    affinity = tuple(
        tuple(AffinityExpression(k, "In", v) for k, v in term.items()) for term in terms
    )
    gpus = ContainerResources(name="web", requests=WEB.requests, limits={"nvidia.com/gpu": "2"})
    spec = pod(containers=(gpus,), node_selector=selector or {}, **more)
    return replace(spec, node_affinity=affinity or None)


@pytest.mark.parametrize("key", [CLASS, MODEL])
def test_affinity_and_selector_give_the_type(key):
    assert accepted(wants({key: ("NVIDIA_H100",)}), MAPPED).gres == "gres/gpu:h100:2"
    assert accepted(wants(selector={key: "A100_PCIE_80GB"}), MAPPED).gres == "gres/gpu:a100:2"


def test_manifest_of_sunks_example_gets_its_type():
    spec = wants({MODEL: ("H100_NVLINK_80GB",)})
    request = accepted(spec, MAPPED)
    assert (request.gpus, request.gres) == (2, "gres/gpu:h100:2")


@pytest.mark.parametrize(
    "spec",
    [
        wants(),
        wants({"kubernetes.io/arch": ("amd64",)}),
        wants({CLASS: ("NVIDIA_H100", "A100_PCIE_80GB")}),
        wants({CLASS: ("NVIDIA_H100",)}, {CLASS: ("A100_PCIE_80GB",)}),
        wants({CLASS: ("NVIDIA_H100",)}, {"zone": ("a",)}),
        replace(wants(), node_affinity=((AffinityExpression(CLASS, "NotIn", ("NVIDIA_H100",)),),)),
        replace(wants(), node_affinity=((AffinityExpression(CLASS, "Exists"),),)),
        replace(wants(), node_affinity=()),
    ],
    ids=str,
)
def test_pod_that_takes_several_types_asks_for_none(spec):
    assert accepted(spec, MAPPED).gres == "gres/gpu:2"


@pytest.mark.parametrize(
    "spec",
    [
        wants({CLASS: ("NVIDIA_H100", "H100_NVLINK_80GB")}),
        wants({CLASS: ("NVIDIA_H100", "FUTURE")}),
        wants({CLASS: ("NVIDIA_H100", "A100_PCIE_80GB"), MODEL: ("H100_NVLINK_80GB",)}),
        wants({CLASS: ("NVIDIA_H100", "A100_PCIE_80GB")}, selector={MODEL: "NVIDIA_H100"}),
        wants({CLASS: ("NVIDIA_H100",)}, {CLASS: ("H100_NVLINK_80GB",), "zone": ("a",)}),
    ],
    ids=str,
)
def test_conditions_that_leave_one_type_ask_for_it(spec):
    assert accepted(spec, MAPPED).gres == "gres/gpu:h100:2"


def test_conditions_that_leave_no_type_are_a_problem():
    problem = the_problem(wants({CLASS: ("NVIDIA_H100",), MODEL: ("A100_PCIE_80GB",)}), MAPPED)
    assert problem.value == "no GPU type"


def test_unknown_type_is_a_problem_that_names_the_known_ones():
    problem = the_problem(wants({CLASS: ("FUTURE",)}), MAPPED)
    assert problem.field.endswith(f"[{CLASS}]")
    assert problem.value == "FUTURE"
    assert "A100_PCIE_80GB, H100_NVLINK_80GB, NVIDIA_H100" in problem.expected
    problem = the_problem(wants(selector={MODEL: "FUTURE"}), MAPPED)
    assert problem.field == f"spec.nodeSelector[{MODEL}]"


def test_unknown_type_is_told_once_however_many_resources_are_gpus():
    rules = replace(MAPPED, device_resources={"nvidia.com/gpu": "gpu", "amd.com/gpu": "gpu"})
    limits = {"nvidia.com/gpu": "1", "amd.com/gpu": "1"}
    both = ContainerResources(requests=WEB.requests, limits=limits)
    spec = replace(wants({CLASS: ("FUTURE",)}), containers=(both,))
    assert the_problem(spec, rules).value == "FUTURE"


def test_type_does_not_matter_to_a_pod_without_gpus():
    assert accepted(replace(wants({CLASS: ("FUTURE",)}), containers=(WEB,)), MAPPED).gres is None


def test_without_any_known_type_none_is_asked_for():
    assert accepted(wants({CLASS: ("NVIDIA_H100",)})).gres == "gres/gpu:2"


@pytest.mark.parametrize(
    ("value", "gres"),
    [
        ("h100", "gres/gpu:h100:2"),
        ("NVIDIA_H100", "gres/gpu:h100:2"),
        ("H100_NVLINK_80GB", "gres/gpu:h100:2"),
        ("NVIDIA-H100-NVL", "gres/gpu:h100_nvl:2"),
        ("A100_PCIE_80GB", "gres/gpu:a100:2"),
    ],
)
def test_types_that_slurm_has_are_found_in_the_labels_words(value, gres):
    assert accepted(wants({CLASS: (value,)}), LEARNT).gres == gres


@pytest.mark.parametrize(
    "spec",
    [
        wants({CLASS: ("NVIDIA_H1000",)}),
        wants({CLASS: ("NVIDIA_H1000", "NVIDIA_H100")}),
        wants({CLASS: ("NVIDIA_H100",), MODEL: ("NVIDIA-H100-NVL",)}),
        wants({CLASS: ()}),
    ],
    ids=str,
)
def test_what_slurm_has_refuses_no_pod(spec):
    """Its Nodes may have GPUs without a type, and the labels may say what no type is called."""
    assert accepted(spec, LEARNT).gres == "gres/gpu:2"


def test_value_that_no_label_can_have_names_no_type():
    longest = "H100-NVLINK-" + "x" * (LONGEST_LABEL - 12)
    assert accepted(wants({CLASS: (longest,)}), LEARNT).gres == "gres/gpu:h100:2"
    assert accepted(wants({CLASS: (longest + "x",)}), LEARNT).gres == "gres/gpu:2"
    with_map = replace(LEARNT, gpu_types=TYPES)
    assert accepted(wants({CLASS: (longest,)}), with_map).gres == "gres/gpu:h100:2"
    assert the_problem(wants({CLASS: (longest + "x",)}), with_map).value == longest + "x"


def many_words(length: int) -> str:
    return "a-b-" * (length // 4)


@pytest.mark.parametrize(
    "values",
    [
        (many_words(88_000),),
        tuple(f"{many_words(56)}{number}" for number in range(380)),
    ],
    ids=["one huge value", "many values"],
)
def test_words_of_values_are_not_compared_one_by_one_with_each_type(values):
    """With 32 types the first took 110 ms, and the second 30 ms."""
    rules = Rules(known_gpu_types=frozenset(f"h{number}" for number in range(32)))
    spec = wants({CLASS: values})
    accepted(spec, rules)
    with calls() as made:
        accepted(spec, rules)
    assert made[0] < 500 + 50 * len(values)


def test_label_that_neither_the_map_nor_slurm_knows_is_a_problem():
    rules = replace(LEARNT, gpu_types={"X": "hopper"})
    assert accepted(wants({CLASS: ("NVIDIA_H100",)}), rules).gres == "gres/gpu:h100:2"
    assert "a100" in the_problem(wants({CLASS: ("NVIDIA_H1000",)}), rules).expected


@pytest.mark.parametrize("mapped", [{}, TYPES], ids=["no map", "map"])
def test_no_pod_is_refused_for_its_type_before_slurm_has_told_what_it_has(mapped):
    rules = Rules(gpu_types=mapped, known_gpu_types=None)
    assert accepted(wants({CLASS: ("FUTURE",)}), rules).gres == "gres/gpu:2"


def test_sites_map_goes_before_what_slurm_has():
    rules = replace(LEARNT, gpu_types={"NVIDIA_H100": "hopper"})
    assert accepted(wants({CLASS: ("NVIDIA_H100",)}), rules).gres == "gres/gpu:hopper:2"


def test_label_keys_are_the_sites_choice():
    rules = replace(MAPPED, gpu_type_keys=("nvidia.com/gpu.product",))
    spec = wants({"nvidia.com/gpu.product": ("NVIDIA_H100",), CLASS: ("A100_PCIE_80GB",)})
    assert accepted(spec, rules).gres == "gres/gpu:h100:2"


def test_explicit_gres_goes_before_the_labels():
    spec = wants({CLASS: ("NVIDIA_H100",)})
    annotated = replace(spec, annotations=pod({"gres": "gpu:a100:2"}).annotations)
    assert accepted(annotated, MAPPED).gres == "gres/gpu:a100:2"


def test_mig_devices_keep_the_type_of_their_resource():
    rules = replace(
        MAPPED, device_resources={"nvidia.com/mig-1g.10gb": "gpu:1g.10gb", "nvidia.com/gpu": "gpu"}
    )
    limits = {"nvidia.com/mig-1g.10gb": "3"}
    slices = ContainerResources(requests=WEB.requests, limits=limits)
    request = accepted(replace(wants({CLASS: ("NVIDIA_H100",)}), containers=(slices,)), rules)
    assert (request.gpus, request.gres) == (3, "gres/gpu:1g.10gb:3")


values = st.lists(st.sampled_from([*TYPES, "OTHER"]), min_size=1, max_size=3).map(tuple)
terms = st.dictionaries(st.sampled_from([CLASS, MODEL, "zone"]), values, max_size=3)


def fitting(affinity: tuple[Mapping[str, tuple[str, ...]], ...]) -> set[str]:
    """Independent of the code under test: a Node of each type is held against the terms."""
    return {
        kind
        for kind in TYPES.values()
        if not affinity
        or any(
            all(
                kind in {TYPES.get(value) for value in allowed}
                for key, allowed in term.items()
                if key != "zone"
            )
            for term in affinity
        )
    }


@given(st.lists(terms, max_size=3).map(tuple))
def test_type_is_asked_for_where_all_nodes_that_fit_have_it(affinity):
    parsed = parse(wants(*affinity), MAPPED)
    types = fitting(affinity)
    strangers = [it for term in affinity for k, it in term.items() if k != "zone"]
    if any(set(it) == {"OTHER"} for it in strangers) or not types:
        assert not isinstance(parsed, JobRequest)
    else:
        assert isinstance(parsed, JobRequest), parsed
        kind = f":{next(iter(types))}" if len(types) == 1 else ""
        assert parsed.gres == f"gres/gpu{kind}:2"
