"""Makes the text of slurm.conf and its companions for a rig, from its shape and its ports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tests.rigs.accounting import accounting_conf

CPUS_PER_NODE: Final = 64
MEMORY_MIB_PER_NODE: Final = 512_000
GPUS_PER_NODE: Final = 8
PARTITION: Final = "main"
HIGH_PARTITION: Final = "high"
# Its jobs are preempted like those of `main`, but get this grace time.
GRACE_PARTITION: Final = "grace"
GRACE_SECONDS: Final = 15
# The only partition with the nodes that have a real kubelet, so that no pod for a simulated kubelet
# gets there.
REAL_PARTITION: Final = "real"
# Native jobs go here, so that they and the pods of a test never compete for a node; pods only where
# a test is about just that.
SLURMD_PARTITION: Final = "slurmd"
# Every node has the first; the last node of the default partition also has the second.
FEATURE: Final = "standard"
SPECIAL_FEATURE: Final = "special"
# The least MinJobAge in seconds that slurmctld takes without a warning (slurm.conf(5)).
SHORTEST_JOB_AGE: Final = 2
LICENSES: Final = {"compiler": 4}

_NODE: Final = (
    f"CPUs={CPUS_PER_NODE} RealMemory={MEMORY_MIB_PER_NODE} Gres=gpu:h100:{GPUS_PER_NODE}"
)

_CANCELS: Final = "PreemptMode=CANCEL"
_SUSPENDS: Final = "PreemptMode=SUSPEND,GANG"
_HOOKS: Final = """\
PrologSlurmctld=/etc/slurm/prolog-slurmctld.sh
EpilogSlurmctld=/etc/slurm/epilog-slurmctld.sh
"""
# Without the tuning a start takes 2.7 s at the median, with it 0.6 s (measured on 26.05.5).
# munge, systemd and cgroups are what these lines do without.
RECIPE: Final = f"""\
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
PreemptType=preempt/partition_prio
{_CANCELS}
KillWait=30
{_HOOKS}MaxJobCount=50000
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=5,default_queue_depth=1000
"""
_NO_CGROUPS: Final = "CgroupPlugin=disabled\n"
# The mounted tree is of cgroup v1 and has no other controller.
_MEMORY_CONFINED: Final = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/run/cgroup
ConstrainRAMSpace=yes
IgnoreSystemd=yes
"""
_PLACES: Final = """\
SlurmctldHost=rig(127.0.0.1)
SlurmctldPidFile=/rig/state/slurmctld.pid
SlurmctldLogFile=/rig/log/slurmctld.log
SlurmdPidFile=/run/slurmd.%n.pid
SlurmdLogFile=/rig/log/slurmd.%n.log
SlurmdSpoolDir=/run/spool.%n
StateSaveLocation=/rig/state
RebootProgram=/etc/slurm/reboot.sh
"""
MEMORY_IGNORED: Final = ("JobAcctGatherType=jobacct_gather/none",)
# There are no cgroups, so slurmd looks at the processes once a second.
_MEMORY_ENFORCED: Final = (
    "JobAcctGatherType=jobacct_gather/linux",
    "JobAcctGatherFrequency=1",
    "JobAcctGatherParams=OverMemoryKill",
)
# slurmd runs this to reboot its machine. Here it ends the slurmd, if a test asks for that.
REBOOTS: Final = "reboots"
REBOOT_PROGRAM: Final = f"""\
#!/bin/sh
[ -e /etc/slurm/{REBOOTS} ] || exit 0
process=$PPID
until grep -q slurmd "/proc/$process/comm"; do
    process=$(cut -d ' ' -f 4 "/proc/$process/stat")
done
kill -KILL "$process"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Which nodes a rig has.

    `external` counts nodes without slurmd (they need Slurm >= 25.05), `real` are nodes whose
    Kubernetes side is a real kubelet, `slurmd` are nodes served by a slurmd of the rig.
    `pods_on_slurmd` puts the slurmd nodes into the partitions pods are sent to. With
    `memory_enforced` a job that takes more memory than it asked for is killed, with
    `memory_confined` its processes are kept within it by a cgroup. With `accounting` there is a
    slurmdbd, and limits of accounts and QoS are enforced.
    """

    external: int
    real: tuple[str, ...]
    slurmd: tuple[str, ...]
    pods_on_slurmd: bool
    memory_enforced: bool = False
    memory_confined: bool = False
    accounting: bool = False

    @property
    def schedulable(self) -> tuple[str, ...]:
        """The nodes of the default partition that have GPUs, in order."""
        external = tuple(f"e-{index:03}" for index in range(self.external))
        return external + (self.slurmd if self.pods_on_slurmd else ())


SHAPES: Final = {
    "26.05": Shape(external=200, real=("real-0",), slurmd=("s1", "s2", "s3"), pods_on_slurmd=False),
    "24.11": Shape(external=0, real=(), slurmd=("t1", "t2"), pods_on_slurmd=True),
}
ACCOUNTED: Final = {
    "26.05": replace(SHAPES["26.05"], external=4, real=(), slurmd=("s1",), accounting=True),
    "24.11": replace(SHAPES["24.11"], accounting=True),
}


def slurm_conf(
    shape: Shape,
    *,
    cluster: str,
    controller_port: int,
    slurmd_ports: dict[str, int],
    database_port: int,
    audited: bool = False,
) -> str:
    """The text of slurm.conf; with `audited` slurmctld logs who asks it for what."""
    lines = [
        f"ClusterName={cluster}",
        _PLACES,
        RECIPE.replace("task/none", "task/cgroup") if shape.memory_confined else RECIPE,
        *([accounting_conf(port=database_port)] if shape.accounting else []),
        f"SlurmctldPort={controller_port}",
        # The least level at which the users of REQUEST_KILL_JOBS are logged (measured on both).
        *(["SlurmctldDebug=debug2"] if audited else []),
        *(_MEMORY_ENFORCED if shape.memory_enforced else MEMORY_IGNORED),
        f"Licenses={','.join(f'{name}:{count}' for name, count in LICENSES.items())}",
        *_external_nodes(shape, port=slurmd_ports[shape.slurmd[0]]),
        *(
            _slurmd_node(name, slurmd_ports[name], features=_features(shape, name))
            for name in shape.slurmd
        ),
        *_partitions(shape),
    ]
    return "\n".join(lines) + "\n"


def without_hooks(conf: str) -> str:
    """That slurm.conf, as of a site that has not installed the scheduler's hooks."""
    return conf.replace(_HOOKS, "")


def suspending(conf: str) -> str:
    """That slurm.conf, changed so that preempted jobs are suspended and run on afterwards."""
    return conf.replace(_CANCELS, _SUSPENDS)


def pod_partitions(nodes: str) -> list[str]:
    """The partitions for pods, all on these nodes."""
    return [
        f"PartitionName={PARTITION} Nodes={nodes} Default=YES State=UP PriorityTier=1",
        f"PartitionName={HIGH_PARTITION} Nodes={nodes} State=UP PriorityTier=10",
        f"PartitionName={GRACE_PARTITION} Nodes={nodes} State=UP PriorityTier=1 "
        f"GraceTime={GRACE_SECONDS}",
    ]


def cgroup_conf(shape: Shape) -> str:
    """The text of cgroup.conf."""
    return _MEMORY_CONFINED if shape.memory_confined else _NO_CGROUPS


def gres_conf(shape: Shape) -> str:
    """The text of gres.conf: device files for the nodes with a slurmd, which look for them."""
    return (
        "AutoDetect=off\n"
        f"NodeName={','.join(shape.slurmd)} Name=gpu Type=h100 "
        f"File=/run/fakegpu/g[0-{GPUS_PER_NODE - 1}]\n"
    )


def _external_nodes(shape: Shape, *, port: int) -> list[str]:
    """Signals for jobs on them go to a slurmd that answers: an external node that nobody answers
    for is NOT_RESPONDING after its first signal, until `scontrol reconfigure` (measured).
    """
    lines = []
    if shape.external:
        where = f"NodeAddr=127.0.0.1 Port={port}"
        last = f"e-{shape.external - 1:03}"
        for names, features in (
            (f"e-[000-{shape.external - 2:03}]", FEATURE),
            (last, _features(shape, last)),
        ):
            lines.append(
                f"NodeName={names} {where} {_NODE} Feature={features} State=EXTERNAL Weight=1"
            )
    # As big as a small machine, because a real kubelet admits no more than the machine has.
    lines += [
        f"NodeName={name} NodeAddr=127.0.0.1 CPUs=2 RealMemory=4000 State=EXTERNAL"
        for name in shape.real
    ]
    return lines


def _slurmd_node(name: str, port: int, *, features: str) -> str:
    return (
        f"NodeName={name} NodeHostname=rig NodeAddr=127.0.0.1 Port={port} {_NODE} "
        f"Feature={features}"
    )


def _features(shape: Shape, name: str) -> str:
    return f"{FEATURE},{SPECIAL_FEATURE}" if name == shape.schedulable[-1] else FEATURE


def _partitions(shape: Shape) -> list[str]:
    external = (f"e-[000-{shape.external - 1:03}]",) if shape.external else ()
    nodes = ",".join(external + (shape.slurmd if shape.pods_on_slurmd else ()))
    lines = pod_partitions(nodes)
    if shape.real:
        lines.append(f"PartitionName={REAL_PARTITION} Nodes={','.join(shape.real)} State=UP")
    if not shape.pods_on_slurmd:
        lines.append(f"PartitionName={SLURMD_PARTITION} Nodes={','.join(shape.slurmd)} State=UP")
    return lines
