"""The shape of slurmrestd's answers in each API version, as recorded from real servers.

``shapes/v0.0.NN.json`` holds one job, node and partition record, the diag statistics, the fields of
a job description with their types and, for v0.0.45, the conf answer. v0.0.40 to 42 were recorded on
24.11.5, v0.0.43 to 45 on 26.05.5 (v0.0.42 is the same on both). The values are those of an idle
record; ``render_job`` and ``render_cluster`` replace them with the model's.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec


class Shape(msgspec.Struct, frozen=True):
    """The shape of one API version; ``description`` maps the fields of a submit to their kinds.

    Kinds: string, integer, boolean, number (the set/infinite/number triple), strings, names
    (node names), flags, object.
    """

    job: Mapping[str, Any]
    node: Mapping[str, Any]
    partition: Mapping[str, Any]
    statistics: Mapping[str, Any]
    description: Mapping[str, str]
    job_flags: frozenset[str]
    shared: frozenset[str]
    select_type: tuple[str, ...]
    slurm_conf: Mapping[str, Any] | None = None


@cache
def shape(version: str) -> Shape:
    """Return the shape of an API version such as ``v0.0.45``."""
    path = files(__package__).joinpath("shapes", f"{version}.json")
    return msgspec.json.decode(path.read_bytes(), type=Shape)
