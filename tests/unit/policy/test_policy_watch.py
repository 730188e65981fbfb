"""A policy file that changes while the scheduler runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from scheduler.core.gang_sources import ALL_SOURCES
from scheduler.kube.reflector import Reflector
from scheduler.kube.store import Store
from scheduler.kube.wire import Namespace, ObjectMeta
from scheduler.observe.metrics import Metrics
from scheduler.policy import watch
from scheduler.policy.file import read_policy
from scheduler.policy.rulebook import Rulebook
from scheduler.policy.watch import PolicyWatch
from tests.support.at_rest import write_at_rest

GOOD = "rules: [{name: good, forced: {qos: a}}]"
BETTER = "rules: [{name: better, forced: {qos: b}}]"
LABELS = "rules: [{name: labels, namespaceSelector: {matchLabels: {a: b}}, forced: {qos: c}}]"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is looked at as often as the disk allows."""
    monkeypatch.setattr(watch, "CHECK_SECONDS", 0.01)


class Namespaces:
    """A reflector that lists when the test says so."""

    def __init__(self) -> None:
        self.store = Store[Namespace]()
        self.synced = asyncio.Event()
        self.runs = False

    async def run(self) -> None:
        self.runs = True
        await asyncio.Event().wait()


class Watched:
    """A watch of a file, and what came of it."""

    def __init__(self, path: Path, text: str = GOOD) -> None:
        write_at_rest(path, text, age_seconds=90.0)
        self.path = path
        self.metrics = Metrics()
        self.namespaces = Namespaces()
        self.rulebook = Rulebook(
            prefixes=("p/",), policy=read_policy(path), namespaces=self.namespaces.store
        )
        self.changes = 0
        self.watch = PolicyWatch(
            path,
            rulebook=self.rulebook,
            namespaces=cast("Reflector[Namespace]", self.namespaces),
            on_change=self._changed,
            metrics=self.metrics,
            gangs=ALL_SOURCES,
        )

    async def _changed(self) -> None:
        self.changes += 1

    @property
    def rules(self) -> list[str]:
        return [rule.name for rule in self.rulebook.policy.rules]

    def counted(self, version: str) -> float:
        name = "slurm_pod_scheduler_policy_reloads_total"
        return self.metrics.registry.get_sample_value(name, {"version": version}) or 0.0

    @property
    def outdated(self) -> bool:
        return bool(self.metrics.registry.get_sample_value("slurm_pod_scheduler_policy_outdated"))

    async def look(self) -> None:
        await self.watch.look(self.path)


@pytest.fixture
async def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "policy.yaml")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(45):
        while not holds():  # noqa: ASYNC110 - what is waited for knows no events
            await asyncio.sleep(0.01)


async def test_changed_file_is_taken_and_told_once(watched):
    await watched.look()
    write_at_rest(watched.path, BETTER)
    await watched.look()
    await watched.look()
    assert (watched.rules, watched.changes, watched.counted("taken")) == (["better"], 1, 1)


async def test_file_that_somebody_is_writing_is_left_until_it_rests(watched):
    """The first rules of a policy alone may accept what a later one refuses."""
    write_at_rest(watched.path, BETTER, age_seconds=0.0)
    await watched.look()
    assert (watched.rules, watched.outdated) == (["good"], False)
    write_at_rest(watched.path, BETTER)
    await watched.look()
    assert watched.rules == ["better"]


@pytest.mark.parametrize(
    "broken",
    [
        *("rules: [", "rules: [{name: a}]", "", "rules: [{forced: {}}]"),
        *("rules: !!bool x", "rules: !!timestamp x", 'rules: !!int ""', "!!set [rules]"),
    ],
)
async def test_broken_version_is_refused_and_the_last_good_one_kept(watched, broken):
    write_at_rest(watched.path, broken)
    await watched.look()
    await watched.look()
    assert (watched.rules, watched.changes, watched.counted("refused")) == (["good"], 0, 1)
    assert watched.outdated


async def test_file_that_goes_away_changes_nothing(watched):
    watched.path.unlink()
    await watched.look()
    assert (watched.rules, watched.counted("refused"), watched.outdated) == (["good"], 1, True)
    write_at_rest(watched.path, BETTER)
    await watched.look()
    assert (watched.rules, watched.outdated) == (["better"], False)


async def test_way_back_to_the_version_in_force_is_no_change(watched):
    write_at_rest(watched.path, "rules: [")
    await watched.look()
    write_at_rest(watched.path, f"# the same, said otherwise\n{GOOD}")
    await watched.look()
    assert (watched.changes, watched.counted("unchanged"), watched.outdated) == (0, 1, False)


async def test_config_map_changes_by_swapping_links(tmp_path: Path):
    """As the kubelet does it: `policy.yaml` leads to `..data`, which leads to a dated folder."""
    for name, text in (("..1", GOOD), ("..2", BETTER)):
        (tmp_path / name).mkdir()
        write_at_rest(tmp_path / name / "policy.yaml", text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    watched = _linked(tmp_path / "policy.yaml")
    (tmp_path / "..data_tmp").symlink_to("..2")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    await watched.look()
    assert watched.rules == ["better"]


def _linked(path: Path) -> Watched:
    return Watched(path, path.read_text())


async def test_rules_about_labels_wait_until_namespaces_are_listed(watched):
    task = asyncio.create_task(watched.watch.run())
    try:
        write_at_rest(watched.path, LABELS)
        await until(lambda: watched.namespaces.runs)
        await until(lambda: watched.outdated)
        assert (watched.rules, watched.watch.needed()) == (["good"], ())
        watched.namespaces.synced.set()
        await until(lambda: watched.rules == ["labels"])
        assert (watched.changes, watched.outdated) == (1, False)
        assert len(watched.watch.needed()) == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_better_version_is_taken_while_another_waits_for_namespaces(watched):
    write_at_rest(watched.path, LABELS)
    await watched.look()
    write_at_rest(watched.path, BETTER)
    await watched.look()
    watched.namespaces.synced.set()
    await watched.look()
    assert watched.rules == ["better"]


async def test_namespaces_are_needed_from_the_start_by_rules_about_labels(tmp_path: Path):
    watched = Watched(tmp_path / "policy.yaml", LABELS)
    assert len(watched.watch.needed()) == 1
    assert not watched.rulebook.knows("physics")
    watched.namespaces.store.apply(Namespace(ObjectMeta(name="physics", uid="u")))
    assert watched.rulebook.knows("physics")


async def test_namespaces_are_not_watched_without_need(watched):
    task = asyncio.create_task(watched.watch.run())
    write_at_rest(watched.path, BETTER)
    await until(lambda: watched.rules == ["better"])
    assert not watched.namespaces.runs
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
