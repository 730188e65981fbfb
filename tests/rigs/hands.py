"""A folder with which a person works on the rigs: kubeconfig, values, a pod, commands of Slurm."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.rigs import slurm_conf
from tests.rigs.slurm import SlurmRig

_COMMANDS: Final = ("sbatch", "scancel", "scontrol", "sdiag", "sinfo", "squeue", "srun")
_POD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: hello
  annotations:
    sunk.coreweave.com/partition: {partition}
spec:
  schedulerName: slurm-scheduler
  terminationGracePeriodSeconds: 10
  restartPolicy: Never
  containers:
    - name: main
      image: {image}
      imagePullPolicy: Never
      command: [sh, -c, "echo hello from a real container; exec sleep 3600"]
      resources:
        requests: {{cpu: "1", memory: 100Mi}}
"""


@contextmanager
def folder(place: Path, *, kubeconfig: Path) -> Iterator[Path]:
    """Make it, and take it away at the end; what was there goes."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "bin").mkdir(parents=True)
    shutil.copy(kubeconfig, place / "kubeconfig")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def add_pod(place: Path, *, image: str, real: bool) -> None:
    """A pod to begin with, on the real Node where pods of Slurm get there."""
    partition = slurm_conf.REAL_PARTITION if real else slurm_conf.PARTITION
    (place / "pod.yaml").write_text(_POD.format(partition=partition, image=image))


def add_slurm(place: Path, slurm: SlurmRig) -> None:
    """The token, and the commands, which run on Slurm's side as root."""
    shutil.copy(slurm.token_file, place / "slurm-token")
    for name in _COMMANDS:
        script = place / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(slurm.entry(name))} "$@"\n')
        script.chmod(0o755)


def add_helm(place: Path, *, program: Path, values: Mapping[str, Any]) -> None:
    """helm, and the values of what it has installed."""
    (place / "bin/helm").symlink_to(program)
    plain = json.loads(json.dumps(values))
    (place / "values.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))
