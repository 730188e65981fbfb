"""Lists: selectors, pages, versions."""

from __future__ import annotations

from tests.contract.kube.client import Body, KubeClient, Namespace


def _names(body: Body) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def test_list_has_kind_version_and_items_in_order_of_names(
    kube: KubeClient, namespace: Namespace
) -> None:
    for name in ("c", "a", "b"):
        await namespace.pod(name)
    answer = await kube.get(namespace.path("pods"))
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("PodList", "v1")
    assert _names(answer.body) == ["a", "b", "c"]
    assert all("kind" not in item for item in answer.body["items"])
    assert int(answer.version) >= max(
        int(item["metadata"]["resourceVersion"]) for item in answer.body["items"]
    )


async def test_list_by_fields(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod("bound")
    await namespace.pod("free")
    await namespace.pod("other", schedulerName="other-scheduler")
    await namespace.bound("bound", node="n-x")
    pods, node = namespace.path("pods"), namespace.node("n-x")
    for selector, expected in (
        (f"spec.nodeName={node}", ["bound"]),
        ("spec.nodeName=", ["free", "other"]),
        (f"spec.nodeName!={node},spec.schedulerName!=other-scheduler", ["free"]),
        ("spec.schedulerName=other-scheduler", ["other"]),
        ("metadata.name=free", ["free"]),
        ("status.phase=Pending", ["bound", "free", "other"]),
        ("status.phase=Running", []),
    ):
        assert _names((await kube.get(pods, fieldSelector=selector)).body) == expected, selector


async def test_list_by_an_unknown_field_is_a_bad_request(
    kube: KubeClient, namespace: Namespace
) -> None:
    answer = await kube.get(namespace.path("pods"), fieldSelector="spec.flavour=sweet")
    assert "field label not supported: spec.flavour" in answer.refused(400, "BadRequest")["message"]


async def test_list_by_labels(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod("red", metadata={"labels": {"team": "red", "tier": "1"}})
    await namespace.pod("blue", metadata={"labels": {"team": "blue"}})
    await namespace.pod("none")
    pods = namespace.path("pods")
    for selector, expected in (
        ("team=red", ["red"]),
        ("team==red,tier=1", ["red"]),
        ("team!=red", ["blue", "none"]),
        ("team in (red, blue)", ["blue", "red"]),
        ("team notin (red)", ["blue", "none"]),
        ("team", ["blue", "red"]),
        ("!team", ["none"]),
    ):
        assert _names((await kube.get(pods, labelSelector=selector)).body) == expected, selector


async def test_pages_show_one_moment(kube: KubeClient, namespace: Namespace) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await namespace.pod(name)
    pods = namespace.path("pods")
    first = await kube.get(pods, limit="2")
    assert _names(first.body) == ["a", "b"]
    assert first.body["metadata"]["remainingItemCount"] == 3
    await namespace.pod("cc")
    await kube.delete(f"{pods}/d")
    token = first.body["metadata"]["continue"]
    second = await kube.get(pods, **{"limit": "2", "continue": token})
    assert _names(second.body) == ["c", "d"]
    assert second.version == first.version
    token = second.body["metadata"]["continue"]
    third = await kube.get(pods, **{"limit": "2", "continue": token})
    assert _names(third.body) == ["e"]
    assert "continue" not in third.body["metadata"]


async def test_pages_of_a_selection(kube: KubeClient, namespace: Namespace) -> None:
    for name in ("a", "b", "c"):
        await namespace.pod(name, metadata={"labels": {"odd": str(name != "b").lower()}})
    pods = namespace.path("pods")
    query = {"limit": "1", "labelSelector": "odd=true"}
    first = await kube.get(pods, **query)
    second = await kube.get(pods, **query, **{"continue": first.body["metadata"]["continue"]})
    assert _names(first.body) + _names(second.body) == ["a", "c"]


async def test_bad_continue_token_is_a_bad_request(kube: KubeClient, namespace: Namespace) -> None:
    answer = await kube.get(namespace.path("pods"), **{"limit": "1", "continue": "rubbish"})
    answer.refused(400, "BadRequest")


async def test_list_of_a_past_version(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod("kept")
    before = (await namespace.pod("deleted")).version
    pods = namespace.path("pods")
    await kube.delete(f"{pods}/deleted")
    await namespace.pod("later")
    exact = {"resourceVersion": before, "resourceVersionMatch": "Exact"}
    answer = await kube.get(pods, **exact)
    assert _names(answer.body) == ["deleted", "kept"]
    assert answer.version == before
    newer = await kube.get(pods, resourceVersion=before, resourceVersionMatch="NotOlderThan")
    assert _names(newer.body) == ["kept", "later"]


async def test_list_of_a_future_version_times_out(kube: KubeClient, namespace: Namespace) -> None:
    pods = namespace.path("pods")
    future = str(int((await kube.get(pods)).version) + 1_000_000)
    refusal = (await kube.get(pods, resourceVersion=future)).refused(504, "Timeout")
    assert "Too large resource version" in refusal["message"]
    assert refusal["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_version_match_without_version_is_invalid(
    kube: KubeClient, namespace: Namespace
) -> None:
    answer = await kube.get(namespace.path("pods"), resourceVersionMatch="Exact")
    answer.refused(422, "Invalid")
