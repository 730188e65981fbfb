from __future__ import annotations

import msgspec
import pytest

from scheduler.core.refusal_texts import refusal_text
from tests.unit.core.things import REQUEST

FULL = msgspec.structs.replace(
    REQUEST,
    partition="gpu",
    account="physics",
    qos="high",
    reservation="night",
    gres="gres/gpu:2",
    time_limit_minutes=90,
    required_nodes=("n1", "n2"),
    constraints="h100",
    deadline=1_900_000_000,
)


@pytest.mark.parametrize(
    ("number", "field", "remedy"),
    [
        (2000, "sunk.coreweave.com/partition is 'gpu'", "sinfo"),
        (2045, "sunk.coreweave.com/account is 'physics'", "sacctmgr show assoc"),
        (2066, "sunk.coreweave.com/qos is 'high'", "sacctmgr show qos"),
        (2050, "sunk.coreweave.com/account is 'physics' and sunk", "sacctmgr show qos"),
        (2050, "4 CPUs, 1024 MiB of memory, gres/gpu:2", "limit raised"),
        (2052, "sunk.coreweave.com/reservation is 'night'", "user or account"),
        (2053, "sunk.coreweave.com/reservation is 'night'", "scontrol show res"),
        (2051, "sunk.coreweave.com/timeout comes to 90 minutes", "time limit"),
        (2014, "4 CPUs, 1024 MiB of memory, gres/gpu:2", "ask for less"),
        (2014, "the features h100", "ask for less"),
        (2018, "sunk.coreweave.com/required-nodes is 'n1,n2'", "sinfo -N"),
        (2029, "sunk.coreweave.com/constraints is 'h100'", "joined by & or |"),
        (2051, "sunk.coreweave.com/deadline is 1900000000", "before the deadline"),
        (2072, "gres/gpu:2", "Slurm's nodes have"),
    ],
)
def test_refusal_names_field_value_and_remedy(number, field, remedy):
    text = refusal_text(FULL, error_number=number, description="no")
    assert text.startswith("Slurm refused the job: no; ")
    assert field in text
    assert remedy in text


def test_field_that_was_not_given_is_called_not_set():
    text = refusal_text(REQUEST, error_number=2045, description="no")
    assert "sunk.coreweave.com/account is not set" in text


def test_annotation_is_called_as_the_pod_has_it():
    """Under the site's own prefix, or by another name for the same."""
    keys = {"partition": "slurm.example.com/partition", "constraints": "own.example.com/features"}
    request = msgspec.structs.replace(FULL, keys=keys)
    text = refusal_text(request, error_number=2000, description="no")
    assert "slurm.example.com/partition is 'gpu'" in text
    assert "own.example.com/features is 'h100'" in refusal_text(
        request, error_number=2029, description="no"
    )
    assert "sunk.coreweave.com/qos is" in refusal_text(request, error_number=2066, description="no")


def test_several_fields_that_were_not_given_are_all_named():
    text = refusal_text(REQUEST, error_number=2018, description="no")
    assert "required-nodes is not set and " in text
    assert "excluded-nodes is not set" in text


def test_refusal_of_an_unknown_kind_sends_people_to_the_operators():
    text = refusal_text(REQUEST, error_number=9999, description="Something new")
    assert text == "Slurm refused the job: Something new; ask the Slurm operators"
