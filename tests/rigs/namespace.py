"""A process tree with its own mounts, pids and host name, which cannot outlive the test session.

An anchor process holds the namespaces and reads from a pipe of ours. When the pipe closes, by
`close()` or because this process died, the anchor ends. It is the first process of the pid
namespace, so the kernel then kills all others in it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.rigs.process import answered

# `cat` in the background and `wait` in front, because the first process has to reap orphans.
_ANCHOR: Final = r"""
set -e
root=$1 run=$2 memory=$3
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$run" "$root/rig"
mount --bind "$run/etc" "$root/etc/slurm"
if [ -n "$memory" ]; then
    mkdir -p "$root/run/cgroup/memory"
    mount --bind "$memory" "$root/run/cgroup/memory"
fi
echo rig > /proc/sys/kernel/hostname
mkdir "$root/run/fakegpu"
for index in 0 1 2 3 4 5 6 7; do mknod "$root/run/fakegpu/g$index" c 1 3; done
echo ready
exec 3<&0
cat <&3 > /dev/null &
wait
"""
_READY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.01


class Namespace:
    """The namespaces of one rig, with `root` mounted read-only and `run` as /rig in it; `memory` is
    a cgroup that it sees as the top of its own in /run/cgroup.
    """

    def __init__(self, root: Path, run: Path, *, memory: Path | None = None) -> None:
        self._root = root
        self._anchor = subprocess.Popen(
            ("unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child",
             "--propagation", "private", "sh", "-c", _ANCHOR, "anchor", str(root), str(run),
             str(memory or "")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert self._anchor.stdout is not None
        if self._anchor.stdout.readline() != "ready\n":
            self.close()
            raise RuntimeError(f"no namespaces for {root}: unshare or mount failed, see stderr")
        self._first = _only_child(self._anchor)

    def entry(self, *command: str, user: str | None = None) -> tuple[str, ...]:
        """The command line that runs `command` in the chroot, as `user` ("name:group") or root."""
        userspec = (f"--userspec={user}",) if user else ()
        enter = ("nsenter", f"--target={self._first}", "--mount", "--pid", "--uts", "--")
        return (*enter, "chroot", *userspec, str(self._root), *command)

    def run(
        self,
        command: Sequence[str],
        *,
        log: Path,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Daemon:
        """Start `command` in the chroot, as `user` ("name:group") or as root."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.entry(*command, user=user),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # What it logs is read for its times.
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TZ": "UTC"}
                | dict(environment or {}),
            )
        return Daemon(process, log=log)

    def call(self, command: Sequence[str], *, seconds: float = 60.0) -> str:
        """Run `command` in the chroot as root; returns its output. RuntimeError if it fails."""
        done = subprocess.run(
            self.entry(*command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            # squeue cuts names at the end of a column, even within a character.
            errors="replace",
            timeout=seconds,
            check=False,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def close(self) -> None:
        """End every process in the namespaces and wait until they are gone."""
        assert self._anchor.stdin is not None
        self._anchor.stdin.close()
        try:
            self._anchor.wait(5)
        except subprocess.TimeoutExpired:
            self._anchor.kill()
            self._anchor.wait(5)
        if self._anchor.stdout is not None:
            self._anchor.stdout.close()


class Daemon:
    """One server in a namespace; what we started is nsenter, the server is its only child."""

    def __init__(self, process: subprocess.Popen[bytes], *, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """The server's pid as seen from outside."""
        return _only_child(self._process)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self, *, kill: bool, seconds: float = 60.0) -> None:
        """End it with SIGTERM or SIGKILL and wait until it is gone: one that is not killed first
        does what it has begun, and writes its state. One that hangs then is killed after `seconds`:
        a slurmctld with accounting did so once, while the machine was crowded.
        """
        if self._process.poll() is None:
            with suppress(ProcessLookupError):  # it may have ended by itself just now
                os.kill(self.pid, signal.SIGKILL if kill else signal.SIGTERM)
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                self._process.wait(seconds)

    def freeze(self) -> None:
        """Let it hang until it is stopped; nsenter, which waits for it, hangs too."""
        os.kill(self.pid, signal.SIGSTOP)

    def wait_until(self, ready: Callable[[], bool], *, what: str, seconds: float = 120.0) -> None:
        """Poll `ready`, for which OSError counts as no. RuntimeError with the end of the log if the
        server ends early, or after `seconds`.
        """
        until = time.monotonic() + seconds
        while not answered(ready):
            status = self._process.poll()
            if status is not None:
                raise RuntimeError(f"{what}: ended with status {status}\n{self.tail()}")
            if time.monotonic() > until:
                raise RuntimeError(f"{what}: not ready after {seconds} s\n{self.tail()}")
            time.sleep(_POLL_SECONDS)

    def tail(self) -> str:
        """The end of its log."""
        return self._log.read_text(errors="replace")[-2000:]


def _only_child(parent: subprocess.Popen[Any]) -> int:
    """Raises ProcessLookupError where the parent has ended: until it is waited for it is still
    there, and has no child.
    """
    path = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    until = time.monotonic() + _READY_SECONDS
    while parent.poll() is None:
        if children := path.read_text().split():
            return int(children[0])
        if time.monotonic() > until:
            raise RuntimeError(f"process {parent.pid} has no child after {_READY_SECONDS} s")
        time.sleep(_POLL_SECONDS)
    raise ProcessLookupError(f"process {parent.pid} has ended with status {parent.returncode}")
