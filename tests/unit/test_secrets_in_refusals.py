"""No secret stands in what a process says that does not start, wherever the secret was put."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.__main__ import main

_JWT: Final = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjF9.cGxhbnRlZC1zaWduYXR1cmU"
_PASSWORD: Final = "planted-p4ssw0rd"
_PLANTED: Final = (_JWT, _JWT.rpartition(".")[2], _PASSWORD)
_NOWHERE: Final = "--kubeconfig=/nowhere/kubeconfig"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SLURM_POD_SCHEDULER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KUBECONFIG", "")


def _assert_hidden(said: str) -> None:
    assert said.strip()
    assert [it for it in _PLANTED if it in said] == [], said


def _refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    try:
        status: object = main([*words, _NOWHERE])
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr()
    assert status == 2
    _assert_hidden(said.out + said.err)
    return said.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (f"slurm-auth-token: {_JWT}\n  wrong: indent\n", "line 2: mapping values are not allowed"),
        (f"slurm-auth-token: '{_JWT}\n", "line 2: found unexpected end of stream"),
        (f"scheduler-name: x\n{_JWT}\n", "line 3: could not find expected ':'"),
        (f"slurm-auth-token: x\nslurm-auth-token: {_JWT}\n", "line 2: 'slurm-auth-token' is given"),
        (f"? {_JWT}\n: 1\n? {_JWT}\n: 2\n", "line 3: '***' is given twice, first in line 1"),
        (f"slurm-auth-token: &{_JWT} *{_PASSWORD}\n", "line 1: "),
        (f"slurm-auth-token: *{_PASSWORD}\n", "line 1: aliases (*name) are not supported"),
        (f"slurm-auth-token: !{_PASSWORD} x\n", "line 1: could not determine a constructor"),
        (f"{_JWT}: 1\n", "there is no such setting"),
        (f"{_JWT}\n", "expected keys and values"),
        (f"slurm-auth-token: [{_JWT}]\n", "slurm-auth-token: "),
        (f"slurm-auth-token: {_JWT} {_JWT}\n", "slurm-auth-token: the given token is no token"),
        (f"slurm-kill-wait: {_JWT}\n", "slurm-kill-wait: '***': expected a duration"),
        (f"slurm-api-base: http://u:{_PASSWORD}@h:1\n", "slurm-api-base: 'http://***@h:1'"),
        (f"slurm-auth-token: {_JWT}\x00\n", "not YAML"),
    ],
)
def test_config_file(
    content: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(content, encoding="utf-8")
    assert told in _refused([f"--config={path}"], capsys)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([f"--slurm-api-base=http://u:{_PASSWORD}@h:6820"], "'http://***@h:6820'"),
        ([f"--slurm-api-base=http://h:6820?token={_PASSWORD}"], "'http://h:6820?***"),
        ([f"--slurm-api-base=u:{_PASSWORD}@h:6820"], "'***@h:6820'"),
        ([f"--hooks-api-url=https://u:{_PASSWORD}@h"], "'https://***@h'"),
        ([f"--slurm-auth-token={_PASSWORD} {_PASSWORD}"], "is no token"),
        ([f"--slurm-auth-tokn={_PASSWORD}"], "there is no --slurm-auth-tokn; did you mean"),
        (["--slurm-auth-tokn", _PASSWORD], "there is no --slurm-auth-tokn; did you mean"),
        ([f"--slurm-kill-wait={_JWT}"], "'***': expected a duration"),
    ],
)
def test_command_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told in _refused(["run", *words], capsys)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURM_API_BASE", f"http://u:{_PASSWORD}@h:6820"),
        ("SLURM_AUTH_TOKEN", f"{_PASSWORD} x"),
        ("SLURM_AUTH_TOKN", _PASSWORD),
    ],
)
def test_environment(
    name: str, value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"SLURM_POD_SCHEDULER_{name}", value)
    assert f"SLURM_POD_SCHEDULER_{name}" in _refused(["run"], capsys)


def _as_process(*words: str) -> str:
    """All it says. For what sets up the log: that lasts as long as its process."""
    command = (sys.executable, "-m", "scheduler", *words)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert ended.returncode
    return ended.stdout + ended.stderr


def _kubeconfig(**user: Any) -> str:
    return json.dumps(
        {
            "clusters": [{"name": "c", "cluster": {"server": f"http://u:{_PASSWORD}@h:bad"}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


@pytest.mark.parametrize(
    "content",
    [
        f"users:\n- name: u\n  user:\n    token: {_JWT}\n   wrong: indent\n",
        f"users: '{_JWT}\n",
        f"{_JWT}\n",
        _kubeconfig(token=_JWT),
        _kubeconfig(exec={"apiVersion": "v1", "command": "/nowhere/plugin", "args": [_JWT]}),
        _kubeconfig(**{"client-key-data": _PASSWORD, "client-certificate-data": _PASSWORD}),
    ],
    ids=["indent", "quote", "no mapping", "address", "plugin", "certificate"],
)
def test_kubeconfig(content: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content, encoding="utf-8")
    said = _as_process(f"--kubeconfig={path}", "--cluster-id=x")
    _assert_hidden(said)
    assert "Traceback" not in said


def test_secret_of_the_hooks(tmp_path: Path) -> None:
    short = _PASSWORD[:12]
    path = tmp_path / "secret"
    path.write_text(f"{short}\n", encoding="utf-8")
    config = tmp_path / "kubeconfig"
    content = _kubeconfig().replace(f"u:{_PASSWORD}@h:bad", "127.0.0.1:9")
    config.write_text(content, encoding="utf-8")
    said = _as_process(
        f"--kubeconfig={config}",
        f"--hooks-api-token-file={path}",
        *("--cluster-id=x", "--health-probe-bind-address=0", "--metrics-bind-address=0"),
    )
    assert short not in said
    assert str(path) in said
