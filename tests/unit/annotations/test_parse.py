import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from annotations import PREFIX, ContainerResources, JobRequest, PodView, Problem, Rules, parse
from annotations.keys import DEFINITIONS
from tests.unit.annotations.pods import accepted, pod, refused, the_problem

TEXTS = ["partition", "account", "qos", "reservation", "comment"]
# Two ways to say the same thing, and two things that do not go together.
EXAMPLES = {d.key: d.example for d in DEFINITIONS if d.key not in {"features", "hold"}}


def test_plain_pod_asks_for_its_resources_and_nothing_else():
    assert accepted(pod()) == JobRequest(cpus=2, memory_mib=1024)


def test_annotations_of_others_are_none_of_ours():
    assert accepted(replace(pod(), annotations={"example.com/partition": ""})) == accepted(pod())


@pytest.mark.parametrize("key", TEXTS)
def test_text_reaches_its_field_unchanged(key):
    value = 'Ünïcode, blanks inside & "quotes"'
    assert getattr(accepted(pod({key: value})), key) == value


def test_all_examples_together_make_a_job():
    request = accepted(pod(EXAMPLES))
    assert (request.user_id, request.group_id) == (1001, 1001)
    assert request.time_limit_minutes == 60
    assert {key: getattr(request, key) for key in TEXTS} == {key: EXAMPLES[key] for key in TEXTS}


@pytest.mark.parametrize(
    ("seconds", "minutes"), [("1", 1), ("59", 1), ("60", 1), ("61", 2), ("3600", 60), ("+90", 2)]
)
def test_timeout_is_rounded_up_to_minutes(seconds, minutes):
    assert accepted(pod({"timeout": seconds})).time_limit_minutes == minutes


@pytest.mark.parametrize(
    ("timeout", "deadline", "minutes"),
    [
        (None, 90, 2),
        ("3600", 600, 10),
        ("600", 3600, 10),
        ("600", None, 10),
        (None, None, None),
        (None, 0, 1),
    ],
)
def test_time_limit_is_the_smaller_of_timeout_and_active_deadline(timeout, deadline, minutes):
    annotations = {} if timeout is None else {"timeout": timeout}
    spec = pod(annotations, active_deadline_seconds=deadline)
    assert accepted(spec).time_limit_minutes == minutes


@pytest.mark.parametrize(
    "value",
    ["", "0", "-60", "1h", "60s", "1.5", "01:00:00", "1_000", " 60", "60\n", "\u0661", "1e3"],
)
def test_timeout_that_is_no_positive_integer_is_refused(value):
    problem = the_problem(pod({"timeout": value}))
    assert problem == Problem(
        PREFIX + "timeout", value, "a whole number of seconds above 0, such as 3600"
    )


def test_timeout_beyond_slurms_counting_is_refused():
    longest = 60 * (2**32 - 3)
    assert accepted(pod({"timeout": str(longest)})).time_limit_minutes == 2**32 - 3
    assert f"at most {longest} seconds" in the_problem(pod({"timeout": str(longest + 1)})).text


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("gang-size", 1, 65536),
        ("gang-rank", 0, 65535),
        ("pods-per-node", 1, 65533),
        ("segment", 1, 65533),
    ],
)
def test_number_of_a_gang_is_between_its_bounds(key, low, high):
    for value in (low, high):
        accepted(pod({key: str(value)}))
    for text in (str(low - 1), str(high + 1), "", "x", "1.5", " 1", "9" * 100):
        problem = the_problem(pod({key: text}))
        assert (problem.field, problem.value) == (PREFIX + key, text)
        assert f"from {low} to {high}" in problem.expected


@pytest.mark.parametrize("value", ["", "A", "a_b", "-a", "a-", "a b", "x" * 64, "ä", "a/b"])
def test_name_of_a_gang_is_like_that_of_an_object(value):
    problem = the_problem(pod({"gang": value}))
    assert (problem.field, problem.value) == (PREFIX + "gang", value)
    assert "none" in problem.expected


@pytest.mark.parametrize("value", ["none", "a", "my-gang.0", "x" * 63])
def test_which_gang_a_pod_belongs_to_changes_nothing_of_its_request(value):
    request = accepted(pod({"gang": value, "gang-size": "8", "gang-rank": "7"}))
    assert request == accepted(pod())


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("", "at least one character"),
        ("a\nb", "control characters"),
        ("a\x00", "control characters"),
        ("a\u2028b", "control characters"),
        ("\ud800", "control characters"),
        (" a", "no blanks around"),
        ("a\u00a0", "no blanks around"),
        ("   ", "no blanks around"),
        ("x" * 1025, "at most 1024 characters"),
        ("ü" * 513, "at most 1024 characters"),
    ],
)
def test_text_that_slurm_cannot_carry_is_refused(key, value, remedy):
    problem = the_problem(pod({key: value}))
    assert (problem.field, problem.value) == (PREFIX + key, value)
    assert remedy in problem.expected


def test_longest_text_is_accepted():
    assert accepted(pod({"comment": "x" * 1024})).comment == "x" * 1024


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("partitions", "such as 'partition'"),
        ("acount", "such as 'account'"),
        ("time-out", "such as 'timeout'"),
        ("excludedNodes", "such as 'excluded-nodes'"),
        ("constraint", "such as 'constraints'"),
        ("zzz", "one of account, begin, comment,"),
    ],
)
def test_unknown_annotation_proposes_the_nearest_name(key, nearest):
    problem = the_problem(pod({key: "x"}))
    assert problem.field == PREFIX + key
    assert nearest in problem.expected


def test_all_problems_are_told_at_once():
    spec = pod(
        {"timeout": "1h", "qos": "", "priority": "high", "partion": "main"},
        containers=(ContainerResources(name="web", requests={"nvidia.com/gpu": "0.5"}),),
        termination_grace_period_seconds=30,
    )
    assert [problem.field for problem in refused(spec)] == [
        PREFIX + "partion",
        PREFIX + "priority",
        PREFIX + "qos",
        PREFIX + "timeout",
        "spec.containers[web].resources.requests.cpu",
        "spec.containers[web].resources.requests.memory",
        "spec.containers[web].resources.requests.nvidia.com/gpu",
        "spec.terminationGracePeriodSeconds",
    ]


def with_keys(**annotations: str) -> PodView:
    keys = {key.replace("__", "/"): value for key, value in annotations.items()}
    return replace(pod(), annotations=keys)


TWO = Rules(prefixes=("a/", "b/"))


def test_either_of_two_prefixes_will_do():
    assert accepted(with_keys(a__qos="low", b__account="x"), TWO) == replace(
        accepted(pod()), qos="low", account="x"
    )


def test_same_value_under_two_prefixes_is_no_conflict():
    assert accepted(with_keys(a__qos="low", b__qos="low"), TWO).qos == "low"


def test_different_values_under_two_prefixes_are_refused():
    problem = the_problem(with_keys(a__qos="low", b__qos="high"), TWO)
    assert (problem.field, problem.value) == ("b/qos", "high")
    assert "a/qos" in problem.expected


def test_default_prefix_means_nothing_where_another_is_configured():
    assert accepted(pod({"qos": "low"}), TWO).qos is None


def test_prefix_without_a_slash_is_refused():
    with pytest.raises(ValueError, match="must end in '/'"):
        Rules(prefixes=("example.com",))


def test_problem_reads_as_one_line_however_bad_the_value():
    text = Problem(PREFIX + "qos", "a\nb" * 500, "one line").text
    assert text.startswith(PREFIX + "qos is 'a\\nb")
    assert text.endswith("... (1500 characters); expected one line")
    assert len(text) < 300
    assert text.isprintable()


keys = st.sampled_from([d.key for d in DEFINITIONS]) | st.text(max_size=8)
values = st.text(max_size=20) | st.integers().map(str)


@given(st.dictionaries(keys, values, max_size=4), st.integers(0, 40), values, values)
def test_any_pod_gets_a_job_or_problems_that_name_field_and_remedy(entries, grace, cpu, memory):
    spec = pod(
        entries,
        containers=(ContainerResources(name="web", requests={"cpu": cpu, "memory": memory}),),
        termination_grace_period_seconds=grace,
    )
    parsed = parse(spec, Rules())
    if isinstance(parsed, JobRequest):
        assert parsed.cpus > 0
        assert parsed.memory_mib > 0
        return
    assert parsed
    for problem in parsed:
        assert problem.field.startswith((PREFIX, "spec."))
        assert problem.expected
        assert "\n" not in problem.text.replace(problem.field, "")


def test_request_remembers_which_annotation_filled_a_field():
    request = accepted(with_keys(b__features="x,y", a__qos="high"), TWO)
    assert request.keys == {"constraints": "b/features", "qos": "a/qos"}
