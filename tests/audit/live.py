"""Records a real cluster from the logs and records of its two servers."""

from __future__ import annotations

import time

from tests.audit.live_kube import AuditLog
from tests.audit.live_slurm import SlurmRecords
from tests.audit.records import Records
from tests.rigs.kube import KubeRig
from tests.rigs.slurm import SlurmRig


class LiveRecorder:
    """A Recorder of two rigs."""

    def __init__(self, kube: KubeRig, slurm: SlurmRig) -> None:
        self._kube = kube
        self._slurm = slurm
        self._audit_log: AuditLog | None = None
        self._jobs: SlurmRecords | None = None
        self._opened = 0.0

    def open(self) -> None:
        """As in Recorder."""
        self._opened = time.time()
        self._audit_log = AuditLog(self._kube)
        self._jobs = SlurmRecords(self._slurm)
        self._jobs.open()

    def close(self) -> Records:
        """As in Recorder."""
        assert self._audit_log is not None
        assert self._jobs is not None
        records = Records(opened=self._opened, reported=True)
        self._jobs.read_into(records)
        self._audit_log.read_into(records)
        records.closed = time.time()
        return records
