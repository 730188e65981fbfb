"""The folder for working with the rigs by hand: kubeconfig, values, a pod, Slurm's commands."""

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
    """Make the folder anew, and remove it at the end of the block."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "bin").mkdir(parents=True)
    shutil.copy(kubeconfig, place / "kubeconfig")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def add_pod(place: Path, *, image: str, real: bool) -> None:
    """Write the manifest of a first pod, for the real Node if Slurm can reach it."""
    partition = slurm_conf.REAL_PARTITION if real else slurm_conf.PARTITION
    (place / "pod.yaml").write_text(_POD.format(partition=partition, image=image))


def add_slurm(place: Path, slurm: SlurmRig) -> None:
    """Write the token, and scripts that run Slurm's commands as root on its host."""
    shutil.copy(slurm.token_file, place / "slurm-token")
    for name in _COMMANDS:
        script = place / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(slurm.entry(name))} "$@"\n')
        script.chmod(0o755)


def add_helm(place: Path, *, program: Path, values: Mapping[str, Any]) -> None:
    """Link helm, and write the values of its release."""
    (place / "bin/helm").symlink_to(program)
    plain = json.loads(json.dumps(values))
    (place / "values.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))
