from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube.store import Change, Joined, Store
from scheduler.kube.wire import ObjectMeta, Pod


def pod(name: str, uid: str, version: str = "1", *, namespace: str = "") -> Pod:
    meta = ObjectMeta(name=name, namespace=namespace, uid=uid, resource_version=version)
    return Pod(metadata=meta)


def test_object_is_found_by_uid_and_by_name() -> None:
    store = Store[Pod]()
    store.apply(pod("a", "1"))
    store.apply(pod("b", "2", namespace="ns"))
    assert store.get("1") == store.by_name("a") == pod("a", "1")
    assert store.by_name("b") is None, "it is in a namespace"
    assert "1" in store
    assert len(store) == 2
    assert store.uids() == ("1", "2")


def test_newer_state_takes_the_place_of_the_older() -> None:
    store = Store[Pod]()
    store.apply(pod("a", "1"))
    assert store.apply(pod("a", "1", "2")) == (Change(pod("a", "1"), pod("a", "1", "2")),)
    assert store.values() == (pod("a", "1", "2"),)


def test_new_holder_of_a_name_means_the_former_is_gone() -> None:
    store = Store[Pod]()
    store.apply(pod("a", "1"))
    changes = store.apply(pod("a", "2"))
    assert changes == (Change(pod("a", "1"), None), Change(None, pod("a", "2")))
    assert store.get("1") is None
    assert store.by_name("a") == pod("a", "2")


def test_late_removal_of_the_former_holder_leaves_the_name() -> None:
    store = Store[Pod]()
    store.apply(pod("a", "1"))
    store.apply(pod("a", "2"))
    assert store.remove("1") == ()
    assert store.by_name("a") == pod("a", "2")


def test_removal_tells_the_last_state() -> None:
    store = Store[Pod]()
    store.apply(pod("a", "1"))
    assert store.remove("1", last=pod("a", "1", "9")) == (Change(pod("a", "1", "9"), None),)
    assert store.by_name("a") is None


def test_objects_of_a_namespace_are_found() -> None:
    store = Store[Pod]()
    for name, namespace in (("a", "one"), ("b", "one"), ("a", "two")):
        uid = f"{namespace}-{name}"
        store.apply(Pod(ObjectMeta(name=name, namespace=namespace, uid=uid)))
    store.apply(Pod(ObjectMeta(name="a", namespace="two", uid="anew")))
    store.remove("one-a")
    found = {it: [pod.metadata.uid for pod in store.in_namespace(it)] for it in ("one", "two", "x")}
    assert found == {"one": ["one-b"], "two": ["anew"], "x": []}
    store.remove("anew")
    assert store.in_namespace("two") == ()


def test_object_whose_name_has_changed_is_not_found_after_its_end() -> None:
    """No API server lets that happen."""
    store = Store[Pod]()
    store.apply(pod("a", "1"))
    store.apply(pod("b", "1"))
    store.remove("1")
    assert store.in_namespace("") == ()
    assert store.by_name("a") is None


def test_replace_tells_deletions_first_and_leaves_out_what_did_not_change() -> None:
    store = Store[Pod]()
    for known in (pod("a", "1"), pod("b", "2"), pod("c", "3")):
        store.apply(known)
    changes = store.replace([pod("b", "2"), pod("c", "3", "5"), pod("a", "4")])
    assert changes == [
        Change(pod("a", "1"), None),
        Change(pod("c", "3"), pod("c", "3", "5")),
        Change(None, pod("a", "4")),
    ]


def pod_number(number: int, version: str) -> Pod:
    return pod("abc"[number % 3], str(number), version)  # a uid never changes its name


objects = st.lists(
    st.builds(pod_number, st.integers(0, 8), st.sampled_from("12")),
    max_size=8,
)


@given(before=objects, after=st.lists(objects, max_size=3))
def test_changes_told_lead_from_any_list_to_the_next(
    before: list[Pod], after: list[list[Pod]]
) -> None:
    store = Store[Pod]()
    mirror: dict[str, Pod] = {}
    # a real server's list has each uid and each name once
    for listed in [before, *after]:
        unique = {p.metadata.name: p for p in listed}
        for old, new in store.replace(unique.values()):
            if old is not None:
                del mirror[old.metadata.uid]
            if new is not None:
                mirror[new.metadata.uid] = new
        assert mirror == {p.metadata.uid: p for p in unique.values()}
        assert {p.metadata.uid: p for p in store} == mirror
        assert all(store.by_name(p.metadata.name) == p for p in store)


async def test_pauses_show_each_object_as_it_is_when_its_turn_comes() -> None:
    joined = Joined[Pod]()
    store = joined.new()
    for uid in "123":
        store.apply(pod(uid, uid))
    seen = list[Pod]()
    async for found in joined.with_pauses():
        seen.append(found)
        store.remove("2")
        store.apply(pod("3", "3", "9"))
    assert seen == [pod("1", "1"), pod("3", "3", "9")]
