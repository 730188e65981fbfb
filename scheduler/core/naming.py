"""The annotations that the scheduler writes, and the name of a placeholder job.

Those that users write are in `annotations/keys.py`; whose a job is, its tag says (`owner_tag.py`).
"""

from __future__ import annotations

from typing import Final

# The annotations that we write ourselves have this prefix.
OWN_PREFIX = "slurm-pod-scheduler/"
JOB_ID = f"{OWN_PREFIX}job-id"
JOB_NODES = f"{OWN_PREFIX}nodes"
ENDS_AT = f"{OWN_PREFIX}ends-at"
JOB_PARTITION = f"{OWN_PREFIX}job-partition"
"""The partition in which Slurm started the job: pods may name several, or none."""
GANG = f"{OWN_PREFIX}gang"
"""The key of the gang's unit, on a pod that names its job; or BESIDE_GANG."""
BESIDE_GANG: Final = "none"
"""On a pod of a PodGroup whose gang has all its pods without this one: it has a job of its own."""
GANG_RANK = f"{OWN_PREFIX}gang-rank"
GANG_SIZE = f"{OWN_PREFIX}gang-size"
GANG_FIRST_NODE = f"{OWN_PREFIX}gang-first-node"
"""The Kubernetes Node of the gang's first slot."""


def job_name(namespace: str, name: str, key: str) -> str:
    """A name that is readable in squeue and unique for a unit's key: `<namespace>.<name>.<first 8
    of key>`. A single pod's key is its uid.
    """
    return f"{namespace}.{name}.{key[:8]}"
