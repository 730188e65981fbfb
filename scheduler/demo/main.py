"""`slurm-pod-scheduler demo`: starts two clusters and the scheduler, plays a story, stops all.

The scheduler is the real one, in a process of its own with its own command line; only the two
clusters are models.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

from scheduler.config.settings import ENV_PREFIX
from scheduler.demo import story
from scheduler.demo.narrator import Narrator
from scheduler.demo.stage import DemoError, Stage
from scheduler.kube.errors import KubeError
from scheduler.kube.session import KubeSession
from scheduler.observe import logs
from scheduler.sandbox.cluster import Sandbox
from scheduler.sandbox.main import command as sandbox_command
from scheduler.sandbox.main import set_by_signals
from slurmapi import FileToken, SlurmClient, SlurmError, StaticToken

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.1
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_PAGE: Final = re.compile(rb'"face": ?"page", ?"port": ?(\d+)')
_LOG_LINES: Final = 15

_LEGEND: Final = """\
Only the two clusters are models; the scheduler is the real one, in a process of its own.
Lines with "pod" are what `kubectl get pods -w` would show, lines with "slurm" what squeue would.
Slurm is asked ten times a second, so its lines can come a little late."""
_NEXT: Final = """\
Next: `{command} sandbox` runs such a Kubernetes and such a Slurm for your
own kubectl, and for the commands `queue`, `explain` and `partitions` (docs/quick-start.md);
README.md says how to run the scheduler on real clusters."""


class InterruptedDemoError(Exception):
    """A signal interrupted the demo."""


async def run() -> int:
    """Play the demo; return the exit status: 0, 1 if a step failed, 130 after a signal."""
    logs.set_up("error", "console")
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    narrator = Narrator(sys.stdout, now=lambda: datetime.now().astimezone(), colour=colour)
    began = monotonic()
    status = 0
    try:
        async with _running_beside(_interrupted(set_by_signals())):
            await _with_clusters(narrator)
    except* InterruptedDemoError:
        status = 130
    except* (DemoError, KubeError, SlurmError, OSError) as errors:
        status = 1
        for error in _flat(errors):
            sys.stderr.write(f"slurm-pod-scheduler demo: {error}\n")
    if status == 0:
        then = _NEXT.format(command=sandbox_command())
        narrator.note(f"\nAll of it came true, in {monotonic() - began:.0f} s.\n{then}")
    return status


async def _with_clusters(narrator: Narrator) -> None:
    shape = story.SHAPE
    gpus = f"{shape.nodes} nodes with {shape.gpus_per_node} GPUs each"
    narrator.heading(f"An embedded Kubernetes and Slurm start, and the scheduler: {gpus}")
    narrator.note(_LEGEND)
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(Sandbox(shape))
        log = sandbox.folder / "scheduler.log"
        stack.enter_context(_log_shown_on_failure(log))
        scheduler = await stack.enter_async_context(_scheduler(sandbox, log))
        narrator.note(f"Watch it in a browser, while it lasts: {await _page_url(log)}")
        kube = await KubeSession.open(sandbox.kubeconfig, user_agent="slurm-pod-scheduler-demo")
        await stack.enter_async_context(kube)
        root = SlurmClient(sandbox.slurm_url, token=FileToken(sandbox.slurm_token_file))
        alice = SlurmClient(sandbox.slurm_url, token=StaticToken(sandbox.slurm_token("alice")))
        stage = Stage(kube, await stack.enter_async_context(root), narrator)
        await stack.enter_async_context(alice)
        beside = (stage.watch_pods(), stage.watch_jobs(), sandbox.wait())
        async with _running_beside(*beside, _ends_early(scheduler)):
            await story.play(stage, alice)


@asynccontextmanager
async def _running_beside(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run the parts as tasks until the block ends; an error in one of them ends the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        yield
        for task in tasks:
            task.cancel()


def _end_with_parent(libc: ctypes.CDLL) -> None:
    """Called in a new process: it gets SIGTERM when the demo ends, which may have been killed."""
    if sys.platform == "linux":
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@asynccontextmanager
async def _scheduler(sandbox: Sandbox, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the scheduler, with its output in `log`, and stop it when the block ends.

    Raises DemoError if its exit status is then not 0.
    """
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "run"),
            f"--kubeconfig={sandbox.kubeconfig}",
            f"--scheduler-name={story.SCHEDULER_NAME}",
            f"--slurm-api-base={sandbox.slurm_url}",
            f"--slurm-auth-token-file={sandbox.slurm_token_file}",
            f"--placeholder-mode={sandbox.placeholder_mode}",
            *("--health-probe-bind-address=0", "--metrics-bind-address=0"),
            *("--page-bind-address=127.0.0.1:0", "--page-access=open"),
            *("--hooks-api-bind-address=0", "--log-format=json"),
            env={name: value for name, value in os.environ.items() if not _sets(name)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            preexec_fn=partial(_end_with_parent, ctypes.CDLL(None)),
            start_new_session=True,  # Ctrl-C signals only the demo, which then stops it
        )
    finally:
        os.close(descriptor)
    try:
        yield process
    finally:
        status = await _stop(process)
    if status:
        raise DemoError(f"the scheduler ended with status {status} when asked to stop")


async def _page_url(log: Path) -> str:
    """Where the scheduler serves the live page, as its log says. Raises DemoError."""
    try:
        async with asyncio.timeout(_START_SECONDS):
            while True:
                found = _PAGE.search(await asyncio.to_thread(log.read_bytes))
                if found is not None:
                    return f"http://127.0.0.1:{int(found[1])}/"
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        raise DemoError("the scheduler serves no page") from None


def _sets(name: str) -> bool:
    """Whether an environment variable configures a scheduler.

    The demo's scheduler must not take settings that are meant for the user's own scheduler.
    """
    return name.startswith(ENV_PREFIX)


async def _stop(process: asyncio.subprocess.Process) -> int:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()


async def _ends_early(process: asyncio.subprocess.Process) -> None:
    status = await process.wait()
    raise DemoError(f"the scheduler ended by itself, with status {status}")


async def _interrupted(asked: asyncio.Event) -> None:
    await asked.wait()
    raise InterruptedDemoError


@contextmanager
def _log_shown_on_failure(log: Path) -> Iterator[None]:
    """Write the last lines of the log to stderr when the block raises DemoError.

    The log is one of the sandbox's files, so it must be shown before they are removed.
    """
    try:
        yield
    except* DemoError:
        lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        sys.stderr.write("\n".join(("The scheduler's log ends with:", *lines, "")))
        raise


def _flat(errors: BaseExceptionGroup[Exception]) -> Iterator[BaseException]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error
