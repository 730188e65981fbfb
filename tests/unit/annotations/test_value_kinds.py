"""What each annotation accepts, and what it says of the rest."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotations import PREFIX, Sharing, Switches
from scheduler.sandbox.slurm.hostlist import fold
from tests.unit.annotations.pods import accepted, pod, the_problem


@pytest.mark.parametrize(
    ("key", "field", "value", "read"),
    [
        ("priority", "priority", "0", 0),
        ("priority", "priority", "4294967293", 2**32 - 3),
        ("nice", "nice", "-100", -100),
        ("user-id", "user_id", "0", 0),
        ("group-id", "group_id", "2147483647", 2**31 - 1),
        ("threads-per-core", "threads_per_core", "2", 2),
        ("constraints", "constraints", "(a|b)*2&c", "(a|b)*2&c"),
        ("prefer", "prefer", "a|b", "a|b"),
        ("features", "constraints", "h100,nvlink", "h100&nvlink"),
        ("current-working-dir", "working_directory", "/home/a b", "/home/a b"),
        ("current-working-dir", "working_directory", "//home/./a//", "/home/a"),
        ("current-working-dir", "working_directory", "/", "/"),
        ("licenses", "licenses", "matlab,x@db:3", "matlab,x@db:3"),
        ("wckey", "wckey", "project*", "project*"),
        ("hold", "hold", "True", True),
        ("requeue", "requeue", "false", False),
        ("switches", "switches", "2", Switches(2)),
        ("switches", "switches", "1@30", Switches(1, 30)),
        ("gres", "gres", "nic", "gres/nic:1"),
        ("gres", "gres", "gres/nic:2,gpu:h100:4", "gres/nic:2,gres/gpu:h100:4"),
        ("gres", "gres", "gres:gpu:1g.10gb:1", "gres/gpu:1g.10gb:1"),
        ("dependency", "dependency", "afterok:1:2,after:3+5", "afterok:1:2,after:3+5"),
        ("begin", "begin", "1900000000", 1_900_000_000),
        ("begin", "begin", "2030-01-31T08:00:00Z", 1_896_076_800),
        ("begin", "begin", "2030-01-31T09:00+01:00", 1_896_076_800),
        ("begin", "begin", "2030-01-31T08:00", "2030-01-31T08:00"),
        ("deadline", "deadline", "now+2hours", "now+2hours"),
        ("deadline", "deadline", "tomorrow", "tomorrow"),
    ],
)
def test_value_is_read_as_slurm_means_it(key, field, value, read):
    assert getattr(accepted(pod({key: value})), field) == read


@pytest.mark.parametrize(
    ("value", "sharing"),
    [
        ("none", Sharing.NONE),
        ("true", Sharing.NONE),
        ("True", Sharing.NONE),
        ("whole-node", Sharing.NONE),
        ("user", Sharing.USER),
        ("same-user", Sharing.USER),
        ("ok", Sharing.OK),
        ("shared", Sharing.OK),
        ("mcs", Sharing.MCS),
        ("topo", Sharing.TOPO),
        ("false", None),
    ],
)
def test_exclusive_has_sunks_words_its_old_booleans_and_readable_ones(value, sharing):
    assert accepted(pod({"exclusive": value})).exclusive is sharing


@pytest.mark.parametrize(
    ("key", "value", "remedy"),
    [
        ("priority", "high", "a whole number from 0 to 4294967293"),
        ("priority", "-1", "a whole number from 0"),
        ("priority", "1.5", "a whole number"),
        ("priority", "4294967294", "a whole number from 0 to 4294967293"),
        ("nice", "2147483646", "2147483645"),
        ("user-id", "alice", "a whole number from 0 to 2147483647"),
        ("group-id", "-1", "a whole number from 0"),
        ("threads-per-core", "0", "a whole number from 1"),
        ("exclusive", "yes", "whole-node"),
        ("hold", "1", "true or false"),
        ("constraints", "a & b", "without blanks"),
        ("prefer", "a b", "without blanks"),
        ("features", "a,,b", "joined by commas"),
        ("current-working-dir", "home", "an absolute path"),
        ("current-working-dir", "/home/../etc", "an absolute path without .."),
        ("current-working-dir", "/home/..", "an absolute path without .."),
        ("licenses", "matlab:0", "matlab:2"),
        ("licenses", "matlab;;1", "matlab:2"),
        ("wckey", "a b", "without blanks"),
        ("switches", "0", "1@30"),
        ("gres", "gpu;;1", "gpu:h100:2,nic:1"),
        ("gres", "gpu:0", "gpu:h100:2,nic:1"),
        ("gres", "gpu:1,gpu:h100:1", "with a type, or without one, but not both"),
        ("dependency", "singleton", "afterok:4711"),
        ("dependency", "afterok:1?afterok:2", "all must hold"),
        ("dependency", "expand:1", "afterok:4711"),
        ("begin", "soon", "2030-01-31T08:00:00Z"),
        ("begin", "2030-13-31T08:00:00", "2030-01-31T08:00:00Z"),
        ("begin", "2030-02-31T08:00:00Z", "2030-01-31T08:00:00Z"),
        ("deadline", "12:00 tomorrow", "now+2hours"),
        ("required-nodes", "a,,b", "'' is no node name"),
        ("required-nodes", "n[3-1]", "range 3-1 runs backwards"),
        ("required-nodes", "n[1-2", "is no node name"),
        ("required-nodes", "n[1--2]", "is no number or range"),
        ("excluded-nodes", "n[1-99999999]", "more names than can be sent"),
        ("excluded-nodes", "n[1-999][1-999]", "more names than can be sent"),
        ("excluded-nodes", f"{'a' * 1000}[1-99]", "exceed 65536 bytes"),
    ],
)
def test_value_that_would_not_do_is_refused_with_a_remedy(key, value, remedy):
    problem = the_problem(pod({key: value}))
    assert (problem.field, problem.value) == (PREFIX + key, value)
    assert remedy in problem.expected


@given(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)))  # noqa: DTZ001 - UTC is added
def test_moment_with_a_zone_is_counted_exactly(moment):
    whole = moment.replace(microsecond=0, tzinfo=UTC)
    text = whole.isoformat().replace("+00:00", "Z")
    assert accepted(pod({"deadline": text})).deadline == int(whole.timestamp())


names = st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}", fullmatch=True), min_size=1, max_size=20)


@given(names)
def test_every_hostlist_that_slurm_writes_is_read(hosts):
    unique = tuple(dict.fromkeys(hosts))
    assert tuple(accepted(pod({"required-nodes": fold(unique)})).required_nodes) == unique


class TestTogether:
    def test_group_follows_the_user_unless_it_is_named(self):
        assert accepted(pod({"user-id": "7"})).group_id == 7
        assert accepted(pod({"user-id": "7", "group-id": "8"})).group_id == 8
        alone = accepted(pod({"group-id": "8"}))
        assert (alone.user_id, alone.group_id) == (None, 8)

    def test_hold_beside_a_priority_is_refused_since_slurm_forgets_it(self):
        problem = the_problem(pod({"hold": "true", "priority": "5"}))
        assert problem.field == PREFIX + "hold"
        assert PREFIX + "priority" in problem.expected
        assert accepted(pod({"hold": "true", "priority": "0"})).hold

    def test_node_both_required_and_excluded_is_refused(self):
        problem = the_problem(pod({"required-nodes": "a,b", "excluded-nodes": "b,c"}))
        assert problem.field == PREFIX + "excluded-nodes"
        assert problem.expected.endswith("required-nodes, such as b")

    def test_constraints_and_features_say_the_same_thing_once(self):
        problem = the_problem(pod({"constraints": "a", "features": "b"}))
        assert problem.field == PREFIX + "features"
        assert PREFIX + "constraints" in problem.expected
