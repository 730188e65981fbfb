"""`kubectl slurm explain` tells a pod's story, from the pod and its Events alone."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.plugin import plugin
from tests.support.world import World

_ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = (_ROOT / "docs/explain.md").read_text(encoding="utf-8")
# What is another one each time: times, ids of jobs, priorities of Slurm, ages.
_CHANGING: Final = re.compile(r"\d+")
# A cancelled job may be COMPLETING for a moment, when the scheduler sees its end.
_COMPLETING: Final = "CANCELLED+COMPLETING"
_FORECAST: Final = re.compile(r", expected (?:start|to start) \*-\*-\* \*:\*(?::\*| UTC)")

pytestmark = pytest.mark.live_on("26.05")


def _lasting(text: str, namespace: str) -> str:
    """The words, without what changes from call to call, and without line ends."""
    words = " ".join(text.replace(namespace, "research").split())
    words = words.replace(_COMPLETING, "CANCELLED")
    return _FORECAST.sub("", _CHANGING.sub("*", words))


def _on_the_page(beginning: str) -> str:
    """The text of the page that begins so."""
    (found,) = re.findall(rf"^```\n({beginning} .*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


async def test_story_of_a_waiting_pod_is_the_one_on_the_page(world: World) -> None:
    partition = world.cluster.partition
    await world.fill()
    # One CPU fits on the Node with a real kubelet, too, which exists if an earlier test started it.
    # For more it would be ruled out, and the story would have one more section than the page.
    await world.create("train", cpus="1", slurm={"partition": partition, "timeout": "3600"})
    await world.message_with("is pending: Resources")
    await world.event("SlurmPending")
    told = (await plugin(world, "explain", "pod/train")).replace(partition, "main")
    page = _on_the_page("Pod research/train: PENDING,")
    assert _lasting(told, world.namespace) == _lasting(page, world.namespace)


async def test_command_that_is_named_starts_a_held_pod(world: World) -> None:
    slurm = {"partition": world.cluster.partition, "hold": "true"}
    await world.create("train", slurm=slurm)
    await world.message_with("is pending: JobHeldUser")
    found: dict[str, Any] = json.loads(await plugin(world, "explain", "train", "-o", "json"))
    words = shlex.split(found["commands"][0]["command"])
    assert words[:3] == ["kubectl", "annotate", "--overwrite"]
    assert words[3:6] == ["-n", world.namespace, "pod/train"]
    key, _, value = words[6].partition("=")
    patch = {"metadata": {"annotations": {key: value}}}
    await world.kube.patch("pods", "train", patch, namespace=world.namespace)
    await world.running()


async def test_pod_that_slurm_has_ended_is_told_when_it_is_gone(world: World) -> None:
    await world.create("train", slurm={"partition": world.cluster.partition})
    job = await world.placeholder(await world.running())
    await world.slurm.cancel(job.job_id)
    await world.gone()
    await world.event("PlaceholderCancelled")
    found: dict[str, Any] = json.loads(await plugin(world, "explain", "train", "-o", "json"))
    assert (found["exists"], found["reason"]) == (False, "PlaceholderCancelled")
    assert found["toDo"].startswith("Ask whoever ran scancel")
    told = _lasting(await plugin(world, "explain", "train"), world.namespace)
    assert told.startswith(_lasting(_on_the_page("Pod research/train does"), world.namespace))
    whats = [it["what"] for it in found["history"]]
    assert whats.index("Scheduled") < whats.index("PlaceholderCancelled")
