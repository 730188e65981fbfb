"""The quick start's sandbox, with the commands of the page and the sandbox's own of Slurm."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support.kube import Kube, Object
from tests.support.ports import free_ports

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
EXAMPLE: Final = (ROOT / "deploy/examples/quick-start.yaml").read_text(encoding="utf-8")
SECTION: Final = PAGE.partition("## Play with it")[2].partition("\n## ")[0]
BLOCKS: Final = re.findall(r"^ *```\n(.*?)^ *```$", SECTION, re.MULTILINE | re.DOTALL)
LINES: Final = [
    " ".join(it.split()) for block in BLOCKS for it in block.replace("\\\n", " ").splitlines()
]
OURS: Final = ("sinfo", "squeue", "scancel", "sbatch")
NOWHERE: Final = " ".join(
    f"--{it}-bind-address=0" for it in ("health-probe", "metrics", "hooks-api")
)
# Only what hangs takes so long.
SECONDS: Final = 240.0

# Each command is a start of Python, which took two minutes on a very crowded machine.
pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(1200)]


def line(beginning: str) -> str:
    """The only line of the page that is or begins so."""
    if beginning in LINES:
        return beginning
    (found,) = (it for it in LINES if it.startswith(beginning))
    return found


class Terminal:
    """Where the page's commands are typed: its folder, and the environment that the page sets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The page sets PATH from $PWD; the packages of this checkout are in another folder.
        program = folder / ".venv/bin/slurm-pod-scheduler"
        program.parent.mkdir(parents=True)
        program.write_text(
            f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} "
            f'exec {shlex.quote(sys.executable)} -m scheduler "$@"\n'
        )
        program.chmod(0o755)
        path = f"{folder}/sandbox/bin:{program.parent}:{os.environ['PATH']}"
        self.env = os.environ | {"PATH": path, "KUBECONFIG": f"{folder}/sandbox/kubeconfig"}

    @asynccontextmanager
    async def started(self, command: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run it until the block ends."""
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command), cwd=self.folder, env=self.env, stdout=subprocess.PIPE
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()

    def manifest(self, name: str) -> Object:
        """A manifest that the sandbox has written."""
        found: Object = yaml.safe_load((self.folder / name).read_text())
        return found

    def api_server(self) -> tuple[str, str]:
        """Its address and the token."""
        url = urlsplit(self.manifest("sandbox/kubeconfig")["clusters"][0]["cluster"]["server"])
        return f"http://{url.hostname}:{url.port}", url.password or ""

    async def say(self, command: str) -> str:
        """What it prints; asserts that it succeeds."""
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", command),
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        async with asyncio.timeout(SECONDS):
            out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()
        return out.decode()

    async def until(self, command: str, holds: Callable[[str], bool]) -> str:
        """What it prints once that holds."""
        async with asyncio.timeout(SECONDS):
            while not holds(out := await self.say(command)):  # noqa: ASYNC110 - a process is asked
                await asyncio.sleep(0.5)
        return out


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """The path of pytest's own folder is too long for a unix socket (108 bytes)."""
    with TemporaryDirectory(prefix="start-") as name:
        yield Terminal(Path(name))


async def test_commands_of_the_page_do_what_it_says(terminal: Terminal) -> None:
    port, page = free_ports(2)
    sandbox = line("slurm-pod-scheduler sandbox").replace("6820", str(port))
    run = line("slurm-pod-scheduler run").replace("6820", str(port)).replace("8082", str(page))
    async with terminal.started(sandbox) as cluster:
        assert cluster.stdout is not None
        async with asyncio.timeout(SECONDS):
            printed = (await cluster.stdout.readuntil(b"Ctrl-C")).decode()
        assert f'export PATH="{terminal.folder}/sandbox/bin:$PATH"' in printed
        async with terminal.started(f"{run} {NOWHERE}"):
            await _pods_come(terminal)
            partitions = _plugin("partitions").replace("8082", str(page))
            await terminal.until(partitions, lambda it: "h100:" in it)
            await _operator_acts(terminal, port)


async def test_commands_that_the_sandbox_prints_do_what_it_says(terminal: Terminal) -> None:
    async with terminal.started("slurm-pod-scheduler sandbox --folder sandbox") as cluster:
        assert cluster.stdout is not None
        async with asyncio.timeout(SECONDS):
            printed = (await cluster.stdout.readuntil(b"Ctrl-C")).decode()
        second, third = re.split("In a third terminal.*|Once the scheduler runs", printed)[:2]
        (run,) = re.findall(r"^  (\S+ .*run(?:.*\\\n)+.*)", second, re.MULTILINE)
        async with terminal.started(f"{run} {NOWHERE}".replace("\\\n", "")):
            (apply,) = re.findall(r"^ *kubectl apply.*", third, re.MULTILINE)
            url, token = terminal.api_server()
            async with Kube(url, token=token) as kube:
                manifest = terminal.manifest(apply.split()[-1])
                await kube.create("pods", manifest, namespace="default")
            # A new terminal knows neither this checkout nor a kubeconfig.
            terminal.env["PATH"] = "/usr/bin:/bin"
            del terminal.env["KUBECONFIG"]
            typed = third.replace(apply, "").replace("kubectl slurm", "kubectl-slurm")
            said = await terminal.until(typed, lambda it: "hello  RUNNING" in it)
    assert "Pod default/hello: RUNNING" in said
    assert "h100:31/32" in said
    assert " default. " in said  # squeue


def _plugin(command: str) -> str:
    """The page's line of `kubectl slurm`. kubectl calls a program of that name in PATH, and the
    fast tests need no kubectl.
    """
    return line(f"kubectl slurm {command}").replace("kubectl slurm", "kubectl-slurm", 1)


async def _pods_come(terminal: Terminal) -> None:
    """What `kubectl apply` would create, in the order of the page."""
    url, token = terminal.api_server()
    async with Kube(url, token=token) as kube:
        await kube.create("pods", terminal.manifest("sandbox/pod.yaml"), namespace="default")
        await terminal.until(_plugin("explain"), lambda it: "(Slurm job 1)" in it)
        web = yaml.safe_load(EXAMPLE)
        await kube.create("deployments", web, namespace="default")
    await terminal.until(_plugin("queue"), lambda it: "Resources" in it)


async def _operator_acts(terminal: Terminal, port: int) -> None:
    slurm = [it for it in LINES if it.split()[0] in OURS]
    assert [it.split()[0] for it in slurm] == [
        *("sinfo", "squeue", "scancel", "squeue", "sbatch", "squeue")
    ]
    info, running, cancel, _, submit, queue = slurm
    assert "node-[00-03]" in await terminal.say(info)
    job = cancel.split()[1]
    await terminal.until(running, lambda it: job in _ids(it))
    before = _ids(await terminal.say(running))
    assert await terminal.say(cancel) == ""
    after = await terminal.until(running, lambda it: bool(set(_ids(it)) - set(before)))
    assert job not in _ids(after)
    said = await terminal.say(submit)
    assert re.fullmatch(r"Submitted batch job \d+\n", said)
    assert said.split()[-1] in _ids(await terminal.say(queue))
    both = await terminal.say(_plugin("queue --jobs").replace("6820", str(port)))
    words = [it.split() for it in both.splitlines()]
    (native,) = (it for it in words if it[0] == "wrap")
    assert native[1:3] == ["root", "PENDING"]
    assert any(it[0].startswith("web-") for it in words)


def _ids(squeue: str) -> list[str]:
    return [it.split()[0] for it in squeue.splitlines()[1:]]
