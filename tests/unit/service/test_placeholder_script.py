"""The placeholder's script in a shell of its own, signalled as slurmd does it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.execute.placeholder import SCRIPT

_CURL = """#!/bin/sh
cat >>"$0.stdin"
printf '%s\\n' "$*" >>"$0.asked"
read -r status <"$0.answers" || status=000
sed -i 1d "$0.answers"
[ "$status" != hangs ] || sleep 60
case " $* " in
*" --cacert "*)
    readlink /proc/self/fd/3 >"$0.source"
    cat /dev/fd/3 >>"$0.ca"
    ;;
esac
printf 'told by the API\\nand more\\n%s' "$status"
"""
_TOKEN = "a-token-of-the-unit"


def _heed_interrupts() -> None:
    """A shell cannot trap what was ignored when it began, as SIGINT is in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Node:
    """A node: a folder with all its programs, and the script that runs there."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir(parents=True)
        for name in (
            "sh",
            "cat",
            "date",
            "head",
            "readlink",
            "sed",
            "sleep",
            "timeout",
            "tr",
            "true",
        ):
            (self.programs / name).symlink_to(str(shutil.which(name)))
        self.environment = {
            "PATH": str(self.programs),
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_NAME": "ns.train.0a1b2c3d",
        }
        self.script: subprocess.Popen[bytes] | None = None
        self.output = folder / "slurm-4711.out"
        self._output = self.output.open("wb")

    def hooks(self, *answers: object, kill_wait: int = 30) -> None:
        self.program("curl", _CURL)
        (self.programs / "curl.answers").write_text("".join(f"{it}\n" for it in answers))
        self.environment |= {
            "SLURM_POD_SCHEDULER_HOOKS_URL": "http://127.0.0.1:1",
            "SLURM_POD_SCHEDULER_UNIT": "uid-1",
            "SLURM_POD_SCHEDULER_TOKEN": _TOKEN,
            "SLURM_POD_SCHEDULER_KILL_WAIT": str(kill_wait),
        }

    def scontrol(self, text: str, *, name: str = "ns.train.0a1b2c3d") -> None:
        """With Slurm's name for the job."""
        self.program("squeue", f'#!/bin/sh\nprintf "%s\\n" "$*" >"$0.asked"\necho "{name}"\n')
        self.program("scontrol", text)

    def start(self, shell: str = "/bin/sh") -> None:
        self.script = subprocess.Popen(
            [shell, "-c", SCRIPT],
            env=self.environment,
            stderr=self._output,
            start_new_session=True,
            preexec_fn=_heed_interrupts,  # noqa: PLW1509 - no thread of ours runs here
        )
        self.until(lambda: "sleep" in self.processes(), "the script rests")

    def signal(self, number: int = signal.SIGTERM, *, whole_step: bool = True) -> None:
        assert self.script is not None
        (os.killpg if whole_step else os.kill)(self.script.pid, number)

    def ended(self, *, seconds: float = 45) -> int:
        assert self.script is not None
        return self.script.wait(seconds)

    def asked(self) -> list[str]:
        path = self.programs / "curl.asked"
        return path.read_text().splitlines() if path.exists() else []

    def said(self) -> list[str]:
        """The job's output, without what the shell says of a process that was ended."""
        return [line for line in self.output.read_text().splitlines() if line != "Terminated"]

    def stdin(self) -> str:
        return (self.programs / "curl.stdin").read_text()

    def processes(self) -> list[str]:
        """Names of the processes of the script's session, without the script."""
        assert self.script is not None
        listed = subprocess.run(
            ["ps", "--no-headers", "-o", "pid=,comm=", "-s", str(self.script.pid)],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split("\n")
        found = (line.split() for line in listed if line.strip())
        return [name for pid, name, *_ in found if pid != str(self.script.pid)]

    def until(self, holds: Callable[[], bool], what: str) -> None:
        by = time.monotonic() + 40
        while not holds():
            assert time.monotonic() < by, f"not in time: {what}"
            time.sleep(0.01)

    def close(self) -> None:
        if self.script is not None and self.script.poll() is None:
            os.killpg(self.script.pid, signal.SIGKILL)
            self.script.wait(5)
        self._output.close()

    def program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "node")
    yield node
    node.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
@pytest.mark.parametrize("whole_step", [True, False])
def test_without_hooks_it_ends_at_once_and_leaves_nothing(node, number, whole_step):
    node.start()
    node.signal(number, whole_step=whole_step)
    assert node.ended() == 0
    node.until(lambda: not node.processes(), "no process is left")


def test_without_curl_it_ends_at_once(node):
    node.hooks()
    (node.programs / "curl").unlink()
    node.start()
    node.signal()
    assert node.ended() == 0


def test_it_ends_when_the_pod_is_gone(node):
    node.hooks(409, 409, 200)
    node.start()
    assert not node.asked()
    node.signal()
    assert node.ended() == 0
    assert len(node.asked()) == 3
    assert node.asked()[0].endswith("http://127.0.0.1:1/v1/units/uid-1/gone")
    assert _TOKEN not in str(node.asked())
    assert node.stdin() == f"Authorization: Bearer {_TOKEN}\n" * 3
    node.until(lambda: not node.processes(), "no process is left")


def test_without_an_answer_it_holds_the_node_for_kill_wait(node):
    node.hooks(kill_wait=2)
    node.start()
    began = time.monotonic()
    node.signal()
    assert node.ended() == 0
    assert 1 <= time.monotonic() - began < 28, "the KillWait of 30 s that is the default"


def test_an_api_that_comes_back_is_heard(node):
    node.hooks("000", 503, 200)
    node.start()
    node.signal()
    assert node.ended() == 0
    assert len(node.asked()) == 3


def test_trouble_is_said_once_in_the_syslog(node):
    node.hooks("000", "000", 503, 200, kill_wait=20)
    node.program("logger", '#!/bin/sh\nprintf "%s\\n" "$*" >>"$0.said"\n')
    node.start()
    node.signal()
    assert node.ended() == 0
    first, second = (node.programs / "logger.said").read_text().splitlines()
    assert first == (
        "-t slurm-pod-scheduler job 4711: no answer of http://127.0.0.1:1, told by the API (000); "
        "the node is held for 20 s"
    )
    assert "(503)" in second


def test_syslog_that_hangs_does_not_keep_the_script(node):
    """`ended` waits for the script only so long."""
    node.hooks("000", 200)
    node.program("logger", '#!/bin/sh\n: >"$0.began"\nexec sleep 3600\n')
    node.start()
    node.signal()
    assert node.ended() == 0
    assert (node.programs / "logger.began").exists()


def test_authority_is_given_to_curl_without_a_file(node):
    node.hooks(409, 200)
    authority = "-----BEGIN CERTIFICATE-----\n$HOME `id` \\\n-----END CERTIFICATE-----"
    node.environment["SLURM_POD_SCHEDULER_CA"] = authority
    node.start()
    node.signal()
    assert node.ended() == 0
    assert (node.programs / "curl.ca").read_text() == f"{authority}\n" * 2
    assert not node.said()


def test_authority_is_in_no_file_of_a_shell_either(node):
    """bash before 5.1 writes a here-document to a file, and starts no curl if /tmp is full: then
    each node would be held for KillWait, although its pod is gone.
    """
    node.hooks(200)
    node.environment |= {"SLURM_POD_SCHEDULER_CA": "authority", "BASH_COMPAT": "5.0"}
    node.start(str(shutil.which("bash")))
    node.signal()
    assert node.ended() == 0
    assert (node.programs / "curl.source").read_text().startswith("pipe:")


def test_curl_reads_no_file_of_the_jobs_user(node):
    node.hooks(200)
    node.start()
    node.signal()
    assert node.ended() == 0
    assert node.asked()[0].startswith("--disable ")


def test_script_starts_no_process_while_its_pod_runs(node):
    """A shell that cannot start one ends, and its job with it: its user may be at a limit."""
    node.start()
    session = str(node.script.pid)
    listed = subprocess.check_output(["ps", "-o", "args=", "-s", session], text=True)
    (seconds,) = re.findall(r"^sleep (\d+)$", listed, re.MULTILINE)
    assert int(seconds) > 10 * 365 * 86_400


def test_script_asks_once_a_second_whatever_answers(node):
    """The scheduler waits for as long as it was asked to; another program may not."""
    node.hooks(*[409] * 3, 200)
    node.start()
    began = time.monotonic()
    node.signal()
    assert node.ended() == 0
    assert time.monotonic() - began > 2


def test_endless_answer_holds_the_node_no_longer_than_kill_wait(node):
    """A shell takes minutes for a text of a megabyte."""
    node.hooks(kill_wait=2)
    node.program("curl", "#!/bin/sh\nexec tr '\\0' x </dev/zero\n")
    node.start()
    node.signal()
    assert node.ended() == 0


def test_without_an_authority_curl_trusts_whom_the_node_trusts(node):
    node.hooks(200)
    node.start()
    node.signal()
    assert node.ended() == 0
    assert "--cacert" not in str(node.asked())


def test_more_signals_do_not_cut_the_wait_short(node):
    node.hooks("hangs", 409, 200)
    node.start()
    node.signal()
    answers = node.programs / "curl.answers"
    node.until(lambda: "hangs" not in answers.read_text(), "the API is asked")
    node.signal()
    node.signal(signal.SIGUSR1)
    assert node.ended() == 0
    assert len(node.asked()) == 3


def test_started_marker_is_appended_to_what_the_job_has(node):
    node.environment["SLURM_JOB_EXTRA"] = "of the user"
    node.scontrol('#!/bin/sh\nprintf "%s\\n" "$@" >"$0.asked"\n')
    node.start()
    asked = node.programs / "scontrol.asked"
    node.until(lambda: asked.exists() and asked.read_text().count("\n") == 3, "it is marked")
    assert asked.read_text() == "update\njobid=4711\nextra=of the user: started\n"
    looked = (node.programs / "squeue.asked").read_text()
    assert looked == "--noheader --jobs=4711 --format=%j\n"


def test_job_of_another_that_has_the_id_now_is_not_marked(node):
    node.scontrol('#!/bin/sh\n: >"$0.asked"\n', name="another")
    node.start()
    node.until((node.programs / "squeue.asked").exists, "Slurm is asked")
    node.signal(whole_step=False)
    assert node.ended() == 0
    assert not (node.programs / "scontrol.asked").exists()


@pytest.mark.parametrize("scontrol", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nsleep 60\n"])
def test_marker_that_cannot_be_written_is_no_matter(node, scontrol):
    node.scontrol(scontrol)
    node.start()
    node.signal(whole_step=False)
    assert node.ended() == 0
