"""A real API server with the admission policies in force."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.admission import admitted, until

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig


@pytest.fixture(scope="module")
def policies(live_kube: KubeRig) -> Iterator[KubeRig]:
    """The API server, with the policies as the manifests have them."""
    with admitted(live_kube):
        yield live_kube


@pytest.fixture
def namespace(live_kube: KubeRig) -> Iterator[str]:
    """A namespace of the test's own, in which pods may be made."""
    name = f"admission-{secrets.token_hex(4)}"
    live_kube.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    until(lambda: live_kube.ask("GET", account).status == 200, "the service account is there")
    yield name
    _remove(live_kube, name)


def _remove(rig: KubeRig, namespace: str) -> None:
    """At once, with its pods: the scheduler of the next story would serve them."""
    path = f"/api/v1/namespaces/{namespace}"
    rig.ask("DELETE", path)  # from now on no controller makes another
    rig.ask("DELETE", f"{path}/pods", {"gracePeriodSeconds": 0})
    until(lambda: not rig.ask("GET", f"{path}/pods").body["items"], "there are no pods")
