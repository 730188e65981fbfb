"""The hook scripts in a shell, with a curl that answers as told: they always end with 0."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

HOOKS = Path(__file__).parents[3] / "deploy" / "slurm"
SECRET = 'a-secret-with-"quotes"-$(and)-\\backslashes'
SCRIPTS = ["prolog-slurmctld.sh", "epilog-slurmctld.sh"]
_CURL = """#!/bin/sh
readlink /proc/self/fd/0 >"$0.source"
cat >>"$0.stdin"
printf '%s\\n' "$*" >>"$0.asked"
read -r status <"$0.answers" || status=000
sed -i 1d "$0.answers"
printf 'told by the API\\nand more\\n%s' "$status"
"""


class Host:
    """A slurmctld host: a folder with the hooks' settings, and one with all its programs."""

    def __init__(self, folder: Path) -> None:
        self.conf = folder / "hooks.conf"
        self.token = folder / "token"
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ("sh", "cat", "head", "readlink", "sed", "sleep", "timeout", "tr"):
            (self.programs / name).symlink_to(str(shutil.which(name)))
        self._program("logger", '#!/bin/sh\nprintf "%s\\n" "$*" >>"$0.said"\n')
        self._program("scontrol", '#!/bin/sh\nprintf "%s\\n" "$*" >>"$0.asked"\n')
        self.token.write_text(SECRET + "\n")

    def settings(self, **more: object) -> None:
        values = {"URL": "http://127.0.0.1:1", "TOKEN_FILE": self.token} | more
        self.conf.write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))

    def curl(self, *answers: int) -> None:
        self._program("curl", _CURL)
        (self.programs / "curl.answers").write_text("".join(f"{it}\n" for it in answers))

    def run(self, script: str, *shell: str, **variables: str) -> float:
        """Run the script, by this shell if one is named; seconds it took. AssertionError where its
        status is not 0.
        """
        environment = {
            "PATH": str(self.programs),
            "SLURM_POD_SCHEDULER_HOOKS_CONF": str(self.conf),
            "SLURM_JOB_ID": "4711",
            "SLURM_JOB_NODELIST": "n[1-3],m7",
        } | variables
        began = time.monotonic()
        command = [*shell, str(HOOKS / script)]
        done = subprocess.run(command, env=environment, timeout=50, check=False)
        assert done.returncode == 0
        return time.monotonic() - began

    def slow(self, program: str, seconds: float) -> None:
        """Each call of the program ends this much later."""
        real = (self.programs / program).readlink()
        (self.programs / program).unlink()
        self._program(program, f'#!/bin/sh\n{real} "$@"\nexec {shutil.which("sleep")} {seconds}\n')

    def asked(self, program: str = "curl") -> list[str]:
        return self._read(f"{program}.asked").splitlines()

    def said(self) -> str:
        return self._read("logger.said")

    def _read(self, name: str) -> str:
        path = self.programs / name
        return path.read_text() if path.exists() else ""

    def _program(self, name: str, text: str) -> None:
        path = self.programs / name
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("script", SCRIPTS)
def test_nothing_is_done_without_settings(host, script):
    host.curl(500)
    host.run(script)
    assert not host.asked()
    assert not host.said()


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("broken", ["URL='", "if", "exit 3", "(((", "\0\1\2", "false", "set -e"])
def test_broken_settings_do_no_harm(host, script, broken):
    host.curl(500)
    host.conf.write_text(broken)
    host.run(script)
    assert not host.asked()


@pytest.mark.parametrize("script", SCRIPTS)
def test_missing_curl_is_said(host, script):
    host.settings()
    host.run(script)
    assert "curl is not there" in host.said()


@pytest.mark.parametrize("script", SCRIPTS)
def test_unreadable_token_is_said(host, script):
    host.curl(200)
    host.settings(TOKEN_FILE="/nowhere")
    host.run(script)
    assert "/nowhere cannot be read" in host.said()


@pytest.mark.parametrize("script", SCRIPTS)
def test_syslog_that_hangs_does_not_hold_the_job(host, script):
    """`run` waits for the script only so long."""
    host._program("logger", '#!/bin/sh\n: >"$0.began"\nexec sleep 3600\n')
    host.settings()
    host.run(script)
    assert (host.programs / "logger.began").exists()


@pytest.mark.parametrize("script", SCRIPTS)
def test_missing_companion_does_no_harm(host, script, tmp_path):
    alone = shutil.copy(HOOKS / script, tmp_path)
    subprocess.run([alone], env={"PATH": os.environ["PATH"]}, check=True, timeout=50)


def test_guard_asks_about_job_and_nodes(host):
    host.curl(200)
    host.settings(CA_FILE="/ca.pem")
    host.run("prolog-slurmctld.sh")
    (asked,) = host.asked()
    assert asked.endswith("http://127.0.0.1:1/v1/guard")
    for part in ("job=4711", "nodes=n[1-3],m7", "--cacert /ca.pem"):
        assert part in asked
    (wait,), (most,) = (re.findall(rf"{it}(\d+)", asked) for it in ("wait=", "--max-time "))
    assert int(most) == int(wait) + 5
    assert 0 < int(wait) <= 30  # less if seconds have passed since it began


@pytest.mark.parametrize("script", SCRIPTS)
def test_secret_is_in_no_argument(host, script):
    host.curl(200)
    host.settings()
    host.run(script)
    assert SECRET not in str(host.asked())
    assert host._read("curl.stdin") == f"Authorization: Bearer {SECRET}\n"


@pytest.mark.parametrize("script", SCRIPTS)
def test_secret_is_in_no_file_of_a_shell_either(host, script):
    """bash before 5.1 writes a here-document to a file, and starts nothing if /tmp is full."""
    host.curl(200)
    host.settings()
    host.run(script, str(shutil.which("bash")), BASH_COMPAT="5.0")
    assert host._read("curl.source").startswith("pipe:")


def test_guard_asks_again_while_somebody_is_in_the_way(host):
    host.curl(409, 409, 200)
    host.settings()
    host.run("prolog-slurmctld.sh")
    assert len(host.asked()) == 3
    assert not host.said()


@pytest.mark.parametrize("passing", [429, 500, 502, 503, 0])
def test_guard_asks_again_where_that_may_help(host, passing):
    host.curl(passing, 200)
    host.settings()
    host.run("prolog-slurmctld.sh")
    assert len(host.asked()) == 2
    assert not host.said()


@pytest.mark.parametrize("final", [400, 401, 404, 413])
def test_guard_that_is_refused_goes_by_policy_at_once(host, final):
    host.curl(final)
    host.settings()
    host.run("prolog-slurmctld.sh")
    assert "refused the question" in host.said()
    assert not host.asked("scontrol")


def test_silence_is_borne_for_so_long_only(host):
    host.curl(*[503] * 99)
    host.settings(UNREACHABLE_SECONDS=2, POLICY="drain")
    assert host.run("prolog-slurmctld.sh") < 25, "30 s is the default"
    assert "no answer of http://127.0.0.1:1 for 2 s (503, told by the API)" in host.said()
    (drained,) = host.asked("scontrol")
    assert drained.startswith("update nodename=n[1-3],m7 state=drain reason=slurm-pod-scheduler: ")


def test_several_schedulers_are_asked_in_turn(host):
    host.curl(200, 200)
    host.settings(URL="http://127.0.0.1:1 http://127.0.0.1:2")
    host.run("prolog-slurmctld.sh")
    assert [it.rsplit(maxsplit=1)[-1] for it in host.asked()] == [
        "http://127.0.0.1:1/v1/guard",
        "http://127.0.0.1:2/v1/guard",
    ]


@pytest.mark.parametrize(("answers", "times"), [((503, 202), 2), ((503, 503, 503, 202), 3)])
def test_epilog_looks_for_the_scheduler_that_leads(host, answers, times):
    host.curl(*answers)
    host.settings()
    host.run("epilog-slurmctld.sh")
    assert len(host.asked()) == times


@pytest.mark.parametrize("answer", [202, 401, 500])
def test_epilog_says_once_which_job_has_ended(host, answer):
    host.curl(answer)
    host.settings()
    host.run("epilog-slurmctld.sh")
    (asked,) = host.asked()
    assert asked.endswith("http://127.0.0.1:1/v1/hints")
    assert "job=4711" in asked
    assert "event=ended" in asked


def test_example_settings_are_those_that_the_hooks_know(host):
    named = [
        line.partition("=")[0]
        for line in (HOOKS / "slurm-pod-scheduler-hooks.conf").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    common = (HOOKS / "hooks.sh").read_text()
    assert sorted(named) == sorted(
        it.partition("=")[0]
        for it in next(line for line in common.splitlines() if line.startswith("URL=")).split()
    )


@pytest.mark.parametrize("script", SCRIPTS)
def test_settings_that_end_the_shell_are_said(host, script):
    host.curl(200)
    host.conf.write_text("URL='http://127.0.0.1:1\n")
    host.run(script)
    assert f"{host.conf} cannot be used" in host.said()


@pytest.mark.parametrize("script", SCRIPTS)
def test_settings_without_a_scheduler_are_said(host, script):
    host.curl(200)
    host.conf.write_text("URI=http://127.0.0.1:1\n")
    host.run(script)
    assert "URL is empty" in host.said()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("WAIT_SECONDS", "5m"),
        ("WAIT_SECONDS", ""),
        ("WAIT_SECONDS", "0300"),
        ("UNREACHABLE_SECONDS", "30s"),
        ("UNREACHABLE_SECONDS", "0"),
        ("UNREACHABLE_SECONDS", "-1"),
        ("POLICY", "Drain"),
    ],
)
def test_wrong_setting_is_said_and_the_guard_asks_all_the_same(host, setting, value):
    host.curl(200)
    host.settings(**{setting: value})
    host.run("prolog-slurmctld.sh")
    assert f"{setting} is '{value}'" in host.said()
    assert len(host.asked()) == 1


def test_missing_scontrol_is_said_before_it_is_needed(host):
    host.curl(200)
    (host.programs / "scontrol").unlink()
    host.settings(POLICY="drain")
    host.run("prolog-slurmctld.sh")
    assert "scontrol is not there" in host.said()
    assert len(host.asked()) == 1


def test_several_schedulers_together_hold_a_job_no_longer_than_one(host):
    """slurmctld kills a hook that takes longer than PrologEpilogTimeout, and the job with it."""
    host.curl(*[409] * 99)
    host.settings(URL="http://127.0.0.1:1 http://127.0.0.1:2", WAIT_SECONDS=2)
    host.run("prolog-slurmctld.sh")
    assert {it.rsplit(maxsplit=1)[-1] for it in host.asked()} == {"http://127.0.0.1:1/v1/guard"}
    assert host.said().count("after 2 s") == 1


def test_answer_that_comes_at_once_is_asked_for_once_a_second(host):
    """The hooks API itself waits for as long as it was asked to; another program may not."""
    host.curl(*[409] * 999)
    host.settings(WAIT_SECONDS=3)
    host.run("prolog-slurmctld.sh")
    assert len(host.asked()) <= 4


def test_scheduler_with_too_many_questions_has_answered(host):
    """Otherwise a crowd of others would end the guard, and drain the nodes."""
    host.curl(429, 429, 429, 429, 200)
    host.settings(UNREACHABLE_SECONDS=2, POLICY="drain")
    host.run("prolog-slurmctld.sh")
    assert len(host.asked()) == 5
    assert not host.said()
    assert not host.asked("scontrol")


def test_pause_after_an_answer_is_no_silence_of_the_scheduler(host):
    """A busy host wakes the hook late. Whole seconds alone made one second look like two."""
    host.curl(429, 429, 200)
    host.settings(UNREACHABLE_SECONDS=2, POLICY="drain")
    host.slow("sleep", seconds=2)
    host.run("prolog-slurmctld.sh")
    assert len(host.asked()) == 3
    assert not host.asked("scontrol")


def test_schedulers_absence_costs_the_host_few_processes(host):
    host.curl(*[503] * 99)
    host.settings(UNREACHABLE_SECONDS=12)
    host.run("prolog-slurmctld.sh")
    assert len(host.asked()) <= 6


@pytest.mark.parametrize("script", SCRIPTS)
def test_curl_reads_no_file_of_slurmuser(host, script):
    """A home folder on a file server that hangs would hold each job for ever."""
    host.curl(200)
    host.settings()
    host.run(script)
    assert all(it.startswith("--disable ") for it in host.asked())


def test_endless_answer_is_no_answer(host):
    """What answers may be another program. A shell takes minutes for a text of a megabyte."""
    host.settings(UNREACHABLE_SECONDS=1, POLICY="drain")
    host._program("curl", "#!/bin/sh\nexec tr '\\0' x </dev/zero\n")
    host.run("prolog-slurmctld.sh")
    assert "no answer of http://127.0.0.1:1 for 1 s" in host.said()
    (drained,) = host.asked("scontrol")
    assert len(drained) < 1000
