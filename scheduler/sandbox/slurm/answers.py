"""The frame of every JSON answer: meta, errors, warnings, and the data of a failed request."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from .config import Release, SlurmConfig
from .errors import SlurmError, http_status
from .http import Answer
from .parsing import Warned
from .wire import Wire, number


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation answers when it fails.

    ``description`` and ``source`` stand in the error. ``empty`` makes the data that the answer has
    beside the errors. ``outage`` is the error number while slurmctld does not answer: only some
    operations use 1800, as measured.
    """

    description: str
    source: str
    empty: Callable[[], Wire] = dict
    outage: int = 1800


def _no_jobs() -> Wire:
    return {"jobs": [], "last_backfill": number(0), "last_update": number(0)}


SUBMIT = Operation("Batch job submission failed", "slurm_submit_batch_job()")
SUBMIT_TOGETHER = Operation("HetJob submission failed", "slurm_submit_batch_het_job()")
JOB = Operation("Unable to query JobId={}", "_handle_job_get", _no_jobs, outage=-1)
JOBS = Operation("Unable to query jobs", "slurm_load_jobs()", _no_jobs)
STATES = Operation(
    "Unable to query job states", "slurm_load_job_state()", lambda: {"jobs": None}, outage=-1
)
KILL = Operation("Signal request failed", "slurm_kill_jobs()", lambda: {"status": []}, outage=1)
UPDATE = Operation(
    "Job update requested failed", "slurm_update_job2()", lambda: {"results": None}, outage=1000
)
NODES = Operation("Failure to query nodes", "_dump_nodes")
NODE = Operation("Failure to query node {}", "_dump_nodes")
UPDATE_NODE = Operation("Failure to update node {}", "_update_node")
PARTITIONS = Operation("Unable to query partitions", "op_handler_partitions")
PARTITION = Operation("Unable to query partitions", "op_handler_partition")
RESERVATIONS = Operation("Unable to query reservations", "slurm_load_reservations()")
LICENSES = Operation(
    "slurm_load_licenses() was unable to load licenses",
    "op_handler_licenses",
    lambda: {"licenses": [], "last_update": number(0)},
)
DIAG = Operation("slurm_get_statistics() failed to get slurmctld statistics", "op_handler_diag")
CONF = Operation("slurm_load_ctl_conf() failed", "op_handler_conf")
MALFORMED = Operation("Rejecting request. Failure parsing {}", "_parse_request")


class Frame:
    """Builds the answers to one user through one API version."""

    def __init__(self, config: SlurmConfig, version: str, user: str) -> None:
        self._release = config.release
        self._meta = _meta(config.cluster_name, config.release, version, user)

    def good(self, data: Wire, warnings: Sequence[Warned] = ()) -> Answer:
        """Return an answer without errors."""
        return Answer(200, self._encode(data, [], warnings))

    def bad(
        self,
        operation: Operation,
        faults: Sequence[SlurmError],
        *,
        about: object = "",
        data: Wire | None = None,
        warnings: Sequence[Warned] = (),
    ) -> Answer:
        """Return an answer with errors; the first error decides the HTTP status."""
        errors = [_error(fault, operation, about) for fault in faults]
        body = self._encode(operation.empty() if data is None else data, errors, warnings)
        first = faults[0]
        return Answer(http_status(first.number, self._release), body, text=first.text)

    def _encode(self, data: Wire, errors: list[Wire], warnings: Sequence[Warned]) -> bytes:
        described = [{"description": w.description, "source": w.source} for w in warnings]
        return msgspec.json.encode(
            {**data, "meta": self._meta, "errors": errors, "warnings": described}
        )


def _error(fault: SlurmError, operation: Operation, about: object) -> Wire:
    return {
        "description": fault.description or operation.description.format(about),
        "error_number": fault.number,
        "error": fault.text,
        "source": fault.source or operation.source,
    }


@lru_cache(maxsize=256)
def _meta(cluster: str, release: Release, version: str, user: str) -> msgspec.Raw:
    major, minor = release.value.split(".")
    meta = {
        "plugin": {
            "type": "openapi/slurmctld",
            "name": "Slurm OpenAPI slurmctld",
            "data_parser": f"data_parser/{version}",
            "accounting_storage": "",
        },
        "client": {"source": "[localhost]:6820(fd:9)", "user": user, "group": user},
        "command": [],
        "slurm": {
            "version": {"major": major, "micro": release.full.split(".")[-1], "minor": minor},
            "release": release.full,
            "cluster": cluster,
        },
    }
    return msgspec.Raw(msgspec.json.encode(meta))
