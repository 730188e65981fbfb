"""Story: for each action the log says why the scheduler looked at the pod."""

from __future__ import annotations

import json
from typing import Any

from scheduler.observe.wake import WakeCause
from tests.stories.clusters import told_on
from tests.support.world import World

# The log does not depend on the servers.
cluster = told_on("sandbox-26.05")


async def test_each_line_about_a_pod_has_its_causes(world: World) -> None:
    filler = await world.fill()
    await world.create(slurm={"comment": "before"})
    pod = await world.waiting()
    await world.edit(comment="pulse,after")
    await world.event("PlaceholderUpdated")
    await world.end_native(filler)
    job = await world.placeholder(await world.running())
    await world.slurm.cancel(job.job_id)
    await world.gone()
    uid = pod["metadata"]["uid"]
    await world.until("the log has the end of the pod", lambda: _logged(world, uid, "pod evicted"))

    lines = _lines(world, uid)
    causes = [set(str(line.get("cause")).split(",")) for line in lines]
    assert set().union(*causes) <= set(WakeCause), "an edit's own words are in no cause"
    done = {line["event"]: str(line["cause"]).split(",") for line in _done(lines)}
    # Other news may come just before, so that one pass has the causes of both.
    expected = {
        "placeholder submitted": "watch",
        "placeholder updated": "edit",
        "pod bound": "pulse",
        "pod evicted": "pulse",
    }
    assert done.keys() == expected.keys()
    for event, cause in expected.items():
        assert cause in done[event], event


def _done(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["level"] != "debug"]


async def _logged(world: World, uid: str, event: str) -> bool:
    return event in {line["event"] for line in _lines(world, uid)}


def _lines(world: World, uid: str) -> list[dict[str, Any]]:
    """The log lines about that pod, in order. An incomplete last line is left out."""
    lines = world.scheduler.log.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [line for line in found if line.get("uid") == uid]
