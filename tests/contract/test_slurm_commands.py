"""The sandbox's squeue, sinfo, scancel and sbatch print what Slurm's own print."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.rigs.slurm import SlurmRig

pytestmark = [pytest.mark.live]

_ROOT: Final = Path(__file__).parents[2]
# Of a job that runs, between two calls.
_AGREE_SECONDS: Final = 30.0
_TIME: Final = re.compile(r"\b(?:\d+-)?(?:\d+:)?\d+:\d\d\b")


@pytest.fixture(params=["26", "24"], ids=["live-26.05", "live-24.11"])
def rig(request: pytest.FixtureRequest) -> Iterator[SlurmRig]:
    """A Slurm with a job that runs and one that waits; afterwards without them."""
    found: SlurmRig = request.getfixturevalue(f"live_slurm_{request.param}")
    submit = (
        "--parsable",
        "--job-name=ours",
        f"--partition={found.script_partition}",
        "--time=1:00:00",
    )
    ours(found, "sbatch", *submit, "--cpus-per-task=2", "--wrap=sleep 600")
    ours(found, "sbatch", *submit, "--hold", "--wrap=sleep 600")
    yield found
    found.call("scancel", "--name=ours")


def ours(rig: SlurmRig, command: str, *words: str) -> str:
    """What the sandbox's command prints, given the real slurmrestd; asserts that it succeeds."""
    status, said = sandboxed(rig, command, *words)
    assert status == 0, said
    return said


def sandboxed(rig: SlurmRig, *words: str) -> tuple[int, str]:
    """Exit status and both outputs of the sandbox's command."""
    module = (sys.executable, "-m", "scheduler.sandbox.tools", rig.url, str(rig.token_file))
    return _called(*module, *words)


def real(rig: SlurmRig, *words: str) -> tuple[int, str]:
    """Exit status and both outputs of Slurm's own command."""
    return _called(*rig.entry(*words))


def _called(*command: str) -> tuple[int, str]:
    ended = subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def told(text: str) -> list[str]:
    """The lines with single blanks; the asterisk of the default partition is not known to ours."""
    lines = (" ".join(it.split()) for it in text.splitlines())
    return [_TIME.sub("TIME", re.sub(r"^(\w+)\*", r"\1", it)) for it in lines]


def _agree(rig: SlurmRig, command: str, *words: str) -> None:
    """Both print the same lines. A job may start or end between the two looks, so they are compared
    until they agree.
    """
    until = time.monotonic() + _AGREE_SECONDS
    while True:
        own, theirs = told(ours(rig, command, *words)), told(rig.call(command, *words))
        if own == theirs or (command == "sinfo" and sorted(own) == sorted(theirs)):
            return
        assert time.monotonic() < until, (own, theirs)


@pytest.mark.parametrize(
    "words",
    [
        ("--name=ours",),
        ("--name=ours", "-h", "-t", "PD", "-o", "%i|%j|%T|%r|%Q|%l|%a|%q"),
        ("--name=ours", "--sort=-i", "-o", "%.6i %5P %t %D %C %u"),
    ],
    ids=str,
)
def test_queue_is_the_one_of_squeue(rig: SlurmRig, words: tuple[str, ...]) -> None:
    _agree(rig, "squeue", *words)


def test_nodes_are_those_of_sinfo(rig: SlurmRig) -> None:
    partition = f"--partition={rig.script_partition}"
    each = ("-N", "-h", partition, "-o", "%N %t %c %m %G")
    for words in ((partition,), each, ("-h", partition, "-o", "%P %C %D")):
        _agree(rig, "sinfo", *words)


def test_cancel_of_a_job_that_slurm_does_not_know_says_nothing(rig: SlurmRig) -> None:
    assert sandboxed(rig, "scancel", "4000000") == real(rig, "scancel", "4000000") == (0, "")


def test_cancelled_job_is_cancelled_in_slurm(rig: SlurmRig) -> None:
    assert ours(rig, "scancel", "--name=ours", "--state=PD") == ""
    assert rig.call("squeue", "--noheader", "--name=ours", "--states=PD") == ""


def test_job_that_no_node_can_take_is_answered_as_by_sbatch(rig: SlurmRig) -> None:
    """The older release accepts it, and it waits. The newer sbatch first says more."""
    words = ("sbatch", "--job-name=ours", f"--partition={rig.script_partition}", "--wrap=true")
    own, theirs = (it(rig, *words, "--cpus-per-task=60000") for it in (sandboxed, real))
    assert own[0] == theirs[0]
    assert _without_id(own[1].splitlines()[-1]) == _without_id(theirs[1].splitlines()[-1])


def _without_id(said: str) -> str:
    return re.sub(r"job \d+$", "job ID", said)
