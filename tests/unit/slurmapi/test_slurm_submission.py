"""Submissions have the verified shape, and nothing of a wrong type is ever sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import NODEFAULT
from msgspec.structs import fields as fields_of
from msgspec.structs import replace

from slurmapi import ApiVersion, JobSubmission, SlurmInvalid
from slurmapi.submission import encode_submission, problem

NEW = ApiVersion(45)
OLD = ApiVersion(42)
SCRIPT = "#!/bin/sh\nexec sleep infinity\n"


def shape(job: JobSubmission, version: ApiVersion = NEW) -> dict[str, Any]:
    body = json.loads(encode_submission(job, version))
    assert set(body) == {"job"}
    fields: dict[str, Any] = body["job"]
    return fields


def test_external_job_has_the_verified_shape(placeholder: JobSubmission) -> None:
    assert shape(placeholder) == {
        "name": "default.web-0.01234567",
        "admin_comment": '{"v":1}',
        "flags": ["EXTERNAL_JOB"],
        "partition": "main",
        "current_working_directory": "/tmp",
        "environment": ["PATH=/usr/local/bin:/usr/bin:/bin"],
        "nodes": "1",
        "tasks": 1,
        "cpus_per_task": 4,
        "minimum_cpus": 4,
        "memory_per_node": {"set": True, "number": 2048},
        "tres_per_node": "gres/gpu:2",
        "dependency": "singleton",
        "requeue": False,
        "kill_on_node_fail": True,
    }


def test_defaults_are_acceptable_because_they_are_not_checked() -> None:
    defaults = {
        it.name: it.default for it in fields_of(JobSubmission) if it.default is not NODEFAULT
    }
    del defaults["script"]  # it has no rule of its own
    assert len(defaults) > 30
    assert {name: problem(name, value) for name, value in defaults.items()} == dict.fromkeys(
        defaults
    )


def test_batch_job_has_script_and_environment_and_no_flag(placeholder: JobSubmission) -> None:
    job = replace(placeholder, external=False, script=SCRIPT, environment={"A": "b=c"})
    fields = shape(job, OLD)
    assert (fields["script"], fields["environment"]) == (SCRIPT, ["A=b=c"])
    assert "flags" not in fields


@pytest.mark.parametrize("folder", ["/tmp", "/home/alice"])
def test_script_writes_nowhere(placeholder: JobSubmission, folder: str) -> None:
    job = replace(placeholder, external=False, script=SCRIPT, working_directory=folder)
    fields = shape(job, OLD)
    assert (fields["standard_output"], fields["standard_error"]) == ("/dev/null", "/dev/null")


def test_optional_fields_are_written_in_slurms_types(placeholder: JobSubmission) -> None:
    job = replace(
        placeholder,
        account="a",
        qos="q",
        reservation="r",
        comment="two words",
        time_limit_minutes=90,
        required_nodes=("n1", "n2"),
        excluded_nodes=("n3",),
        user_id=2001,
        group_id=0,
        held=True,
        singleton=False,
    )
    fields = shape(job)
    assert fields["time_limit"] == {"set": True, "number": 90}
    assert (fields["required_nodes"], fields["excluded_nodes"]) == (["n1", "n2"], ["n3"])
    assert (fields["user_id"], fields["group_id"], fields["hold"]) == ("2001", "0", True)
    assert (fields["account"], fields["qos"], fields["reservation"]) == ("a", "q", "r")
    assert "dependency" not in fields


def test_wishes_are_written_in_slurms_types(placeholder: JobSubmission) -> None:
    job = replace(
        placeholder,
        priority=0,
        nice=-5,
        constraints="a&b",
        prefer="c",
        shared="oversubscribe",
        licenses="matlab:2",
        wckey="w",
        begin=1_900_000_000,
        deadline="now+2hours",
        dependency="afterok:1:2,after:3+5",
        switches=1,
        switch_wait_seconds=60,
        threads_per_core=1,
        contiguous=True,
        segment_size=2,
        requeue=True,
    )
    plain, fields = shape(placeholder), shape(job)
    assert {name: value for name, value in fields.items() if plain.get(name) != value} == {
        "priority": {"set": True, "number": 0},
        "nice": -5,
        "constraints": "a&b",
        "prefer": "c",
        "shared": ["oversubscribe"],
        "licenses": "matlab:2",
        "wckey": "w",
        "begin_time": {"set": True, "number": 1_900_000_000},
        "deadline": "now+2hours",
        "dependency": "singleton,afterok:1:2,after:3+5",
        "required_switches": {"set": True, "number": 1},
        "wait_for_switch": 60,
        "threads_per_core": 1,
        "contiguous": True,
        "segment_size": {"set": True, "number": 2},
        "requeue": True,
    }
    assert shape(replace(placeholder, begin="tomorrow"))["begin_time"] == "tomorrow"


def test_shared_is_not_sent_unless_asked_for(placeholder: JobSubmission) -> None:
    assert "shared" not in shape(placeholder)


def test_several_nodes_get_one_task_each(placeholder: JobSubmission) -> None:
    fields = shape(replace(placeholder, nodes=3))
    assert (fields["nodes"], fields["tasks"], fields["tasks_per_node"]) == ("3", 3, 1)
    assert (fields["cpus_per_task"], fields["minimum_cpus"]) == (4, 12)
    assert fields["memory_per_node"] == {"set": True, "number": 2048}
    assert fields["tres_per_node"] == "gres/gpu:2"


def test_node_has_memory_and_gres_of_all_its_tasks(placeholder: JobSubmission) -> None:
    job = replace(placeholder, nodes=3, tasks_per_node=2, gres="gres/gpu:h100:2,gres/nic:1")
    fields = shape(job)
    assert (fields["nodes"], fields["tasks"], fields["tasks_per_node"]) == ("3", 6, 2)
    assert (fields["cpus_per_task"], fields["minimum_cpus"]) == (4, 24)
    assert fields["memory_per_node"] == {"set": True, "number": 4096}
    assert fields["tres_per_node"] == job.gres_per_node == "gres/gpu:h100:4,gres/nic:2"


def test_packed_tasks_have_memory_by_cpu_and_gres_by_task(placeholder: JobSubmission) -> None:
    fields = shape(replace(placeholder, nodes=None, tasks=6, cpus=3, memory_mib=1000))
    assert (fields["tasks"], fields["cpus_per_task"]) == (6, 3)
    assert fields["memory_per_cpu"] == {"set": True, "number": 334}
    assert fields["tres_per_task"] == "gres/gpu:2"
    absent = {"nodes", "tasks_per_node", "minimum_cpus", "memory_per_node", "tres_per_node"}
    assert absent.isdisjoint(fields)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tasks": 4}, "tasks is 4"),
        ({"nodes": None}, "tasks is None"),
        ({"nodes": None, "tasks": 4, "tasks_per_node": 2}, "tasks_per_node is 2"),
    ],
)
def test_tasks_are_dealt_out_by_one_of_both(
    placeholder: JobSubmission, fields: dict[str, Any], name: str
) -> None:
    with pytest.raises(SlurmInvalid, match=name):
        encode_submission(replace(placeholder, **fields), NEW)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "x" * 1025),
        ("name", "é" * 513),
        ("name", "two words"),
        ("name", 5),
        ("external", "yes"),
        ("admin_comment", None),
        ("admin_comment", "a\0b"),
        ("cpus", 0),
        ("cpus", "many"),
        ("cpus", 1.5),
        ("cpus", True),
        ("cpus", 2**31),
        ("memory_mib", 0),
        ("memory_mib", "1G"),
        ("nodes", 0),
        ("tasks_per_node", 0),
        ("tasks_per_node", 2**16 - 2),
        ("gres", "gpu:1"),
        ("gres", "gpu;;1"),
        ("gres", "gres/gpu"),
        ("gres", "gres/gpu:0"),
        ("gres", "gres/gpu:1;gres/x:1"),
        ("gres", ""),
        ("partition", ""),
        ("account", 7),
        ("qos", "a b"),
        ("comment", "x" * 1025),
        ("comment", "€" * 342),
        ("time_limit_minutes", 0),
        ("time_limit_minutes", "01:00:00"),
        ("required_nodes", "n1"),
        ("required_nodes", ("n[1-2]",)),
        ("excluded_nodes", ("n1,n2",)),
        ("singleton", 1),
        ("environment", ["A=b"]),
        ("environment", {"A=": "b"}),
        ("environment", {"": "b"}),
        ("working_directory", "relative"),
        ("user_id", -1),
        ("group_id", "users"),
        ("kill_on_node_fail", None),
        ("requeue", "no"),
        ("priority", -1),
        ("priority", 2**32 - 2),
        ("nice", 2**31 - 2),
        ("nice", "low"),
        ("constraints", "a & b"),
        ("prefer", ""),
        ("shared", "ok"),
        ("shared", ["none"]),
        ("licenses", "a b"),
        ("wckey", 1),
        ("begin", "next week"),
        ("begin", -1),
        ("deadline", 1.5),
        ("dependency", "singleton?afterok:1"),
        ("dependency", "afterok:x"),
        ("switches", 0),
        ("switch_wait_seconds", "1"),
        ("threads_per_core", 0),
        ("tasks", 0),
        ("tasks", "4"),
        ("contiguous", 1),
        ("segment_size", 0),
        ("segment_size", 2**16 - 2),
        ("script", SCRIPT),
    ],
)
def test_field_that_would_not_do_is_named(
    placeholder: JobSubmission, field: str, value: object
) -> None:
    job = replace(placeholder, **{field: value})
    with pytest.raises(SlurmInvalid, match=field):
        encode_submission(job, NEW)


@pytest.mark.parametrize(
    "gres", [None, "gres/gpu:1", "gres/gpu:h100:8", "gres/gpu:1g.10gb:1", "gres/gpu:1,gres/nic:2"]
)
def test_gres_that_slurm_understands_passes(placeholder: JobSubmission, gres: str | None) -> None:
    assert shape(replace(placeholder, gres=gres)).get("tres_per_node") == gres


@pytest.mark.parametrize("script", [None, "", "echo no shebang", 5])
def test_batch_job_without_a_script_is_not_sent(placeholder: JobSubmission, script: Any) -> None:
    with pytest.raises(SlurmInvalid, match="script"):
        encode_submission(replace(placeholder, external=False, script=script), NEW)


def test_batch_job_without_an_environment_is_not_sent(placeholder: JobSubmission) -> None:
    with pytest.raises(SlurmInvalid, match="environment"):
        encode_submission(replace(placeholder, external=False, script=SCRIPT, environment={}), NEW)


def test_external_job_may_do_without_an_environment(placeholder: JobSubmission) -> None:
    assert shape(replace(placeholder, environment={}))["environment"] == []


def test_external_job_is_not_sent_to_a_version_that_lacks_it(placeholder: JobSubmission) -> None:
    with pytest.raises(SlurmInvalid, match=r"v0\.0\.43"):
        encode_submission(placeholder, OLD)


def test_all_problems_are_named_at_once(placeholder: JobSubmission) -> None:
    with pytest.raises(SlurmInvalid) as invalid:
        encode_submission(replace(placeholder, cpus=0, memory_mib=0, name=""), OLD)
    for field in ("cpus", "memory_mib", "name", "external"):
        assert field in str(invalid.value)


def test_text_that_is_no_unicode_is_not_sent(placeholder: JobSubmission) -> None:
    with pytest.raises(SlurmInvalid, match="UTF-8"):
        encode_submission(replace(placeholder, admin_comment="\ud800"), NEW)
