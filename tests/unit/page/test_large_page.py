"""The live page with 10 000 pods in a real browser: only what is visible exists."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from scheduler.core.gang_sources import Membership, Source
from slurmapi import SlurmNode
from tests.support.browser import Tab, tab
from tests.unit.page.conftest import Caller, World

ALONE: Final = 8_000
GANGS: Final = 250
SIZE: Final = 8
PODS: Final = ALONE + GANGS * SIZE
NODES: Final = 2_000

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
async def browser() -> AsyncIterator[Tab]:
    async with tab() as found:
        yield found


@pytest.fixture
def full(world: World) -> World:
    world.records.listed = [
        SlurmNode(name=f"n{it:04}", states=frozenset({"IDLE"}), cpus=64, job_cpus=64)
        for it in range(NODES)
    ]
    for number in range(ALONE):
        world.put(f"pod-{number:05}")
    for number in range(GANGS):
        group = f"gang-{number:03}"
        for rank in range(SIZE):
            found = world.put(f"{group}-{rank}")
            world.members.known[found.metadata.uid] = Membership(
                source=Source.ANNOTATIONS,
                namespace="default",
                name=group,
                identity=group,
                rank=rank,
                size=SIZE,
            )
    return world


@pytest.mark.usefixtures("full")
async def test_only_what_is_visible_exists_of_10_000_pods(open_page: Caller, browser: Tab) -> None:
    rows = "document.querySelectorAll('.body .row').length"
    elements = "document.querySelectorAll('*').length"
    await browser.size(1280, 800)
    await browser.open(str(open_page.client.make_url("/")))
    await browser.until(f"document.querySelector('#count')?.textContent === '{PODS} pods'")
    assert await browser.value("document.querySelector('#table').ariaRowCount") == str(
        ALONE + GANGS + 1
    )
    assert 10 <= await browser.value(rows) < 60
    await browser.value("document.querySelector('.body [tabindex=\"0\"]').focus()")
    await browser.press("End")
    last = f"document.activeElement.getAttribute('aria-rowindex') === '{ALONE + GANGS + 1}'"
    await browser.until(last)
    assert await browser.value(rows) < 60
    await browser.value("document.querySelector('#filter').value = 'gang-249'")
    await browser.value("document.querySelector('#filter').dispatchEvent(new Event('input'))")
    await browser.until(f"{rows} === 1")
    assert await browser.value(elements) < 1_000
    await browser.value("document.querySelector('#tab-nodes').click()")
    await browser.until(
        "document.querySelector('#nodes').innerText.includes('and 1500 more nodes')"
    )
    await browser.value("document.querySelector('#tab-gangs').click()")
    slots = "document.querySelectorAll('#gangs .slot').length"
    await browser.until(f"{slots} === {GANGS * SIZE}")
    assert browser.said == []
