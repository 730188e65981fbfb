"""From what a pod asks for to the Slurm job that stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from annotations import JobRequest
from scheduler.core.edits import digests
from scheduler.core.naming import VERSION, Owner, OwnerTag, job_name
from slurmapi import ApiVersion, JobSubmission

Mode = Literal["external", "script"]

# Ends at once on the first signal. `wait` returns on a trapped signal, a foreground sleep does not.
SCRIPT: Final = """#!/bin/sh
trap 'kill "$!" 2>/dev/null; exit 0' TERM INT USR1
while :; do
    sleep 86400 &
    wait "$!"
done
"""


def mode_for(setting: str, version: ApiVersion) -> Mode:
    """The mode to use; `auto` takes external jobs where the server offers them (v0.0.43)."""
    if setting == "external":
        return "external"
    if setting == "script":
        return "script"
    return "external" if version.supports_external else "script"


def submission(
    request: JobRequest,
    *,
    owner: Owner,
    mode: Mode,
    namespace: str,
    name: str,
    uids: Sequence[str],
    node: str = "",
    excluded: Sequence[str] = (),
) -> JobSubmission:
    """The job for a unit of `len(uids)` pods, one node each; `node` pins it."""
    tag = OwnerTag(
        v=VERSION,
        cluster=owner.cluster,
        scheduler=owner.scheduler,
        namespace=namespace,
        unit=name,
        uids=tuple(uids),
        node=node,
        asked=dict(digests(request)),
    )
    return JobSubmission(
        name=job_name(namespace, name, uids[0]),
        external=mode == "external",
        script=None if mode == "external" else SCRIPT,
        admin_comment=tag.encode(),
        cpus=request.cpus,
        memory_mib=request.memory_mib,
        nodes=len(uids),
        gres=request.gres,
        partition=request.partition,
        account=request.account,
        qos=request.qos,
        reservation=request.reservation,
        comment=request.comment,
        time_limit_minutes=request.time_limit_minutes,
        required_nodes=(node,) if node else (),
        excluded_nodes=tuple(excluded),
    )
