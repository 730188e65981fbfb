"""Whatever an API server, or something before it, sends is read or told to be garbled."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.kube.errors import KubeGarbled
from scheduler.kube.wire import NAMESPACES, NODES, PODS, decode_pod, decode_status

_READERS: tuple[Callable[[bytes], object], ...] = (
    *(reader for kind in (PODS, NODES, NAMESPACES) for reader in (kind.page, kind.event)),
    decode_pod,
    decode_status,
)
_NAMES = st.sampled_from(
    ["type", "object", "items", "metadata", "spec", "status", "name", "uid", "labels",
     "annotations", "resourceVersion", "containers", "resources", "requests", "conditions",
     "phase", "code", "continue"]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
    | st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(_NAMES | st.text(max_size=4), inner, max_size=5),
    max_leaves=14,
)  # fmt: skip
_DEEP = 200_000


@given(_JSON, st.sampled_from(_READERS))
def test_any_json_is_read_or_garbled(value: Any, read: Callable[[bytes], object]) -> None:
    _read(json.dumps(value).encode(), read)


@given(st.binary(max_size=60), st.sampled_from(_READERS))
@example(b'{"metadata": {"name": "\xff"}}', decode_pod)
def test_any_bytes_are_read_or_garbled(body: bytes, read: Callable[[bytes], object]) -> None:
    _read(body, read)


@pytest.mark.parametrize("head", [b"", b'{"new": ', b'{"type": "ADDED", "object": {"new": '])
@pytest.mark.parametrize("read", _READERS)
def test_depth_without_end_is_garbled(head: bytes, read: Callable[[bytes], object]) -> None:
    with pytest.raises(KubeGarbled):
        read(head + b"[" * _DEEP)


def _read(body: bytes, read: Callable[[bytes], object]) -> None:
    try:
        found = read(body)
    except KubeGarbled:
        return
    assert found is not None
