"""Watches: versions, selectors, bookmarks, streaming lists."""

from __future__ import annotations

from typing import Any, Final

from tests.contract.kube.client import MERGE, KubeClient, Namespace, pod

END = "k8s.io/initial-events-end"
# A server that gets no CPU for two seconds misses the time of its bookmark, so tests try again.
_MOST_WATCHES: Final = 5


async def test_watch_from_a_list_sees_what_happens_after_it(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod("before")
    pods = namespace.path("pods")
    version = (await kube.get(pods)).version
    await namespace.pod("after")
    async with kube.watch(pods, resourceVersion=version) as watch:
        assert await watch.named() == ("ADDED", "after")
        await kube.patch(f"{pods}/after", {"metadata": {"labels": {"a": "b"}}})
        kind, changed = await watch.next()
        assert (kind, changed["metadata"]["labels"]) == ("MODIFIED", {"a": "b"})
        await kube.delete(f"{pods}/before")
        assert await watch.named() == ("MODIFIED", "before")  # marked, although it goes at once
        kind, gone = await watch.next()
        assert (kind, gone["metadata"]["name"]) == ("DELETED", "before")
        assert gone["metadata"]["deletionTimestamp"]
        assert int(gone["metadata"]["resourceVersion"]) > int(
            changed["metadata"]["resourceVersion"]
        )


async def test_watch_without_a_version_begins_with_what_is_there(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod("first")
    async with kube.watch(namespace.path("pods")) as watch:
        assert await watch.named() == ("ADDED", "first")
        await namespace.pod("second")
        assert await watch.named() == ("ADDED", "second")


async def test_watch_can_be_resumed_from_the_version_of_an_event(
    kube: KubeClient, namespace: Namespace
) -> None:
    pods = namespace.path("pods")
    version = (await kube.get(pods)).version
    for name in ("a", "b", "c"):
        await namespace.pod(name)
    async with kube.watch(pods, resourceVersion=version) as watch:
        _, first = await watch.next()
    async with kube.watch(pods, resourceVersion=first["metadata"]["resourceVersion"]) as watch:
        assert await watch.named() == ("ADDED", "b")
        assert await watch.named() == ("ADDED", "c")


async def test_object_that_leaves_the_selection_is_deleted_for_the_watcher(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    pods = namespace.path("pods")
    async with kube.watch(pods, fieldSelector="spec.nodeName=") as watch:
        assert await watch.named() == ("ADDED", "p1")
        await namespace.bound()
        assert await watch.named() == ("DELETED", "p1")


async def test_object_that_enters_the_selection_is_added_for_the_watcher(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    pods = namespace.path("pods")
    version = (await kube.get(pods)).version
    async with kube.watch(pods, labelSelector="team=red", resourceVersion=version) as watch:
        await kube.patch(f"{pods}/p1", {"metadata": {"labels": {"team": "red"}}}, MERGE)
        assert await watch.named() == ("ADDED", "p1")
        await kube.patch(f"{pods}/p1", {"metadata": {"labels": {"team": "blue"}}}, MERGE)
        assert await watch.named() == ("DELETED", "p1")


async def test_watch_shows_only_pods_of_the_selected_scheduler(
    kube: KubeClient, namespace: Namespace
) -> None:
    pods = namespace.path("pods")
    version = (await kube.get(pods)).version
    selector = "spec.schedulerName=wanted-scheduler"
    async with kube.watch(pods, fieldSelector=selector, resourceVersion=version) as watch:
        await namespace.pod("other")
        await namespace.pod("ours", schedulerName="wanted-scheduler")
        assert await watch.named() == ("ADDED", "ours")


async def test_watch_ends_in_order_after_its_timeout(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    async with kube.watch(namespace.path("pods"), timeoutSeconds="3") as watch:
        assert [kind for kind, _ in await watch.rest()] == ["ADDED"]


async def test_streaming_list_ends_with_an_annotated_bookmark(
    kube: KubeClient, namespace: Namespace
) -> None:
    for name in ("a", "b"):
        await namespace.pod(name)
    streaming = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with kube.watch(namespace.path("pods"), **streaming) as watch:
        assert sorted([await watch.named(), await watch.named()]) == [
            ("ADDED", "a"),
            ("ADDED", "b"),
        ]
        kind, mark = await watch.next()
        assert (kind, mark["kind"]) == ("BOOKMARK", "Pod")
        assert mark["metadata"]["annotations"] == {END: "true"}
        version = mark["metadata"]["resourceVersion"]
        await namespace.pod("c")
        assert await watch.named() == ("ADDED", "c")
    async with kube.watch(namespace.path("pods"), resourceVersion=version) as watch:
        assert await watch.named() == ("ADDED", "c")


async def test_bookmark_comes_before_the_timeout(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    version, marks = 0, list[dict[str, Any]]()
    for number in range(_MOST_WATCHES):
        version, marks = await _marks_after_a_change(kube, namespace, label=str(number))
        if marks:
            break
    assert marks
    for mark in marks:
        assert int(mark["metadata"]["resourceVersion"]) >= version
        assert "name" not in mark["metadata"]


async def _marks_after_a_change(
    kube: KubeClient, namespace: Namespace, *, label: str
) -> tuple[int, list[dict[str, Any]]]:
    """The version of a change, and the bookmarks after it until the watch ends."""
    pods = namespace.path("pods")
    query = {
        "resourceVersion": (await kube.get(pods)).version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "5",
    }
    async with kube.watch(pods, **query) as watch:
        # If the server has seen no change of a pod since its list, it sends no bookmarks.
        changed = await kube.patch(f"{pods}/p1", {"metadata": {"labels": {"a": label}}})
        assert await watch.named() == ("MODIFIED", "p1")
        rest = await watch.rest()
    assert all(kind == "BOOKMARK" for kind, _ in rest)
    return int(changed.version), [mark for _, mark in rest]


async def test_send_initial_events_needs_a_version_match(
    kube: KubeClient, namespace: Namespace
) -> None:
    pods = namespace.path("pods")
    (await kube.get(pods, watch="true", sendInitialEvents="true")).refused(422, "Invalid")
    answer = await kube.get(
        pods, watch="true", resourceVersion="1", resourceVersionMatch="NotOlderThan"
    )
    answer.refused(422, "Invalid")


async def test_watch_of_one_object_by_name(kube: KubeClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    version = (await kube.get(pods)).version
    async with kube.watch(pods, fieldSelector="metadata.name=b", resourceVersion=version) as watch:
        await namespace.pod("a")
        await namespace.pod("b")
        assert await watch.named() == ("ADDED", "b")


async def test_watch_of_all_namespaces_sees_every_one(
    kube: KubeClient, namespace: Namespace
) -> None:
    version = (await kube.get("/api/v1/pods")).version
    selector = f"metadata.namespace={namespace.name}"
    query = {"fieldSelector": selector, "resourceVersion": version}
    async with kube.watch("/api/v1/pods", **query) as watch:
        await namespace.pod()
        kind, found = await watch.next()
    assert (kind, found["kind"], found["apiVersion"]) == ("ADDED", "Pod", "v1")
    assert found["metadata"]["namespace"] == namespace.name
    assert found["spec"]["schedulerName"] == pod("p1")["spec"]["schedulerName"]
