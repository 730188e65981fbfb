"""The clusters, at hand for every test that asks for them by name."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator, Iterator
from pathlib import Path
from secrets import randbelow
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from tests.support.order import begin_slow_ones
from tests.support.releases import leave_out_the_other_release
from tests.support.virtual_time import POLLS

# It ends only what hangs: there are several waits of a minute or two, with those of the clean-up,
# and each ends by itself. The first live test of a session has whole clusters started within its
# own time. With 180 s a live test was ended that was only slow.
_LONG_SECONDS: Final = 300.0
_STORIES: Final = Path(__file__).parent / "stories"
_REAL_NODE: Final = "live_real_node"
_ANY_ONE: Final = "sandbox_26"
# How long an example takes says more of the machine than of the code. The examples are the same in
# each run: a change is not to fail for what a random example finds in code that it does not touch.
# `--hypothesis-profile=search` looks for others.
settings.register_profile(
    "gate", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("search", settings.get_profile("gate"), derandomize=False)
settings.load_profile("gate")

pytest_plugins = [
    "tests.contract.gangs",
    "tests.rigs.fixtures",
    "tests.rigs.slurm_fixtures",
    "tests.support.cluster_fixtures",
    "tests.support.groups",
    "tests.support.tier_folders",
    "tests.support.time_limits",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Stories are told on a cluster that is there already."""
    parser.addoption(
        "--cluster",
        type=Path,
        metavar="FILE",
        help="run the tests marked `anywhere`, on the cluster that FILE tells of (docs/kind.md)",
    )
    soak = parser.getgroup("soak", "make soak")
    soak.addoption("--soak-minutes", type=float, default=30.0, metavar="MINUTES")
    soak.addoption("--soak-seed", type=int, default=randbelow(10**6), metavar="SEED")
    soak.addoption("--soak-pods", type=int, default=300, metavar="COUNT")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected lives to the end: were it visited by garbage collections, they would be a
    fifth of the work of all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


# A wrapper, for xdist reads the groups in the same hook, and the order is the last word.
@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Give live tests and stories the time they need, unless they say it themselves, and keep
    together those whose real Node is the dearest to start: one worker then has it, not each.
    """
    for item in items:
        is_long = item.get_closest_marker("live") or _STORIES in item.path.parents
        if is_long and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_LONG_SECONDS))
        if item.get_closest_marker("looptime"):
            item.add_marker(pytest.mark.looptime(noop_cycles=POLLS))
        if _REAL_NODE in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(_REAL_NODE))
    leave_out_the_other_release(config, items)
    if config.getoption("--cluster") is not None:
        _leave_those_for_anywhere(config, items)
    yield
    begin_slow_ones(items, workers=getattr(config, "workerinput", {}).get("workercount", 1))


def _leave_those_for_anywhere(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each once: of those that differ in the cluster alone, the first."""
    chosen = [
        it
        for it in items
        if it.get_closest_marker("anywhere")
        and isinstance(it, pytest.Function)
        and it.callspec.params["cluster"] == _ANY_ONE
    ]
    config.hook.pytest_deselected(items=[it for it in items if it not in chosen])
    items[:] = chosen


@pytest.fixture(scope="session", autouse=True)
def no_implicit_event_loop() -> None:
    """Below 3.14 asking for the loop makes one, and looptime asks before each sync test: a loop
    that nobody closes would fail some later test.
    """
    asyncio.set_event_loop(None)
