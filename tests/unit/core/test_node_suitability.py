"""kube-scheduler's rules, row by row, and against a computation that shares no code with ours."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.node_suitability import (
    NodeFacts,
    Requirement,
    Taint,
    Term,
    Toleration,
    Wishes,
    fitness,
    matches,
    tolerates,
    unsuitable,
)

GPU: Final = Taint("gpu", "NoSchedule", "h100")
LABELS: Final = {"zone": "a", "cores": "64", "empty": ""}


def node(*taints: Taint, ready: bool = True, unschedulable: bool = False) -> NodeFacts:
    return NodeFacts(
        name="n1", labels=LABELS, taints=taints, ready=ready, unschedulable=unschedulable
    )


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("gpu", "Equal", "h100", "NoSchedule"), True),
        (Toleration("gpu", "", "h100", "NoSchedule"), True),
        (Toleration("gpu", "Equal", "a100", "NoSchedule"), False),
        (Toleration("gpu", "Equal", "", "NoSchedule"), False),
        (Toleration("gpu", "Exists", "", "NoSchedule"), True),
        (Toleration("gpu", "Exists", "", ""), True),
        (Toleration("gpu", "Exists", "", "NoExecute"), False),
        (Toleration("", "Exists", "", ""), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("", "Equal", "h100", ""), True),
        (Toleration("other", "Exists", "", ""), False),
        (Toleration("gpu", "Like", "h100", ""), False),
    ],
)
def test_toleration(toleration, covers):
    assert tolerates(toleration, GPU) is covers


@pytest.mark.parametrize(
    ("operator", "bound", "covers"),
    [("Gt", "9", True), ("Gt", "10", False), ("Lt", "11", True), ("Lt", "x", False)],
)
def test_toleration_that_compares_numbers(operator, bound, covers):
    taint = Taint("sla", "NoSchedule", "10")
    assert tolerates(Toleration("sla", operator, bound), taint) is covers


@pytest.mark.parametrize(
    ("taint", "told"),
    [
        (Taint("a", "NoSchedule"), "has the taint a:NoSchedule, which the pod does not tolerate"),
        (Taint("a", "NoExecute", "b"), "has the taint a=b:NoExecute"),
        (Taint("a", "PreferNoSchedule"), None),
    ],
)
def test_taint_that_is_not_tolerated(taint, told):
    unfit = fitness(Wishes(), node(taint))
    if told is None:
        assert unfit is None
    else:
        assert unfit is not None
        assert unfit.why.startswith(told)
        assert not unfit.passes


def test_every_taint_needs_a_toleration():
    wishes = Wishes(tolerations=(Toleration("gpu", "Exists"),))
    assert fitness(wishes, node(GPU)) is None
    assert "other" in str(fitness(wishes, node(GPU, Taint("other", "NoExecute"))))


@pytest.mark.parametrize(
    ("key", "passes"),
    [
        ("node.kubernetes.io/not-ready", True),
        ("node.kubernetes.io/memory-pressure", True),
        ("node.cloudprovider.kubernetes.io/uninitialized", True),
        ("node.kubernetes.io/out-of-service", False),
        ("node-role.kubernetes.io/control-plane", False),
    ],
)
def test_taints_that_kubernetes_sets_and_lifts_are_waited_for(key, passes):
    unfit = fitness(Wishes(), node(Taint(key, "NoSchedule")))
    assert unfit is not None
    assert unfit.passes is passes


ALL = Wishes(tolerations=(Toleration("", "Exists"),))


def test_no_toleration_helps_to_a_node_that_is_not_ready_or_is_cordoned():
    assert str(fitness(ALL, node(ready=False))) == "is not ready"
    assert str(fitness(ALL, node(unschedulable=True))) == "is cordoned"
    assert fitness(ALL, node(GPU)) is None


def test_what_no_waiting_helps_against_is_told_first():
    unfit = fitness(Wishes((("zone", "b"),)), node(GPU, ready=False))
    assert unfit is not None
    assert unfit.why == "has the label zone=a, and the pod's nodeSelector wants zone=b"
    assert not unfit.passes


def test_label_that_is_missing_is_named():
    unfit = fitness(Wishes((("disk", "ssd"), ("zone", "a"))), node())
    assert str(unfit) == "has no label disk, and the pod's nodeSelector wants disk=ssd"


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        (Requirement("zone", "In", ("a", "b")), True),
        (Requirement("zone", "In", ("b",)), False),
        (Requirement("disk", "In", ("ssd",)), False),
        (Requirement("empty", "In", ("",)), True),
        (Requirement("zone", "In", ()), False),
        (Requirement("zone", "In", ("a", "not a label")), False),
        (Requirement("zone", "NotIn", ("a",)), False),
        (Requirement("zone", "NotIn", ("b",)), True),
        (Requirement("disk", "NotIn", ("ssd",)), True),
        (Requirement("disk", "NotIn", ()), False),
        (Requirement("zone", "Exists"), True),
        (Requirement("disk", "Exists"), False),
        (Requirement("zone", "Exists", ("a",)), False),
        (Requirement("disk", "DoesNotExist"), True),
        (Requirement("zone", "DoesNotExist"), False),
        (Requirement("cores", "Gt", ("63",)), True),
        (Requirement("cores", "Gt", ("64",)), False),
        (Requirement("cores", "Lt", ("65",)), True),
        (Requirement("cores", "Lt", ("64",)), False),
        (Requirement("cores", "Gt", ("1", "2")), False),
        (Requirement("cores", "Gt", ("one",)), False),
        (Requirement("zone", "Gt", ("1",)), False),
        (Requirement("disk", "Lt", ("1",)), False),
        (Requirement("cores", "Lt", (str(2**63),)), False),
        (Requirement("zone", "Near", ("a",)), False),
    ],
)
def test_expression(expression, holds):
    assert matches((Term((expression,)),), node()) is holds
    unfit = fitness(Wishes(terms=(Term((expression,)),)), node())
    assert (unfit is None) is holds
    if unfit is not None:
        assert f"({expression})" in unfit.why


@pytest.mark.parametrize(
    ("field", "holds"),
    [
        (Requirement("metadata.name", "In", ("n1",)), True),
        (Requirement("metadata.name", "In", ("n2",)), False),
        (Requirement("metadata.name", "NotIn", ("n2",)), True),
        (Requirement("metadata.name", "In", ("n1", "n2")), False),
        (Requirement("metadata.name", "Exists"), False),
        (Requirement("metadata.uid", "In", ("n1",)), False),
        (Requirement("metadata.uid", "NotIn", ("n1",)), True),
    ],
)
def test_field(field, holds):
    assert matches((Term((), (field,)),), node()) is holds


A_HOLDS = Requirement("zone", "In", ("a",))
B_FAILS = Requirement("zone", "In", ("b",))
HERE = Requirement("metadata.name", "In", ("n1",))


@pytest.mark.parametrize(
    ("terms", "holds"),
    [
        ((), False),
        ((Term(),), False),
        ((Term(), Term((A_HOLDS,))), True),
        ((Term((B_FAILS,)), Term((A_HOLDS,))), True),
        ((Term((A_HOLDS, B_FAILS)),), False),
        ((Term((A_HOLDS,), (HERE,)),), True),
        ((Term((B_FAILS,), (HERE,)),), False),
    ],
)
def test_terms_are_alternatives_of_which_each_holds_as_a_whole(terms, holds):
    assert matches(terms, node()) is holds


def test_no_affinity_at_all_fits_everywhere():
    assert fitness(Wishes(terms=None), node()) is None
    assert "no terms" in str(fitness(Wishes(terms=()), node()))


# --- an independent computation -------------------------------------------------------------------

_keys = st.sampled_from(["a", "b", "c"])
_values = st.sampled_from(["", "x", "1", "2", "10"])
_effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
_requirements = st.builds(
    Requirement,
    _keys,
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(_values, max_size=2).map(tuple),
)
_fields = st.builds(
    Requirement,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(["n1", "n2"]), min_size=1, max_size=1).map(tuple),
)
_terms = st.builds(
    Term, st.lists(_requirements, max_size=2).map(tuple), st.lists(_fields, max_size=1).map(tuple)
)
_tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "Equal", "Exists"]),
    _values,
    st.just("") | _effects,
)
_wishes = st.builds(
    Wishes,
    st.dictionaries(_keys, _values, max_size=1).map(lambda it: tuple(sorted(it.items()))),
    st.none() | st.lists(_terms, max_size=2).map(tuple),
    st.lists(_tolerations, max_size=2).map(tuple),
)
_nodes = st.builds(
    NodeFacts,
    name=st.sampled_from(["n1", "n2"]),
    labels=st.dictionaries(_keys, _values),
    taints=st.lists(st.builds(Taint, _keys, _effects, _values), max_size=2).map(tuple),
    ready=st.booleans(),
    unschedulable=st.booleans(),
)


def _expected(wishes: Wishes, node: NodeFacts) -> bool:
    """The rules once more, as the documentation words them."""
    hard = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
    tolerated = [
        taint
        for taint in hard
        for it in wishes.tolerations
        if it.effect in ("", taint.effect)
        and it.key in ("", taint.key)
        and (it.operator == "Exists" or it.value == taint.value)
    ]
    return (
        node.ready
        and not node.unschedulable
        and set(map(str, hard)) <= set(map(str, tolerated))
        and dict(wishes.selector).items() <= node.labels.items()
        and (wishes.terms is None or any(_term(term, node) for term in wishes.terms))
    )


def _term(term: Term, node: NodeFacts) -> bool:
    held = [_holds(it, dict(node.labels)) for it in term.match_expressions]
    named = [
        (node.name in it.values) == (it.operator == "In") and len(it.values) == 1
        for it in term.match_fields
    ]
    return bool(held or named) and all(held + named)


def _holds(it: Requirement, labels: dict[str, str]) -> bool:
    arity = {"In": {1, 2}, "NotIn": {1, 2}, "Exists": {0}, "DoesNotExist": {0}}
    if len(it.values) not in arity.get(it.operator, {1}):
        return False
    if it.operator in {"NotIn", "DoesNotExist"}:
        positive = Requirement(it.key, {"NotIn": "In"}.get(it.operator, "Exists"), it.values)
        return not _holds(positive, labels)
    if it.key not in labels:
        return False
    value = labels[it.key]
    if it.operator in {"In", "Exists"}:
        return not it.values or value in it.values
    if not (value.isdigit() and it.values[0].isdigit()):
        return False
    difference = int(value) - int(it.values[0])
    return difference > 0 if it.operator == "Gt" else difference < 0


@given(_wishes, _nodes)
@settings(max_examples=400)
def test_agrees_with_the_rules_as_they_are_documented(wishes: Wishes, node: NodeFacts) -> None:
    unfit = fitness(wishes, node)
    assert (unfit is None) is _expected(wishes, node)
    assert unfit is None or unfit.why
    lasting = unsuitable(wishes, node)
    assert lasting is None or lasting == unfit
