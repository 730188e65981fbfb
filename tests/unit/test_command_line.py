"""Wrong words on the command line: one line that says what is wrong, status 2, no traceback."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import scheduler
from scheduler.__main__ import main, plugin

ROOT = Path(__file__).parents[2]
NOT_THERE = "--kubeconfig=/nowhere/kubeconfig"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith("SLURM_POD_SCHEDULER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KUBECONFIG", "")


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr; asserts that it is one, and that the status is 2."""
    try:
        status: object = main(words)
    except SystemExit as ended:
        status = ended.code
    output = capsys.readouterr()
    assert status == 2
    assert output.out == ""
    assert output.err.count("\n") == 1
    return output.err


def as_process(*words: str, stdout: int = subprocess.PIPE) -> tuple[int, str]:
    """Exit status and stderr. For what sets up the log: that lasts as long as its process."""
    command = (sys.executable, "-m", "scheduler", *words)
    ended = subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=150, check=False
    )
    return ended.returncode, ended.stderr


_KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["frob"], "'frob'"),
        (["sandbox", "--frob"], "there is no --frob"),
        (["sandbox", "extra"], "unexpected argument extra"),
        (["--slurm-api=http://x"], "there is no --slurm-api"),  # no abbreviations
        (["demo", "--nodes", "2"], "there is no --nodes"),
        (["sandbox", "--nodes", "0"], "--nodes: '0': expected a number of 1 to 10000"),
        (["sandbox", "--nodes", "x"], "--nodes: 'x': expected a number of 1 to 10000"),
        (["sandbox", "--nodes", "-3"], "--nodes: '-3'"),
        (["sandbox", "--nodes", "٣"], "--nodes: '٣'"),
        (["sandbox", "--gpus-per-node", "-1"], "--gpus-per-node: '-1'"),
        (["sandbox", "--memory-gib", "0.5"], "--memory-gib: '0.5'"),
        (["sandbox", "--max-job-count", "0"], "--max-job-count: '0': expected a number of 1 to"),
        (["sandbox", "--kube-port", "65536"], "--kube-port: '65536'"),
        (["sandbox", "--slurm-release", "23.02"], "--slurm-release: invalid choice: '23.02'"),
        (["sandbox", "--folder", "/dev/null"], "/dev/null: File exists"),
        (["sandbox", "--folder", "/proc/none"], "/proc/none: No such file"),
        (["run", "--worker=0"], "there is no --worker; did you mean --workers?"),
        (["run", "--slurm-kilwait", "30s"], "did you mean --slurm-kill-wait?"),
        (["run", "--workers=0"], "--workers: '0'"),
        (["--workers=0"], "--workers: '0'"),
        (["run", "--scheduler-name="], "--scheduler-name: ''"),
        (["run", "--slurm-kill-wait=abc"], "--slurm-kill-wait: 'abc': expected a duration"),
        (["run", "--metrics-bind-address=:99999"], "--metrics-bind-address: ':99999'"),
        (["run", "--placeholder-mode=foo"], "--placeholder-mode: 'foo'"),
        (["run", "--device-resources=a/b=gpu:x,a/b=gpu:y"], "'a/b' is given twice"),
        (["run", "--gpu-types=H100=h100,H100=h200"], "'H100' is given twice"),
        (["run", "--config=/nowhere"], "--config /nowhere"),
        (["doctor", "--worker=0"], "there is no --worker; did you mean --workers?"),
        (["doctor", "--workers=0"], "--workers: '0'"),
        (["doctor", "--output=xml"], "--output: invalid choice: 'xml'"),
        (["doctor", "--request-timeout=0"], "--request-timeout: '0': expected seconds above 0"),
        (["doctor", "--request-timeout=nan"], "--request-timeout: 'nan': expected seconds"),
    ],
    ids=str,
)
def test_wrong_words_are_named_in_one_line(words, named, capsys):
    assert named in refused(words, capsys)


@pytest.mark.parametrize("flag", ["--kube-port", "--slurm-port"])
def test_sandbox_says_which_port_is_taken(flag, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = refused(["sandbox", flag, str(port)], capsys)
    assert str(port) in error
    assert "address already in use; perhaps another sandbox runs" in error


def test_port_in_use_names_the_flag(tmp_path):
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(_KUBECONFIG))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, output = as_process(
            f"--kubeconfig={config}",
            f"--metrics-bind-address={address}",
            *("--health-probe-bind-address=0", "--hooks-api-bind-address=0", "--cluster-id=x"),
        )
    assert status == 2
    assert f"--metrics-bind-address: {address}: this port is in use" in output
    assert "perhaps by another scheduler on this machine; choose another port" in output


def test_slurm_address_that_is_none_is_refused(capsys):
    assert main(["--slurm-api-base=nonsense"]) == 2
    output = capsys.readouterr().err
    assert "--slurm-api-base: 'nonsense'" in output
    assert "unix:/PATH" in output


def test_missing_kubeconfig_ends_the_scheduler_with_its_name():
    status, output = as_process(NOT_THERE)  # flags alone mean `run`
    assert status == 1
    assert output.count("\n") == 1
    assert "/nowhere/kubeconfig" in output


def test_bare_call_on_a_terminal_shows_the_help(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main([]) == 0
    assert "usage: slurm-pod-scheduler" in capsys.readouterr().out


def test_bare_call_with_a_setting_runs_on_a_terminal_too(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("SLURM_POD_SCHEDULER_WORKERS", "0")
    assert main([]) == 2
    assert "SLURM_POD_SCHEDULER_WORKERS" in capsys.readouterr().err


def test_bare_call_in_a_cluster_runs_on_a_terminal_too(monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "9")
    master, terminal = os.openpty()
    try:
        status, output = as_process(stdout=terminal)
    finally:
        os.close(master)
        os.close(terminal)
    assert status == 1
    assert output.startswith("slurm-pod-scheduler: ")


def test_bare_call_away_from_a_terminal_runs(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere/kubeconfig")
    status, output = as_process()
    assert status == 1
    assert "/nowhere/kubeconfig" in output


@pytest.mark.parametrize("words", [[], ["--help"]], ids=str)
def test_plugin_for_kubectl_shows_its_help_and_never_runs_the_scheduler(words, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-slurm", *words])
    with pytest.raises(SystemExit) as ended:
        plugin()
    assert ended.value.code == 0
    output = capsys.readouterr().out
    assert output.startswith("usage: kubectl slurm ")
    assert "queue" in output
    assert "sandbox" not in output


_CTRL_C_AT_AN_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "scheduler.view":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
from scheduler.__main__ import main, plugin
sys.exit(main(["queue"]) if sys.argv[1] == "main" else plugin())
"""


@pytest.mark.parametrize("program", ["main", "plugin"])
def test_ctrl_c_while_a_command_loads_leaves_no_traceback(program):
    command = (sys.executable, "-c", _CTRL_C_AT_AN_IMPORT, program)
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=150, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_plugin_loads_neither_the_service_nor_the_doctor():
    program = (
        "import sys; from scheduler.commands import views; "
        "print([it for it in sys.modules if it.startswith(('scheduler.service', "
        "'scheduler.doctor', 'scheduler.reconcile'))])"
    )
    command = (sys.executable, "-c", program)
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=150, check=True)
    assert ended.stdout == b"[]\n"


def test_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{scheduler.__version__}\n"


# A parent may have it ignored, which its children inherit.
_WITH_SIGHUP = """
import os, signal, sys
signal.signal(signal.SIGHUP, getattr(signal, sys.argv[1]))
os.execv(sys.executable, [sys.executable, "-m", "scheduler", *sys.argv[2:]])
"""


@asynccontextmanager
async def ready_sandbox(
    *words: str, at_sighup: str, **environment: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A sandbox that has printed where it is, and these lines."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _WITH_SIGHUP, at_sighup, "sandbox", "--nodes=1", *words),
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            yield process, (await process.stdout.readuntil(b"Ctrl-C")).decode()
            _, errors = await process.communicate()
        assert (process.returncode, errors) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_sandbox_tells_where_it_is_and_ends_on_a_signal(number, tmp_path):
    folder = tmp_path / "kept"
    async with ready_sandbox(f"--folder={folder}", at_sighup="SIG_DFL") as (process, output):
        process.send_signal(number)
    assert re.search(r"Slurm +http://127\.0\.0\.1:\d+", output)
    for name in ("kubeconfig", "slurm-token", "pod.yaml"):
        assert str(folder / name) in output
        assert (folder / name).exists()
    assert (folder / "slurm-token").stat().st_mode & 0o077 == 0


def test_sandbox_leaves_a_folder_with_files_of_others_alone(tmp_path, capsys):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("of a real cluster")
    assert f"--folder: {tmp_path}: has files that no sandbox has made" in refused(
        ["sandbox", f"--folder={tmp_path}"], capsys
    )
    assert kubeconfig.read_text() == "of a real cluster"
    assert list(tmp_path.iterdir()) == [kubeconfig]


async def test_folder_of_a_running_sandbox_is_not_given_to_another(tmp_path):
    flag = f"--folder={tmp_path / 'kept'}"
    async with ready_sandbox(flag, at_sighup="SIG_DFL") as (process, _):
        before = (tmp_path / "kept/kubeconfig").read_text()
        status, error = await asyncio.to_thread(as_process, "sandbox", flag)
        assert (status, error.count("\n")) == (2, 1)
        assert "a sandbox runs there" in error
        assert (tmp_path / "kept/kubeconfig").read_text() == before
        process.send_signal(signal.SIGTERM)
    async with ready_sandbox(flag, at_sighup="SIG_DFL") as (process, _):
        process.send_signal(signal.SIGTERM)


async def test_sandbox_removes_its_files_when_its_terminal_is_closed(tmp_path):
    async with ready_sandbox(at_sighup="SIG_DFL", TMPDIR=str(tmp_path)) as (process, output):
        assert str(tmp_path) in output
        process.send_signal(signal.SIGHUP)
    assert list(tmp_path.iterdir()) == []


async def test_sandbox_below_nohup_outlives_its_terminal(tmp_path):
    async with ready_sandbox(at_sighup="SIG_IGN", TMPDIR=str(tmp_path)) as (process, output):
        process.send_signal(signal.SIGHUP)
        (commands,) = re.findall(r'export PATH="(.*):', output)
        squeue = await asyncio.create_subprocess_exec(f"{commands}/squeue", stdout=subprocess.PIPE)
        out, _ = await squeue.communicate()
        assert b"JOBID" in out
        process.send_signal(signal.SIGTERM)


_IN_THE_IMAGE = """
import contextlib, io, json, sys
from scheduler.__main__ import main, plugin
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as ended:
            status = ended.code
    print(json.dumps([status, out.getvalue(), err.getvalue()]))
"""


def in_the_image(folder: Path, *lines: list[str]) -> list[list[Any]]:
    """Status, stdout and stderr of each command line, with the packages as the image has them."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    for package in ("annotations", "groundwork", "scheduler", "slurmapi"):
        (folder / package).mkdir()
        for path in (ROOT / package).iterdir():
            if f"{package}/{path.name}" not in ignored:
                (folder / package / path.name).symlink_to(path)
    assert not (folder / "scheduler/sandbox").exists()
    command = (sys.executable, "-c", _IN_THE_IMAGE, json.dumps(lines))
    output = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=150, check=True
    )
    return [json.loads(line) for line in output.stdout.splitlines()]


def test_image_says_that_it_has_no_sandbox_and_no_demo(tmp_path: Path):
    absent = [["sandbox"], ["sandbox", "--nodes", "2"], ["demo"]]
    *refused, version, run, started = in_the_image(
        tmp_path,
        *absent,
        ["--version"],
        ["run", "--help"],
        ["run", "--slurm-api-base=http://127.0.0.1:9", "--slurm-auth-token=x", NOT_THERE],
    )
    for words, told in zip(absent, refused, strict=True):
        says = (
            f"slurm-pod-scheduler {words[0]}: the container image has no sandbox and no demo; "
            "install the Python package, or use a checkout\n"
        )
        assert told == [2, "", says]
    assert version == [0, f"{scheduler.__version__}\n", ""]
    assert "--slurm-api-base" in run[1]
    assert started[0] == 1
    assert "/nowhere/kubeconfig" in started[2]


@pytest.mark.parametrize("command", ["sandbox", "demo"])
@pytest.mark.parametrize(
    ("redirected", "told"),
    [(">&-", "standard output is closed"), (">/dev/full", "No space left on device")],
)
def test_output_of_sandbox_and_demo_that_cannot_be_written_is_told(
    command: str, redirected: str, told: str
) -> None:
    words = ("sh", "-c", f'exec "$0" -m scheduler {command} {redirected}', sys.executable)
    done = subprocess.run(
        words, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert done.stderr.startswith(f"slurm-pod-scheduler {command}: ")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_output_that_cannot_be_written_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        words = [sys.executable, "-m", "scheduler", "completion", "bash"]
        done = subprocess.run(
            words, check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith("the output cannot be written: No space left on device\n")
