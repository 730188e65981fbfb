"""Slurm's image of deploy/kind, built from its Dockerfile, and a container of it on this machine.

Debian's buildah builds it on a base of Debian packages. The container has its own network, pids,
host name and root, and the capabilities that Docker gives.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Self

from tests.rigs.debian import bootstrap, need_program
from tests.rigs.image import storage
from tests.rigs.prerequisites import (
    announced,
    cache_directory,
    locked,
    need_root,
    recipe_key,
    run,
)
from tests.rigs.process import Daemon
from tests.rigs.slurm_build import SUITES

_CONTEXT: Final = Path(__file__).parents[2] / "deploy"
_BUILD: Final = Path(__file__).with_name("kind_slurm.sh")
# Enough for a few checkouts that are tested on one machine.
_KEPT: Final = 3
# As in the official images: no service is started when its package is installed.
_CUSTOMIZE: Final = (
    'printf "#!/bin/sh\\nexit 101\\n" > "$1/usr/sbin/policy-rc.d"',
    'chmod 755 "$1/usr/sbin/policy-rc.d"',
)
# The lower layer is the image, so that no run changes it.
_CONTAINER: Final = r"""
set -e
folder=$1
mount -t overlay overlay "$folder/root" \
    -o "lowerdir=$2,upperdir=$folder/upper,workdir=$folder/work"
cd "$folder/root"
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind -o ro /sys sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
echo slurm > /proc/sys/kernel/hostname
printf '127.0.0.1 localhost\n172.18.0.5 slurm\n' > etc/hosts
ip link set lo up
# slurmctld listens nowhere where there are addresses of loopback alone (AI_ADDRCONFIG).
ip address add 172.18.0.5/32 dev lo
exec setpriv --bounding-set "$3" chroot . /usr/local/bin/slurm.sh
"""
# Docker's default (moby, oci/caps/defaults.go).
_CAPABILITIES: Final = (
    "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap,+setpcap,"
    "+net_bind_service,+sys_chroot,+kill,+audit_write"
)


def ensure(release: str) -> Path:
    """The image's files, built now if they are not in the cache: half a minute and 400 MB.

    Raises PrerequisiteError.
    """
    need_root()
    need_program("buildah")
    parts = (_CONTEXT / "kind/slurm.Dockerfile", _BUILD, *sorted((_CONTEXT / "slurm").glob("*.sh")))
    parts += (_CONTEXT / f"kind/slurm-{release}.conf", _CONTEXT / "kind/slurm.sh")
    digests = (hashlib.sha256(it.read_bytes()).hexdigest() for it in parts)
    files = cache_directory() / f"kind-slurm-{release}-{recipe_key(*digests)}"
    with locked(cache_directory() / f"kind-slurm-{release}"):
        if not files.is_dir():
            with announced(f"building the image of Slurm {release} for kind"):
                _build(release, files)
            _forget_old(release)
    os.utime(files)
    return files


def _build(release: str, files: Path) -> None:
    partial = files.with_name(f"{files.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    base = _base(SUITES[release])
    with storage() as environment:
        run(
            ("unshare", "--mount", "--propagation", "private", "sh", str(_BUILD), str(base),
             str(_CONTEXT), release, str(partial)),
            environment=environment,
        )  # fmt: skip
    partial.rename(files)


def _base(suite: str) -> Path:
    root = cache_directory() / f"kind-base-{suite}-{recipe_key(suite, *_CUSTOMIZE)}"
    with locked(root):
        if not root.is_dir():
            bootstrap(root, suite, ("bash",), variant="minbase", hooks=_CUSTOMIZE)
    return root


def _forget_old(release: str) -> None:
    found = cache_directory().glob(f"kind-slurm-{release}-*")
    for old in sorted(found, key=lambda it: it.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(old)


class SlurmContainer:
    """A container of the image at `files`; a context manager that starts and ends it."""

    def __init__(self, files: Path) -> None:
        self._files = files
        self._folder = Path(tempfile.mkdtemp(prefix="kind-slurm-"))
        self._daemon: Daemon | None = None

    def __enter__(self) -> Self:
        self._folder.chmod(0o755)
        for name in ("root", "upper", "work"):
            (self._folder / name).mkdir()
        self._daemon = Daemon(
            ("unshare", "--mount", "--pid", "--uts", "--net", "--ipc", "--fork", "--kill-child",
             "--propagation", "private", "sh", "-c", _CONTAINER, "container", str(self._folder),
             str(self._files), _CAPABILITIES),
            log=self._folder / "log",
        )  # fmt: skip
        self._daemon.wait_until(lambda: bool(self._children()), what="a container's namespaces")
        return self

    def __exit__(self, *_: object) -> None:
        if self._daemon is not None:
            self._daemon.stop(kill=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def log(self) -> str:
        """What `docker logs` would show."""
        return (self._folder / "log").read_text(errors="replace")

    def wait_until(self, *command: str, says: str) -> None:
        """Wait until a command succeeds and prints that; RuntimeError with the log otherwise."""
        assert self._daemon is not None
        self._daemon.wait_until(
            lambda: self.call(*command) == (0, says), what=" ".join(command), every_seconds=0.2
        )

    def call(self, *command: str, stdin: str = "") -> tuple[int, str]:
        """As `docker exec`: the exit status, or 125 if the container has ended, and the output
        without its last newline.
        """
        first = self._children()
        if not first:
            return 125, ""
        entry = ("nsenter", f"--target={first[0]}", "--mount", "--pid", "--uts", "--net")
        done = subprocess.run(
            (*entry, "--", "chroot", str(self._folder / "root"), *command),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        return done.returncode, done.stdout.rstrip("\n")

    def end(self) -> None:
        """As `docker stop`; returns when all of it has ended."""
        assert self._daemon is not None
        self.call("bash", "-c", "kill -TERM 1")
        self._daemon.wait_ended()

    def _children(self) -> list[str]:
        """The pid of the first process in it, as seen from outside."""
        assert self._daemon is not None
        pid = self._daemon.pid
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
