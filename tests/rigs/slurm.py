"""One real Slurm cluster on this machine: slurmctld, slurmds and slurmrestd, as processes of ours.

Ready about a second after `start_all`. Any number of rigs run side by side from one chroot.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import tempfile
from functools import partial
from pathlib import Path
from typing import Final, Self

from tests.rigs import slurm_conf
from tests.rigs.namespace import Daemon, Namespace
from tests.rigs.slurm_build import Chroot
from tests.rigs.slurm_conf import Shape
from tests.support.ports import free_ports
from tests.support.slurm_rest import SlurmRest, mint

_HOOKS: Final = Path(__file__).parents[2] / "deploy" / "slurm"
# slurmrestd refuses to run as root or as SlurmUser.
_REST_USER: Final = "nobody:nogroup"


class SlurmRig:
    """A Slurm cluster of `shape`, run from `chroot`; a context manager that starts and ends it.

    `socket` is slurmrestd's unix socket, `token_file` holds a token of root, who is an operator.
    `nodes` are those of the partition `partition` that have GPUs.
    """

    partition: Final = slurm_conf.PARTITION
    high_partition: Final = slurm_conf.HIGH_PARTITION
    grace_partition: Final = slurm_conf.GRACE_PARTITION
    gpus_per_node: Final = slurm_conf.GPUS_PER_NODE

    def __init__(self, chroot: Chroot, *, shape: Shape | None = None) -> None:
        self.major = chroot.major
        self.version = chroot.version
        self.shape = shape or slurm_conf.SHAPES[chroot.major]
        self.nodes = self.shape.schedulable
        self.script_partition = slurm_conf.PARTITION
        if not self.shape.pods_on_slurmd:
            self.script_partition = slurm_conf.SLURMD_PARTITION
        self._chroot = chroot
        self._run = Path(tempfile.mkdtemp(prefix="slurm-rig-"))
        self.socket = self._run / "rest" / "socket"
        self.token_file = self._run / "token"
        ports = free_ports(2 + len(self.shape.slurmd))
        self._controller_port, self._rest_port = ports[:2]
        self._slurmd_ports = dict(zip(self.shape.slurmd, ports[2:], strict=True))
        self._key = secrets.token_bytes(32)
        self._daemons: dict[str, Daemon] = {}
        self._namespace: Namespace | None = None

    def __enter__(self) -> Self:
        try:
            self.start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """slurmrestd over TCP."""
        return f"http://127.0.0.1:{self._rest_port}"

    @property
    def hooks_folder(self) -> Path:
        """Where the hooks' settings go; the hooks themselves see it as /etc/slurm. Without settings
        they end at once.
        """
        return self._run / "etc"

    @property
    def log_directory(self) -> Path:
        """Where the daemons write their logs."""
        return self._run / "log"

    def token(self, user: str) -> str:
        """A token of `user` ("root" is an operator, "alice" and "bob" are not), good for a day.

        Never DELETE a job of another user with an ordinary user's token: slurmctld then waits for
        a lock it holds itself, for ever (validate_operator_locked below job_mgr_signal_jobs;
        measured on 26.05.5 and 24.11.5 without slurmdbd).
        """
        return mint(self._key, user)

    def rest(self, user: str = "root") -> SlurmRest:
        """slurmrestd seen as `user`."""
        return SlurmRest(self.url, major=self.major, token=self.token(user))

    def start_all(self) -> None:
        """Write the configuration, start every daemon, and wait until nodes take jobs."""
        self._write()
        self._namespace = Namespace(self._chroot.root, self._run)
        controller = self._daemons["slurmctld"] = self._launch("slurmctld")
        # A slurmd that finds no controller tries again late: it may miss the wait for its node.
        controller.wait_until(
            partial(_listens, self._controller_port), what=f"slurmctld of {self._run}"
        )
        for name in self.shape.slurmd:
            slurmd = self._daemons[f"slurmd.{name}"] = self._launch(f"slurmd.{name}")
            # One by one: all bind /run/slurm/sack.socket, and two at once are one too many.
            slurmd.wait_until(partial(_listens, self._slurmd_ports[name]), what=f"slurmd {name}")
        self.start("slurmrestd")
        try:
            controller.wait_until(self._nodes_up, what=f"nodes of {self._run}")
        except RuntimeError as error:
            for name in self.shape.slurmd:
                error.add_note(f"{name}: {self._daemons[f'slurmd.{name}'].tail()}")
            raise

    def stop(self, component: str, *, kill: bool = False) -> None:
        """End "slurmctld", "slurmrestd" or "slurmd.NODE" with SIGTERM, or with SIGKILL."""
        self._daemons.pop(component).stop(kill=kill)

    def start(self, component: str) -> None:
        """Start a stopped component; returns when it answers."""
        daemon = self._launch(component)
        self._daemons[component] = daemon
        if "slurmrestd" in self._daemons and not component.startswith("slurmd."):
            daemon.wait_until(self.rest().responding, what=f"{component} of {self._run}")

    def has_saved(self, text: str) -> bool:
        """Whether the jobs slurmctld last wrote to disk hold that text.

        The file's time would not tell: the kernel's clock for it runs milliseconds behind.
        """
        state = self._run / "state/job_state"
        return state.exists() and text.encode() in state.read_bytes()

    def scontrol(self, *arguments: str) -> None:
        """Run scontrol as root; RuntimeError with its words where it fails."""
        assert self._namespace is not None
        self._namespace.call(("scontrol", *arguments))

    def pid(self, component: str) -> int:
        """The pid of a running component."""
        return self._daemons[component].pid

    def close(self) -> None:
        """End all processes, jobs included, and remove the files."""
        if self._namespace is not None:
            self._namespace.close()
        for daemon in self._daemons.values():
            daemon.stop(kill=True)
        self._daemons.clear()
        shutil.rmtree(self._run, ignore_errors=True)

    def _launch(self, component: str) -> Daemon:
        assert self._namespace is not None
        log = self._run / "log" / f"{component}.out"
        if component == "slurmrestd":
            return self._namespace.run(
                self._rest_command(), log=log, user=_REST_USER, environment={"SLURM_JWT": "daemon"}
            )
        program, _, node = component.partition(".")
        options = ("-N", node) if node else ()
        return self._namespace.run((program, "-D", *options), log=log)

    def _rest_command(self) -> tuple[str, ...]:
        self.socket.unlink(missing_ok=True)
        # 24.11 dies at its start when it has the slurmdbd plugin and accounting has no slurmdbd.
        plugins = ("-s", "openapi/slurmctld") if self.major == "24.11" else ()
        listen = (f"127.0.0.1:{self._rest_port}", "unix:/rig/rest/socket")
        return ("slurmrestd", "-a", "rest_auth/jwt", *plugins, *listen)

    def _nodes_up(self) -> bool:
        nodes = self.rest().request("GET", "nodes/").body.get("nodes", ())
        want = len(self.nodes) + len(self.shape.real)
        want += 0 if self.shape.pods_on_slurmd else len(self.shape.slurmd)
        return sum("IDLE" in it["state"] and _usable(it["state"]) for it in nodes) >= want

    def _write(self) -> None:
        uid, gid = self._owner("slurm")
        self._run.chmod(0o755)
        for name in ("etc", "state", "log", "rest"):
            (self._run / name).mkdir()
        os.chown(self._run / "state", uid, gid)
        os.chown(self._run / "log", uid, gid)
        os.chown(self._run / "rest", *self._owner("nobody"))
        etc = self._run / "etc"
        (etc / "slurm.conf").write_text(
            slurm_conf.slurm_conf(
                self.shape,
                controller_port=self._controller_port,
                slurmd_ports=self._slurmd_ports,
            )
        )
        (etc / "gres.conf").write_text(slurm_conf.gres_conf(self.shape))
        for script in _HOOKS.glob("*.sh"):
            shutil.copy(script, etc)
        (etc / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        for name, key in (("slurm.key", secrets.token_bytes(1024)), ("jwt_hs256.key", self._key)):
            (etc / name).write_bytes(key)
            (etc / name).chmod(0o600)
            os.chown(etc / name, uid, gid)
        self.token_file.write_text(self.token("root"))
        self.token_file.chmod(0o600)

    def _owner(self, user: str) -> tuple[int, int]:
        """Uid and gid by the chroot's own account list."""
        for line in (self._chroot.root / "etc/passwd").read_text().splitlines():
            entry = pwd.struct_passwd(line.split(":"))
            if entry.pw_name == user:
                return int(entry.pw_uid), int(entry.pw_gid)
        raise LookupError(f"no user {user} in {self._chroot.root}")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _usable(state: list[str]) -> bool:
    return not {"NOT_RESPONDING", "UNKNOWN", "DOWN", "INVALID_REG", "DRAIN"} & set(state)
