"""The policies follow their settings, and go without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import pods
from tests.support.admission import KINDS, admitted, dry, rendered

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live


def test_other_settings_and_a_second_prefix_count(live_kube: KubeRig) -> None:
    settings = {
        "scheduler-name": "tenant-slurm-scheduler,other",
        "slurm-kill-wait": "2m",
        "annotation-prefix": "slurm.example.com/",
        "tolerate": "sunk.coreweave.com/lock",
    }
    with admitted(live_kube, settings):
        for name in ("tenant-slurm-scheduler", "other"):
            long = dry(live_kube, pods.pod("a", scheduler=name, grace=115))
            assert "expected at most 114 (KillWait is 120s)" in long.body["message"]
        own = {"slurm.example.com/timeout": "1h"}
        wrong = dry(live_kube, pods.pod("a", scheduler="other", annotations=own))
        assert "slurm.example.com/timeout is '1h'" in wrong.body["message"]
        twice = own | {"slurm.example.com/timeout": "60"}
        body = pods.pod("a", scheduler="other", annotations=twice, slurm={"timeout": "61"})
        message = dry(live_kube, body).body["message"]
        assert "expected the value of sunk.coreweave.com/timeout, or only one of the two" in message
        fine = dry(live_kube, pods.pod("a", scheduler="other", grace=114))
        tolerated = [it.get("key") for it in fine.body["spec"]["tolerations"]]
        assert "sunk.coreweave.com/lock" in tolerated


def test_taking_the_policies_away_leaves_nothing(live_kube: KubeRig) -> None:
    with admitted(live_kube):
        pass
    ours = {(it["kind"], it["metadata"]["name"]) for it in rendered()}
    left = {
        (kind, it["metadata"]["name"])
        for kind, path in KINDS.items()
        for it in live_kube.ask("GET", path).body["items"]
    }
    assert not left & ours
    assert not [it for _, it in left if it.startswith("slurm-pod-scheduler")]
    assert dry(live_kube, pods.pod("bad", grace=30, cpus=None)).status == 201


def test_other_policies_take_the_place_of_former_ones_at_once(live_kube: KubeRig) -> None:
    """Settings are part of the policies: a ConfigMap as parameter stays as it was when the last
    policy that reads one is deleted, until the API server is restarted (seen on 1.36.3).
    """
    for wait in ("30s", "60"):
        with admitted(live_kube, {"slurm-kill-wait": wait}):
            message = dry(live_kube, pods.pod("a", grace=100)).body["message"]
            assert f"(KillWait is {wait.rstrip('s')}s)" in message


@pytest.mark.parametrize(
    ("policy", "accepted", "refused"),
    [("auto", 30, 31), ("guarded", 86_400, None), ("strict", 24, 25)],
)
def test_grace_policy_is_that_of_the_scheduler(
    live_kube: KubeRig, policy: str, accepted: int, refused: int | None
) -> None:
    """With `auto` the scheduler may accept Kubernetes' default: only it knows of the guard."""
    with admitted(live_kube, {"grace-policy": policy}):
        assert dry(live_kube, pods.pod("a", grace=accepted)).status == 201
        if refused is not None:
            message = dry(live_kube, pods.pod("a", grace=refused)).body["message"]
            assert f"at most {accepted} (KillWait is 30s)" in message
