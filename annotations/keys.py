"""The table of annotations, which parsing, documentation and tests all use.

A row alone is not enough: the field it names is in `model.py`, and must be passed on to Slurm's
job (unless the row is not `of_job`). The annotations that the scheduler writes by itself are in
`scheduler/core/naming.py`. SUNK's annotations have the same names under the same prefix (`PREFIX`
in `model.py`), so nothing is translated: `parse.py` reads them, and refuses unknown ones.
CONTRIBUTING.md, "Adding an annotation", has all the steps.

`make docs` rewrites the generated part of docs/annotations.md.
"""

from dataclasses import dataclass
from difflib import get_close_matches

from annotations.value_kinds import (
    BOOLEAN,
    CONSTRAINTS,
    DEPENDENCY,
    FEATURES,
    GANG_NAME,
    GRES,
    ID,
    LICENSES,
    LOST_SLOT,
    NICE,
    NODE_LIST,
    PATH,
    PER_NODE,
    PODS_OF_GANG,
    PRIORITY,
    RANK_IN_GANG,
    SECONDS,
    SEGMENT,
    SHARING,
    SWITCHES,
    TEXT,
    THREADS,
    TIME,
    WORD,
    Kind,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """One annotation: how it is read, which JobRequest field it fills, and how it is documented.

    `sunk` says that SUNK has the same annotation. One that is not `of_job` fills no field: it says
    which pods share a job, and the scheduler reads it by itself (`core/membership.py`). It is
    checked like all others, and its `field` is its name in the site's policy.
    """

    key: str
    kind: Kind
    field: str
    slurm_option: str
    description: str
    example: str
    sunk: bool = False
    of_job: bool = True


DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        "account",
        TEXT,
        "account",
        "--account",
        "The Slurm account that is charged. Without it: the default account of the Slurm user.",
        "physics",
        sunk=True,
    ),
    Definition(
        "comment",
        TEXT,
        "comment",
        "--comment",
        "Free text kept with the job, shown by squeue and sacct.",
        "nightly training",
        sunk=True,
    ),
    Definition(
        "constraints",
        CONSTRAINTS,
        "constraints",
        "--constraint",
        "Features the node must have, in sbatch's syntax (`&`, `|`, brackets), which counts from "
        "left to right: `a|b&c` is `(a|b)&c`. Slurm refuses unknown features, and `!`.",
        "h100&nvlink",
        sunk=True,
    ),
    Definition(
        "current-working-dir",
        PATH,
        "working_directory",
        "--chdir",
        "The job's working directory, without `..`. Nothing of the pod happens there, and the job"
        " has no output; but in script mode the directory must exist on the node, else the job"
        " fails when it starts. Without it: `/tmp`.",
        "/home/alice",
        sunk=True,
    ),
    Definition(
        "excluded-nodes",
        NODE_LIST,
        "excluded_nodes",
        "--exclude",
        "Slurm nodes the pod must not run on.",
        "gpu-05,gpu-[07-09]",
        sunk=True,
    ),
    Definition(
        "exclusive",
        SHARING,
        "exclusive",
        "--exclusive, --oversubscribe",
        "Who else may use the node; see [below](#sharing-a-node).",
        "user",
        sunk=True,
    ),
    Definition(
        "group-id",
        ID,
        "group_id",
        "--gid",
        "Group of the job. Without it: the value of `user-id`; without either the group of "
        "the token's user.",
        "1001",
        sunk=True,
    ),
    Definition(
        "partition",
        TEXT,
        "partition",
        "--partition",
        "The partition to run in, or several joined by commas. Without it: the cluster's default.",
        "gpu",
        sunk=True,
    ),
    Definition(
        "prefer",
        CONSTRAINTS,
        "prefer",
        "--prefer",
        "Features the node should have, in the same syntax, where such a node is free.",
        "nvlink",
        sunk=True,
    ),
    Definition(
        "priority",
        PRIORITY,
        "priority",
        "--priority",
        "The job's priority, which Slurm then leaves as it is. 0 holds the job until an "
        "operator gives it another.",
        "1000",
        sunk=True,
    ),
    Definition(
        "qos",
        TEXT,
        "qos",
        "--qos",
        "The quality of service to run under. Without it: the default of account and partition.",
        "high",
        sunk=True,
    ),
    Definition(
        "required-nodes",
        NODE_LIST,
        "required_nodes",
        "--nodelist",
        "Slurm nodes the pod may run on: it gets one of them.",
        "gpu-01,gpu-02",
        sunk=True,
    ),
    Definition(
        "reservation",
        TEXT,
        "reservation",
        "--reservation",
        "The reservation whose resources may be used.",
        "maintenance-window",
        sunk=True,
    ),
    Definition(
        "timeout",
        SECONDS,
        "time_limit_minutes",
        "--time",
        "Time limit of the job. Slurm counts minutes: seconds are rounded up. The pod's "
        "`activeDeadlineSeconds` where that is less. Without both: the partition's default.",
        "3600",
        sunk=True,
    ),
    Definition(
        "user-id",
        ID,
        "user_id",
        "--uid",
        "Slurm user the job runs as. Without it: the user of the scheduler's token, which is "
        "root (0) where the site follows SUNK. In script mode Slurm holds the job of a uid "
        "that it does not know (`JobHeldAdmin`).",
        "1001",
        sunk=True,
    ),
    Definition(
        "begin",
        TIME,
        "begin",
        "--begin",
        "Not before this moment.",
        "2030-01-31T08:00:00Z",
    ),
    Definition(
        "contiguous",
        BOOLEAN,
        "contiguous",
        "--contiguous",
        "Whether the nodes of a gang must be neighbours in Slurm's order.",
        "true",
    ),
    Definition(
        "deadline",
        TIME,
        "deadline",
        "--deadline",
        "If the job would not be done by then, Slurm ends it or never starts it. Refused if the "
        "time limit does not fit.",
        "2030-01-31T20:00:00Z",
    ),
    Definition(
        "dependency",
        DEPENDENCY,
        "dependency",
        "--dependency",
        "Slurm jobs to wait for, in sbatch's syntax; all terms must hold. A pod's own job "
        "ends as cancelled in external mode: wait for it with `afterany`.",
        "afterany:4711",
    ),
    Definition(
        "features",
        FEATURES,
        "constraints",
        "--constraint",
        "Features the node must have, all of them: short for `constraints` with `&`.",
        "h100,nvlink",
    ),
    Definition(
        "gang",
        GANG_NAME,
        "gang",
        "",
        "The pods of a namespace with the same name here are a gang: they get one job, and start "
        "together. With `none`, the pod belongs to no gang, whatever its labels say.",
        "trainer",
        of_job=False,
    ),
    Definition(
        "gang-lost-slot",
        LOST_SLOT,
        "gang_lost_slot",
        "",
        "What happens if a pod of the gang cannot [come back to its slot]"
        "(gangs.md#restarts-keep-the-nodes) while others run: the pod waits, or all pods end and "
        "get a job anew. Without it: the site's `--gang-lost-slot`.",
        "release",
    ),
    Definition(
        "gang-rank",
        RANK_IN_GANG,
        "gang_rank",
        "",
        "The pod's place in its gang, from 0 on. Without it: its index in its batch Job, or the "
        "number at the end of its name. Gangs whose controller numbers the pods do not need it.",
        "3",
        of_job=False,
    ),
    Definition(
        "gang-size",
        PODS_OF_GANG,
        "gang_size",
        "",
        "How many pods the gang has; required beside `gang`.",
        "8",
        of_job=False,
    ),
    Definition(
        "gres",
        GRES,
        "gres",
        "--gres",
        "Further generic resources, which Kubernetes does not know; or, for those that it knows, "
        "their type, with the same count.",
        "nic:1",
    ),
    Definition(
        "hold",
        BOOLEAN,
        "hold",
        "--hold",
        "Submitted, and held until somebody releases the job (`scontrol release`). Not "
        "together with `priority`, for which Slurm forgets the hold.",
        "true",
    ),
    Definition(
        "licenses",
        LICENSES,
        "licenses",
        "--licenses",
        "Licenses the job takes while it runs.",
        "matlab:2",
    ),
    Definition(
        "nice",
        NICE,
        "nice",
        "--nice",
        "Lowers the job's priority by this number; below 0 raises it. No effect beside `priority`.",
        "100",
    ),
    Definition(
        "no-kill",
        BOOLEAN,
        "no_kill",
        "--no-kill",
        "Whether, when one node fails, the pods of a gang on its other nodes keep running.",
        "true",
    ),
    Definition(
        "pods-per-node",
        PER_NODE,
        "pods_per_node",
        "--ntasks-per-node",
        "At most this many pods of a gang on one node. Without it: the site's `--pods-per-node`.",
        "4",
    ),
    Definition(
        "requeue",
        BOOLEAN,
        "requeue",
        "--requeue",
        "Whether Slurm may put the job back into the queue instead of ending it. This "
        "helps the pod only before it is bound, and only in script mode: external jobs cannot be "
        "requeued.",
        "true",
    ),
    Definition(
        "segment",
        SEGMENT,
        "segment",
        "--segment",
        "The nodes of a gang come in groups of this size; the nodes of a group are near each "
        "other. Without a block topology in Slurm it has no effect.",
        "8",
    ),
    Definition(
        "switches",
        SWITCHES,
        "switches",
        "--switches",
        "At most this many network switches between the nodes; after @, for how many minutes "
        "Slurm insists on it. Without a topology in Slurm it has no effect.",
        "1@30",
    ),
    Definition(
        "threads-per-core",
        THREADS,
        "threads_per_core",
        "--threads-per-core",
        "How many threads of a core count as CPUs: with 1, each CPU of the pod is a core of "
        "its own. Refused where no node's cores have as many.",
        "1",
    ),
    Definition(
        "wckey",
        WORD,
        "wckey",
        "--wckey",
        "Workload characterization key, for accounting.",
        "project-x",
    ),
)

BY_KEY = {definition.key: definition for definition in DEFINITIONS}


def supported() -> str:
    """All known names, for messages."""
    return ", ".join(sorted(BY_KEY))


def remedy(name: str) -> str:
    """What to write instead of an unknown name."""
    for near in get_close_matches(name, BY_KEY, n=1):
        return f"a known annotation, such as {near!r}"
    return f"a known annotation: one of {supported()}"
