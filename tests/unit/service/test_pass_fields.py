"""Each line that a pass logs says which unit the pass is about, and what caused it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import structlog

from scheduler.observe.logs import PASS_FIELDS, set_up
from scheduler.observe.wake import WakeCause
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"


@pytest.fixture(autouse=True)
def _config_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def _line(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """The one line that was logged."""
    (line,) = capsys.readouterr().err.splitlines()
    found: dict[str, object] = json.loads(line)
    del found["timestamp"]
    return found


def test_line_has_the_fields_of_its_pass_and_what_it_says_itself_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up("info", "json")
    log = structlog.get_logger("of this test")
    before = PASS_FIELDS.set({"uid": "u", "cause": "watch", "pod": "of the pass"})
    log.info("done", pod="of the line")
    assert list(_line(capsys).items()) == [
        *(("level", "info"), ("event", "done"), ("pod", "of the line")),
        *(("uid", "u"), ("cause", "watch")),
    ]
    PASS_FIELDS.reset(before)
    log.info("done")
    assert _line(capsys) == {"level": "info", "event": "done"}


async def test_fields_hold_for_one_pass(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    names = {"namespace": "ns", "pod": "web-0"}
    monkeypatch.setattr(service.newcomers, "names", lambda key: names if key == UID else {})
    monkeypatch.setattr(service.newcomers, "unit", lambda _: seen.append(PASS_FIELDS.get()))
    service.queue.add(UID, WakeCause.WATCH)
    service.queue.add("gone", WakeCause.PULSE, WakeCause.NODES)
    service.queue.shut_down()
    await service.controller.work()
    assert seen == [
        {"uid": UID, "cause": "watch", "namespace": "ns", "pod": "web-0"},
        {"uid": "gone", "cause": "pulse,nodes"},
    ]
    assert PASS_FIELDS.get() == {}
