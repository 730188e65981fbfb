"""`slurm-pod-scheduler migrate` as people call it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scheduler.__main__ import main
from scheduler.migrate.documents import MOST_FILE_BYTES
from tests.unit.migrate.manifests import SUNK, bridge_job, sunk_pod

ROOT = Path(__file__).parents[3]
UNCHANGED = yaml.safe_dump(sunk_pod(account="physics"))
TO_CHANGE = yaml.safe_dump(bridge_job(account="physics"))
TO_DECIDE = yaml.safe_dump(sunk_pod(colour="red"))


def call(*words: str | Path, capfdbinary: pytest.CaptureFixture[bytes]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = main(["migrate", *map(str, words)])
    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    return status, out.decode(), err.decode()


def test_manifests_of_sunk_need_no_change(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    found = call(ROOT / "deploy/examples/sunk", capfdbinary=capfdbinary)
    assert found == (0, "", "nothing to change\n")


def test_diff_is_printed_and_the_file_stays(tmp_path: Path, capfdbinary) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TO_CHANGE)
    status, out, err = call(path, capfdbinary=capfdbinary)
    assert status == 1
    assert out.startswith(f"--- {path}\n+++ {path}\n@@ ")
    assert f"\n+        {SUNK}account: physics\n" in out
    assert err == "files: 1; to change: 1; to decide: 0\n"
    assert path.read_text() == TO_CHANGE


def test_file_is_written_once_and_then_there_is_nothing_left(tmp_path: Path, capfdbinary) -> None:
    path, link = tmp_path / "job.yaml", tmp_path / "link.yaml"
    path.write_text(TO_CHANGE)
    path.chmod(0o640)
    link.symlink_to(path)
    status, out, err = call("--write", link, capfdbinary=capfdbinary)
    assert (status, out) == (1, "")
    assert err == f"{link}: changed\nfiles: 1; changed: 1; to decide: 0\n"
    assert (link.is_symlink(), path.stat().st_mode & 0o777) == (True, 0o640)
    assert sorted(tmp_path.iterdir()) == [path, link]
    assert call("--write", path, capfdbinary=capfdbinary)[0] == 0


def test_note_names_file_line_object_field_value_and_remedy(tmp_path: Path, capfdbinary) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(TO_DECIDE)
    status, out, err = call(path, capfdbinary=capfdbinary)
    line = 1 + TO_DECIDE.splitlines().index("metadata:")
    assert (status, out) == (1, "")
    assert f"Pod/p: {SUNK}colour is 'red'; expected a known annotation" in err
    assert err.startswith(f"{path}:")
    assert line


def test_bytes_of_a_file_that_is_none_of_ours_stay(monkeypatch, capfdbinary) -> None:
    latin = "name: caf\xe9\n".encode("latin-1")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(latin)))
    assert main(["migrate", "--write", "-"]) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == latin


def test_standard_input_is_read_and_written_to_standard_output(monkeypatch, capfdbinary) -> None:
    def given() -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TO_CHANGE.encode())))

    given()
    assert call("-", capfdbinary=capfdbinary)[1].startswith("--- -\n")
    given()
    status, out, _ = call("--write", "-", capfdbinary=capfdbinary)
    assert status == 1
    assert yaml.safe_load(out)["spec"]["template"]["metadata"]["annotations"]


def test_folder_stands_for_its_manifests(tmp_path: Path, capfdbinary) -> None:
    (tmp_path / "a/.git").mkdir(parents=True)
    for name in ("a/x.yaml", "a/y.yml", "z.json", "a/.git/no.yaml", "a/no.txt"):
        (tmp_path / name).write_text(TO_CHANGE)
    status, out, err = call(tmp_path, capfdbinary=capfdbinary)
    assert status == 1
    assert out.count("--- ") == 3
    assert "no." not in out
    assert "to change: 3" in err


def test_error_in_one_file_leaves_the_others(tmp_path: Path, capfdbinary) -> None:
    good, bad, large = tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "c.yaml"
    good.write_text(TO_CHANGE)
    bad.write_text("slurm: [")
    large.write_bytes(b"slurm" + b" " * MOST_FILE_BYTES)
    status, out, err = call(bad, large, tmp_path / "none", good, capfdbinary=capfdbinary)
    assert status == 2
    assert out.startswith(f"--- {good}")
    assert f"{bad}, line 1: " in err
    assert f"{large}: larger than 2 MiB" in err
    assert "none: No such file or directory" in err


def test_file_that_was_not_read_to_its_end_is_not_called_unchanged(
    tmp_path: Path, capfdbinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, wide = tmp_path / "large.yaml", tmp_path / "wide.yaml"
    large.write_bytes(b"#" * MOST_FILE_BYTES + b"\n---\n" + TO_CHANGE.encode())
    wide.write_bytes(TO_CHANGE.encode("utf-16"))
    status, out, err = call(large, wide, capfdbinary=capfdbinary)
    assert (status, out) == (2, "")
    assert f"{large}: larger than 2 MiB" in err
    assert f"{wide}: expected text in UTF-8" in err
    with large.open() as given:
        monkeypatch.setattr(sys, "stdin", given)
        assert call("--write", "-", capfdbinary=capfdbinary)[:2] == (2, "")


@pytest.mark.parametrize(
    ("redirected", "told"),
    [(">&-", "standard output is closed"), (">/dev/full", "the output cannot be written")],
)
def test_output_that_cannot_be_written_is_told(tmp_path: Path, redirected: str, told: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TO_CHANGE)
    line = f'exec "$0" -m scheduler migrate "$1" {redirected}'
    words = ("sh", "-c", line, sys.executable, str(path))
    done = subprocess.run(words, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"slurm-pod-scheduler migrate: {told}")
    assert done.stderr.count("\n") == 1


def test_closed_stderr_does_not_change_the_status(tmp_path: Path) -> None:
    words = ("sh", "-c", 'exec "$0" -m scheduler migrate "$1" 2>&-', sys.executable)
    done = subprocess.run((*words, str(tmp_path / "none")), cwd=ROOT, check=False)
    assert done.returncode == 2


def test_flags_are_those_of_the_site(tmp_path: Path, capfdbinary) -> None:
    path = tmp_path / "pod.yaml"
    pod = sunk_pod()
    pod["spec"] |= {"terminationGracePeriodSeconds": 50, "schedulerName": "batch"}
    path.write_text(yaml.safe_dump(pod))
    assert call(path, capfdbinary=capfdbinary)[0] == 0
    old = "--old-scheduler-name=batch"
    out = call(old, "--slurm-kill-wait=40s", path, capfdbinary=capfdbinary)[1]
    assert "+  terminationGracePeriodSeconds: 34\n" in out
    assert call(old, "--grace-policy=guarded", path, capfdbinary=capfdbinary)[0] == 0
    out = call(old, "--scheduler-name=new", path, capfdbinary=capfdbinary)[1]
    assert "+  schedulerName: new\n" in out


def test_wrong_flag_is_named(capfdbinary) -> None:
    status, out, err = call("--slurm-kill-wait=soon", "x", capfdbinary=capfdbinary)
    assert (status, out) == (2, "")
    assert err.startswith("--slurm-kill-wait: 'soon': expected a duration")


def test_settings_of_the_service_do_not_matter(monkeypatch, tmp_path: Path, capfdbinary) -> None:
    monkeypatch.setenv("SLURM_POD_SCHEDULER_WORKERS", "none")
    path = tmp_path / "pod.yaml"
    path.write_text(UNCHANGED)
    assert call(path, capfdbinary=capfdbinary)[0] == 0


def test_name_of_a_file_moves_no_cursor(tmp_path: Path, capfdbinary) -> None:
    path = tmp_path / "\x1b[2J.yaml"
    path.write_text("slurm: [")
    assert "\x1b" not in call(path, capfdbinary=capfdbinary)[2]


def test_reader_that_leaves_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(TO_CHANGE)
    reading, writing = os.pipe()
    os.close(reading)
    command = (sys.executable, "-m", "scheduler", "migrate", str(tmp_path))
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=ROOT, check=False)
    os.close(writing)
    assert b"Traceback" not in ended.stderr
    assert b"Error" not in ended.stderr
    assert ended.returncode == 1
