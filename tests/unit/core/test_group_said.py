"""When a word about a gang is said on its PodGroup, and how the API says it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.gang_objects import (
    GroupCondition,
    GroupMeta,
    GroupStatus,
    PluginsPodGroup,
    PluginsPodGroupStatus,
    PodGroup,
)
from scheduler.core.group_said import MOST_WORD_TRIES, GroupSaid, GroupStanding, GroupWord
from scheduler.core.group_status import FIELD_MANAGER, is_written_by_others, new_status
from scheduler.kube.wire import decoder

PHASE, CONDITION = GroupSaid(by_phase=True), GroupSaid(by_phase=False)
WAITS, PLACED = GroupWord(GroupStanding.WAITS, 1, "Resources"), GroupWord(GroupStanding.PLACED, 1)
TIME = "2026-01-02T03:04:05Z"
META = GroupMeta(name="g", uid="u", resource_version="7", generation=2)


def word_of(standing: GroupStanding, job_id: int, cause: str) -> GroupWord:
    return GroupWord(standing, job_id, cause)


@pytest.mark.parametrize("said", [PHASE, CONDITION])
def test_first_word_is_due_at_once_and_not_twice(said):
    assert said.due(WAITS) == 0.0
    after = said.after(WAITS, now=10.0)
    assert after.due(WAITS) is None
    assert after.due(replace(WAITS, message="other words")) is None
    assert after.due(PLACED) == 0.0


def test_new_cause_is_said_by_a_condition_alone_and_later_each_time():
    other = replace(WAITS, cause="Priority")
    assert PHASE.after(WAITS, now=10.0).due(other) is None
    said = CONDITION.after(WAITS, now=100.0)
    pauses = []
    for number in range(12):
        word = (other, WAITS)[number % 2]
        due = said.due(word)
        assert due is not None
        pauses.append(due - said.at)
        said = said.after(word, now=due)
    assert pauses[:4] == [10.0, 20.0, 40.0, 80.0]
    assert pauses[-1] == 3600.0


def test_condition_that_is_true_is_never_taken_back():
    said = CONDITION.after(PLACED, now=0.0)
    again = replace(WAITS, job_id=2)
    assert said.due(again) is None
    assert said.due(replace(PLACED, job_id=2)) is None


def test_phase_goes_forward_in_one_job_and_begins_anew_with_the_next():
    said = PHASE.after(GroupWord(GroupStanding.RUNS, 1), now=0.0)
    assert said.due(PLACED) is None
    assert said.due(replace(PLACED, job_id=2)) == 0.0
    assert said.due(WAITS) == 0.0


def test_word_that_fails_is_tried_a_few_times():
    said, now = PHASE, 0.0
    for _ in range(MOST_WORD_TRIES):
        due = said.due(WAITS)
        assert due is not None
        now = max(now, due)
        said = said.failed(WAITS, now=now)
    assert said.due(WAITS) is None
    assert said.due(PLACED) == 0.0


@given(
    words=st.lists(
        st.builds(word_of, st.sampled_from(GroupStanding), st.just(1), st.sampled_from("abc")),
        max_size=400,
    ),
    by_phase=st.booleans(),
    fails=st.booleans(),
)
def test_words_of_one_job_are_bounded_whatever_comes(words, by_phase, fails):
    """Each second there is another word to say."""
    said, requests = GroupSaid(by_phase=by_phase), 0
    for second, word in enumerate(words):
        due = said.due(word)
        if due is None or due > second:
            continue
        requests += 1
        if fails:
            said = said.failed(word, now=float(second))
        else:
            said = said.after(word, now=float(second))
    # 10 + 20 + ... + 160 s fit into 400 s.
    assert requests <= (len(GroupStanding) + 5) * (MOST_WORD_TRIES if fails else 1)


def test_own_pod_group_gets_a_condition_with_all_fields():
    word = GroupWord(GroupStanding.WAITS, 1, "Resources", "m")
    assert new_status(PodGroup(META), word, time=TIME) == {
        "conditions": [
            {
                "type": "PodGroupScheduled",
                "status": "False",
                "observedGeneration": 2,
                "lastTransitionTime": TIME,
                "reason": "Unschedulable",
                "message": "m",
            }
        ]
    }


def test_time_of_the_condition_is_that_of_its_status():
    former = GroupCondition("PodGroupScheduled", "False", "before", "2020-01-01T00:00:00Z")
    group = PodGroup(META, status=GroupStatus((GroupCondition("Other", "True"), former)))

    def written(standing: GroupStanding) -> Any:
        return new_status(group, GroupWord(standing, 1, "", "m"), time=TIME)

    assert (
        written(GroupStanding.WAITS)["conditions"][0]["lastTransitionTime"]
        == "2020-01-01T00:00:00Z"
    )
    placed = written(GroupStanding.PLACED)["conditions"][0]
    assert (placed["status"], placed["reason"]) == ("True", "Scheduled")
    assert placed["lastTransitionTime"] == TIME


@pytest.mark.parametrize("standing", [GroupStanding.WAITS, GroupStanding.PLACED])
def test_condition_that_says_it_already_is_not_written(standing):
    found = GroupCondition("PodGroupScheduled", "True", "by kube-scheduler")
    group = PodGroup(META, status=GroupStatus((found,)))
    assert new_status(group, GroupWord(standing, 1), time=TIME) is None


@pytest.mark.parametrize(
    ("standing", "phase"),
    [
        (GroupStanding.WAITS, "Pending"),
        (GroupStanding.PLACED, "Scheduling"),
        (GroupStanding.RUNS, "Running"),
        (GroupStanding.SUCCEEDED, "Finished"),
        (GroupStanding.FAILED, "Failed"),
    ],
)
def test_phases_are_those_of_scheduler_plugins(standing, phase):
    word = GroupWord(standing)
    assert new_status(PluginsPodGroup(META), word, time=TIME) == {"phase": phase}
    there = PluginsPodGroup(META, status=PluginsPodGroupStatus(phase))
    assert new_status(there, word, time=TIME) is None


OWN: dict[str, Any] = {
    "f:conditions": {".": {}, 'k:{"type":"PodGroupScheduled"}': {"f:status": {}}}
}


@pytest.mark.parametrize(
    ("kind", "manager", "fields", "written"),
    [
        (PodGroup, "kube-scheduler", OWN, True),
        (PodGroup, FIELD_MANAGER, OWN, False),
        (PodGroup, "other", {"f:conditions": {'k:{"type":"Other"}': {}}}, False),
        (PodGroup, "kube-controller-manager", {"f:resourceClaimStatuses": {}}, False),
        (PluginsPodGroup, "controller", {"f:phase": {}, "f:running": {}}, True),
        (PluginsPodGroup, "controller", {"f:running": {}}, False),
        (PluginsPodGroup, FIELD_MANAGER, {"f:phase": {}}, False),
    ],
)
def test_other_writers_are_known_by_the_fields_that_they_have_written(
    kind, manager, fields, written
):
    body = {
        "metadata": {
            "name": "g",
            "managedFields": [
                {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:minMember": {}}}},
                {"manager": manager, "subresource": "status", "fieldsV1": {"f:status": fields}},
            ],
        }
    }
    assert is_written_by_others(decoder(kind)(msgspec.json.encode(body))) is written
