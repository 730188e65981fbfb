"""What slurmrestd does for each path, with the model as its slurmctld."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote_plus

import msgspec

from . import answers, killing, render_cluster, render_job
from .answers import Frame
from .config import Release
from .errors import SlurmError
from .http import Answer
from .model import SlurmModel
from .parsing import Description, Warned, describe, unknown_field
from .plugins import judged
from .records import Job
from .shapes import shape
from .wire import Wire, number

_INSANE_IDS: Final = 8000  # measured: 4000 ids are served, 8000 are not


class Endpoints:
    """The operations for one user through one API version.

    ``refusal`` is the error with which every request of this user to slurmctld fails, because
    slurmctld rejects the user or does not answer; None if it does neither. slurmrestd parses a
    submit before it contacts slurmctld, so the errors of parsing come first.
    """

    def __init__(
        self, model: SlurmModel, version: str, *, user: str, refusal: SlurmError | None = None
    ) -> None:
        self._model = model
        self._version = version
        self._frame = Frame(model.config, version, user)
        self._shape = shape(version)
        self._user = user
        self._refusal = refusal

    @property
    def _now(self) -> float:
        return self._model.clock()

    def submit(self, body: object) -> Answer:
        """POST job/submit."""
        described, script, parts = self._described(body)
        operation = answers.SUBMIT if parts is None else answers.SUBMIT_TOGETHER
        if described.fatal:
            return self._not_submitted(described, operation)
        if described.dropped:
            return self._frame.good({}, described.warnings)
        if self._refusal is not None:
            described.faults.append(self._refusal)
            return self._not_submitted(described, operation)
        try:
            words = "".join(
                judged(self._model.job_submit, it) for it in parts or [described.fields]
            )
            if parts is None:
                job, remark = self._model.submit(described.fields, script, user=self._user)
            else:
                job, remark = self._model.submit_together(parts, script, user=self._user)
        except SlurmError as fault:
            described.faults.append(fault)
            return self._not_submitted(described, operation)
        warnings = [*described.warnings, *_remarks(remark)]
        data = self._submitted(job.id, words)
        if not described.faults:
            return self._frame.good(data, warnings)
        return self._frame.bad(answers.SUBMIT, described.faults, data=data, warnings=warnings)

    def _submitted(self, job_id: int, words: str) -> Wire:
        data: Wire = {"job_id": job_id, "step_id": "batch", "job_submit_user_msg": words}
        if self._version < "v0.0.42":
            data["result"] = {**data, "error_code": 0, "error": "No error"}
        return data

    def _described(
        self, body: object
    ) -> tuple[Description, str | None, list[dict[str, Any]] | None]:
        """Return what was read of the body, the script, and the components of ``jobs``."""
        fields = _dictionary(body, "#/")
        if "job" in fields and "jobs" in fields:
            both = 'Specify only one "job" or "jobs" fields but never both'
            raise SlurmError(9000, both, source="_job_post")
        if "jobs" in fields:
            return self._components(fields["jobs"], fields.get("script"))
        described = describe(_dictionary(fields.get("job", {}), "#/job/"), self._shape)
        script = fields.get("script") or described.fields.get("script")
        if not script and "EXTERNAL_JOB" not in described.fields.get("flags", ()):
            missing = 'Populated "script" field is required for job submission'
            described.faults.append(SlurmError(9000, missing, source="_job_post"))
        return described, script or None, None

    def _components(
        self, jobs: Sequence[object], script: str | None
    ) -> tuple[Description, str | None, list[dict[str, Any]]]:
        if not jobs:
            none = "Refusing HetJob submission without any components"
            raise SlurmError(0, none, source="_job_post_het_submit")
        joint, parts = Description(), []
        for offset, job in enumerate(jobs):
            source = f"#/jobs[{offset}]/"
            part = describe(_dictionary(job, source), self._shape, source=source)
            joint.warnings += part.warnings
            joint.faults += part.faults
            joint.dropped = joint.dropped or part.dropped
            parts.append(part.fields)
        script = script or parts[0].get("script")
        if not script and "EXTERNAL_JOB" not in parts[0].get("flags", ()):
            missing = "Refusing HetJob submission without batch script"
            raise SlurmError(2009, missing, source="_job_post_het_submit")
        return joint, script or None, parts

    def _not_submitted(self, described: Description, operation: answers.Operation) -> Answer:
        return self._frame.bad(operation, described.faults, warnings=described.warnings)

    def job(self, job_id: int, query: str) -> Answer:
        """GET job/{id}; with any ``flags`` but DETAIL the record lacks cores and devices."""
        job = self._model.job(job_id)
        self._model.looked_at(job_id, user=self._user)
        cluster = self._model.cluster
        named = cluster.components(job) if job_id == job.het_id else [job]
        records = [render_job.job_record(cluster, it, self._shape) for it in named]
        if _pairs(query).get("flags", "DETAIL") != "DETAIL":
            records = [it | {"job_resources": None, "gres_detail": []} for it in records]
        # For a single job last_update is the time of the answer (measured on 26.05.5 and 24.11.5).
        return self._job_list(records, last_update=self._now)

    def jobs(self, query: str) -> Answer:
        """GET jobs/: all jobs, or none and a warning if none changed since ``update_time``."""
        since = _pairs(query).get("update_time", "0")
        if int(since) > self._model.cluster.jobs_changed:
            said = f"No job changes since update_time[{since}]"
            warning = Warned(said, "slurm_load_jobs()")
            return self._frame.good(answers.JOBS.empty(), [warning])
        cluster = self._model.cluster
        jobs = (render_job.job_record(cluster, job, self._shape) for job in self._model.jobs())
        return self._job_list(list(jobs), last_update=cluster.jobs_changed)

    def _job_list(self, records: list[Wire], *, last_update: float) -> Answer:
        backfilled, updated = number(self._model.cluster.jobs_changed), number(last_update)
        return self._frame.good(
            {"jobs": records, "last_backfill": backfilled, "last_update": updated}
        )

    def states(self, ids: Sequence[int], warnings: Sequence[Warned]) -> Answer:
        """GET jobs/state/: ids and states of all jobs, or of the requested ids that exist."""
        if len(ids) >= _INSANE_IDS:
            return Answer.plain(500, "Insane message length")
        cluster = self._model.cluster
        jobs = cluster.jobs
        found: Iterable[Job] = [jobs[i] for i in ids if i in jobs] if ids else jobs.values()
        if ids:
            found = [
                it
                for job in found
                for it in (cluster.components(job) if job.id == job.het_id else (job,))
            ]
        return self._frame.good({"jobs": [_state(job) for job in found]}, warnings)

    def kill_job(self, job_id: int, query: str) -> Answer:
        """DELETE job/{id}; a job that cannot be killed is reported in ``status`` with HTTP 200."""
        signal = killing.signal_number(_pairs(query).get("signal", ""))
        failure = killing.kill_one(self._model, job_id, signal, user=self._user)
        return self._frame.good({"status": [failure] if failure else []})

    def kill_jobs(self, body: object) -> Answer:
        """DELETE jobs/."""
        named = _dictionary(body, "#/")
        failures, warnings = killing.kill(self._model, named, user=self._user)
        return self._frame.good({"status": failures}, warnings)

    def update_job(self, job_id: int, body: object) -> Answer:
        """POST job/{id}."""
        described = describe(_dictionary(body, "#/"), self._shape, source="#/")
        if described.fatal:
            return self._frame.bad(answers.UPDATE, described.faults, warnings=described.warnings)
        self._model.job(job_id)
        judged(self._model.job_submit, described.fields)
        self._model.update(job_id, described.fields, user=self._user)
        return self._frame.good(answers.UPDATE.empty(), described.warnings)

    def nodes(self, query: str) -> Answer:
        """GET nodes/; HTTP 304 if no node has changed since ``update_time``."""
        nodes = self._model.nodes()
        for node in nodes:
            node.count()
        if int(_pairs(query).get("update_time", "0")) > self._model.cluster.nodes_changed:
            return Answer(304)
        return self._node_list(nodes)

    def node(self, name: str) -> Answer:
        """GET node/{name}; an unknown node gives error number 0 with HTTP 200, as measured."""
        node = self._model.cluster.nodes.get(name)
        if node is None:
            raise SlurmError(0)
        return self._node_list([node])

    def _node_list(self, nodes: Iterable[Any]) -> Answer:
        cluster = self._model.cluster
        records = [render_cluster.node_record(cluster, node, self._shape) for node in nodes]
        return self._frame.good({"nodes": records, "last_update": number(cluster.nodes_changed)})

    def update_node(self, name: str, body: object) -> Answer:
        """POST node/{name}."""
        fields = dict(_dictionary(body, "#/"))
        asked = fields.get("state", [])
        fields["state"] = asked if isinstance(asked, list) else [str(asked)]
        try:
            self._model.update_node(name, fields, user=self._user)
        except SlurmError as fault:
            faults = [*_unknown_states(fault, fields["state"]), fault]
            return self._frame.bad(answers.UPDATE_NODE, faults, about=name)
        return self._frame.good({})

    def partitions(self, name: str | None = None) -> Answer:
        """GET partitions/ and partition/{name}."""
        cluster = self._model.cluster
        chosen = [p for p in cluster.partitions.values() if name in (None, p.name)]
        if not chosen:
            return self._no_partition(str(name))
        records = [render_cluster.partition_record(cluster, p, self._shape) for p in chosen]
        return self._frame.good({"partitions": records, "last_update": number(cluster.boot_time)})

    def _no_partition(self, name: str) -> Answer:
        said = f"Unable to find partition {name}"
        if self._model.config.release is Release.V26_05:
            return self._frame.good({}, [Warned(said, answers.PARTITION.source)])
        return self._frame.bad(answers.PARTITION, [SlurmError(9000, said)])

    def reservations(self, name: str | None = None) -> Answer:
        """GET reservations/ and reservation/{name}."""
        cluster = self._model.cluster
        chosen = [r for r in cluster.reservations.values() if name in (None, r.name)]
        if name is not None and not chosen:
            raise SlurmError(0)
        records = [render_cluster.reservation_record(cluster, r) for r in chosen]
        return self._frame.good({"reservations": records, "last_update": number(cluster.boot_time)})

    def licenses(self) -> Answer:
        """GET licenses/."""
        records = render_cluster.license_records(self._model.cluster)
        empty = [Warned("Zero licenses to dump", answers.LICENSES.source)] if not records else []
        return self._frame.good({"licenses": records, "last_update": number(self._now)}, empty)

    def diag(self) -> Answer:
        """GET diag/."""
        counted = render_cluster.statistics(self._model.cluster, self._shape, now=self._now)
        return self._frame.good({"statistics": counted})

    def conf(self) -> Answer:
        """GET conf (v0.0.45)."""
        conf = self._shape.slurm_conf or {}
        return self._frame.good(
            render_cluster.configuration(self._model.cluster, conf, now=self._now)
        )


_NO_ID: Final = 2**32 - 3


def job_ids(query: str) -> tuple[list[int], list[Warned]]:
    """Return the ids of the repeated ``job_id``, and warnings about other parameters.

    Raises SlurmError 9000 for a value that is not a job id.
    """
    ids: list[int] = []
    warnings: list[Warned] = []
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name != "job_id":
            record = "DATA_PARSER_OPENAPI_JOB_STATE_QUERY"
            warnings.append(unknown_field(name, value, "#/", record=record))
        elif _is_id(value):
            ids.append(int(value))
        else:
            raise SlurmError(9000, "Rejecting request. Failure parsing query")
    return ids, warnings


def job_number(text: str) -> int:
    """Return the job id in a path; raises SlurmError 9000 for a text that is not a job id."""
    if not _is_id(text):
        raise SlurmError(9000, "Rejecting request. Failure parsing parameters")
    return int(text)


def _is_id(text: str) -> bool:
    """Whether the text can be a job id; INFINITE, NO_VAL and NO_VAL - 1 cannot (measured)."""
    return text.isdigit() and int(text) < _NO_ID


def decode(body: bytes) -> Any:
    """Return the decoded JSON of a body, {} for an empty one; raises msgspec.DecodeError."""
    return msgspec.json.decode(body) if body else {}


def _dictionary(data: object, source: str) -> Mapping[str, Any]:
    if isinstance(data, dict):
        return data
    kind = "list" if isinstance(data, list) else type(data).__name__
    said = f"Rejecting {kind} when dictionary expected"
    raise SlurmError(9209, said, source=source)


def _remarks(remark: str) -> Sequence[Warned]:
    """Return the two warnings that Slurm writes for one remark."""
    if not remark:
        return ()
    source = answers.SUBMIT.source
    said = f"Job submission resulted in non-zero return code: {remark}"
    return Warned(said, source), Warned(remark, source)


def _state(job: Job) -> Wire:
    job_id = f"{job.id}+{job.het_offset}" if job.het_id else str(job.id)
    return {"job_id": job_id, "state": render_job.states(job)}


def _pairs(query: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return {name: unquote_plus(value) for name, _, value in pairs}


def _unknown_states(fault: SlurmError, states: Sequence[str]) -> list[SlurmError]:
    if fault.number not in (2028, 2180):
        return []
    unknown = enumerate(states)
    return [
        SlurmError(9207, f'Unknown flag "{state}"', source=f"#/state[{index}]/")
        for index, state in unknown
        if state not in {"DRAIN", "DOWN", "RESUME", "UNDRAIN", "IDLE"}
    ]
