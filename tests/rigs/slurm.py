"""One real Slurm cluster on this machine: slurmctld, slurmds and slurmrestd, as processes of ours.

With accounting a slurmdbd too, on a MariaDB of its own.
Ready about a second after `start_all`. Any number of rigs run side by side from one chroot.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Self

from tests.rigs import accounting, cgroups, slurm_conf
from tests.rigs.log_file import LogFile
from tests.rigs.namespace import Daemon, Namespace
from tests.rigs.slurm_build import Chroot
from tests.rigs.slurm_conf import Shape
from tests.rigs.syslog import Syslog
from tests.support.ports import free_ports
from tests.support.slurm_rest import SlurmRest, mint

_HOOKS: Final = Path(__file__).parents[2] / "deploy" / "slurm"
# Jobs know the node they are on, and their parents, the slurmstepds, would tell of their death.
_POWER_OFF: Final = """
scripts=$(grep --files-with-matches --no-messages --null-data --line-regexp --fixed-strings \\
    "SLURMD_NODENAME=$1" /proc/[0-9]*/environ | cut -d / -f 3)
[ -n "$scripts" ] || exit 0
kill -KILL $(ps -o ppid= -p "$(echo $scripts | tr ' ' ,)" | grep -vw 1) $scripts || :
"""
# slurmrestd refuses to run as root or as SlurmUser.
_REST_USER: Final = "nobody:nogroup"
_USERS: Final = ("alice", "bob")
_ENDED: Final = "CD,CA,F,TO,PR,NF,BF,DL,OOM"
# slurmctld purges jobs once a minute.
_PURGE_SECONDS: Final = 100.0
_SCRIPT_SECONDS: Final = 30.0
# What has the variables of a job is its script, once it is what runs: its slurmstepd has them not.
_STEPD: Final = "/usr/sbin/slurmstepd"
# grep also fails for a process that has ended meanwhile.
_RUNS_WITH: Final = """
found=$(echo /proc/[0-9]*/environ)
for variable do
    found=$(grep --files-with-matches --no-messages --null-data --line-regexp --fixed-strings \\
        "$variable" $found)
    [ -n "$found" ] || exit 1
done
"""
# What follows the last end of a line is kept; at 4 GiB it would end by itself.
_GLUTTON: Final = 'ulimit -v 4194304; echo $$ >"$1" && exec tail /dev/zero'


class SlurmRig:
    """A Slurm cluster of `shape`, run from `chroot`; a context manager that starts and ends it.

    With `audited` slurmctld's log names who cancels which job.
    `socket` is slurmrestd's unix socket. `token_file` holds a token of root, who is an operator.
    `nodes` are the nodes with GPUs in the partition `partition`.
    """

    partition: Final = slurm_conf.PARTITION
    high_partition: Final = slurm_conf.HIGH_PARTITION
    grace_partition: Final = slurm_conf.GRACE_PARTITION
    gpus_per_node: Final = slurm_conf.GPUS_PER_NODE

    def __init__(
        self, chroot: Chroot, *, shape: Shape | None = None, audited: bool = False
    ) -> None:
        self.major = chroot.major
        self.version = chroot.version
        self.cluster = f"rig-{chroot.major}"
        self.shape = shape or slurm_conf.SHAPES[chroot.major]
        self.nodes = self.shape.schedulable
        self.script_partition = slurm_conf.PARTITION
        if not self.shape.pods_on_slurmd:
            self.script_partition = slurm_conf.SLURMD_PARTITION
        self._chroot = chroot
        self._audited = audited
        self._run = Path(tempfile.mkdtemp(prefix="slurm-rig-"))
        self._cgroup = cgroups.name_of(self._run.name)
        self.socket = self._run / "rest" / "socket"
        self.token_file = self._run / "token"
        ports = free_ports(3 + len(self.shape.slurmd))
        self._controller_port, self._rest_port, self._database_port = ports[:3]
        self._slurmd_ports = dict(zip(self.shape.slurmd, ports[3:], strict=True))
        self._key = secrets.token_bytes(32)
        self._daemons: dict[str, Daemon] = {}
        self.starts: Counter[str] = Counter()
        """How often each component has been started."""
        self._namespace: Namespace | None = None
        self._syslog: Syslog | None = None

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
    def controller_url(self) -> str:
        """The URL of slurmctld's own port, which users may mistake for slurmrestd's."""
        return f"http://127.0.0.1:{self._controller_port}"

    @property
    def url(self) -> str:
        """slurmrestd over TCP."""
        return f"http://127.0.0.1:{self._rest_port}"

    @property
    def hooks_folder(self) -> Path:
        """The folder for the settings of the hooks, who see it as /etc/slurm. Without settings they
        end at once.
        """
        return self._run / "etc"

    @property
    def log_directory(self) -> Path:
        """Where the daemons write their logs."""
        return self._run / "log"

    def token(self, user: str, *, seconds: int = 86400) -> str:
        """A token of `user`: "root" is an operator, "alice" and "bob" are not. Good for a day.

        Never DELETE a job of another user with an ordinary user's token: slurmctld then waits for
        a lock it holds itself, for ever (validate_operator_locked below job_mgr_signal_jobs;
        measured on 26.05.5 and 24.11.5 without slurmdbd).
        """
        return mint(self._key, user, seconds=seconds)

    def rest(self, user: str = "root") -> SlurmRest:
        """A client of slurmrestd with a token of `user`."""
        return SlurmRest(self.url, major=self.major, token=self.token(user))

    def start_all(self) -> None:
        """Write the configuration, start every daemon, and wait until nodes take jobs."""
        memory = None
        self._write()
        self._syslog = Syslog(self.log_directory / "syslog.socket")
        if self.shape.memory_confined:
            cgroups.make(self._cgroup)
            memory = cgroups.MEMORY / self._cgroup
        self._namespace = Namespace(self._chroot.root, self._run, memory=memory)
        if self.shape.accounting:
            self._start_accounting(self._namespace)
        # A slurmd that finds no controller tries again too late for the wait for its node.
        self.start("slurmctld")
        for name in self.shape.slurmd:
            # One by one, because all bind /run/slurm/sack.socket, and two at once conflict.
            self.start(f"slurmd.{name}")
        self.start("slurmrestd")
        try:
            self._daemons["slurmctld"].wait_until(self._nodes_up, what=f"nodes of {self._run}")
        except RuntimeError as error:
            for name in self.shape.slurmd:
                error.add_note(f"{name}: {self._daemons[f'slurmd.{name}'].tail()}")
            raise

    def stop(self, component: str, *, kill: bool = False) -> None:
        """End "slurmctld", "slurmrestd", "slurmdbd" or "slurmd.NODE" with SIGTERM, or SIGKILL."""
        self._daemons.pop(component).stop(kill=kill)

    def freeze(self, component: str) -> None:
        """Let a component hang, as if it waited for a lock; `stop` still ends it."""
        self._daemons[component].freeze()

    def start(self, component: str) -> None:
        """Start a stopped component; returns when it answers."""
        daemon = self._launch(component)
        self._daemons[component] = daemon
        daemon.wait_until(partial(self._answers, component), what=f"{component} of {self._run}")

    def lose_state(self) -> None:
        """Kill slurmctld, empty its StateSaveLocation, and start it again. Each slurmd is started
        anew, too: it believes for ever that a script still runs whose node was DOWN when it was to
        end, and refuses the next job with that id (measured on 24.11.5). Scripts run on.
        """
        for name in self.shape.slurmd:
            self.stop(f"slurmd.{name}")
        self.stop("slurmctld", kill=True)
        for path in (self._run / "state").iterdir():
            path.unlink() if path.is_file() else shutil.rmtree(path)
        self.start("slurmctld")
        for name in self.shape.slurmd:
            self.start(f"slurmd.{name}")

    def purge(self) -> None:
        """Let slurmctld forget all jobs that have ended, which it does once a minute for those
        older than MinJobAge. It is restarted with a short MinJobAge, and then with its own again.
        """
        conf = self._run / "etc" / "slurm.conf"
        usual = conf.read_text()
        try:
            self._restart_with(conf, f"{usual}MinJobAge={slurm_conf.SHORTEST_JOB_AGE}\n")
            until = time.monotonic() + _PURGE_SECONDS
            while self.call("squeue", "--noheader", f"--states={_ENDED}"):
                assert time.monotonic() < until, f"jobs were not purged in {_PURGE_SECONDS} s"
                time.sleep(0.5)
        finally:
            self._restart_with(conf, usual)

    @contextmanager
    def job_submit(self, lua: str) -> Iterator[None]:
        """Within the block Slurm runs this job_submit.lua; restarts slurmctld before and after."""
        (self._run / "etc" / "job_submit.lua").write_text(lua)
        with self.configured("JobSubmitPlugins=lua\n"):
            yield

    def configured(self, lines: str) -> AbstractContextManager[None]:
        """Within the block slurm.conf has these lines too; restarts slurmctld before and after."""
        return self._with_conf(lambda conf: conf + lines)

    def suspending(self) -> AbstractContextManager[None]:
        """Within the block preemption suspends jobs; slurmctld is restarted before and after."""
        return self._with_conf(slurm_conf.suspending)

    def without_hooks(self) -> AbstractContextManager[None]:
        """Within the block Slurm runs no scripts when jobs start and end, as at a site that has not
        installed them; slurmctld is restarted before and after.
        """
        return self._with_conf(slurm_conf.without_hooks)

    @contextmanager
    def _with_conf(self, change: Callable[[str], str]) -> Iterator[None]:
        conf = self._run / "etc" / "slurm.conf"
        usual = conf.read_text()
        try:
            self._restart_with(conf, change(usual))
            yield
        finally:
            self._restart_with(conf, usual)

    def _restart_with(self, conf: Path, text: str) -> None:
        if "slurmctld" in self._daemons:  # a former one may not have been taken
            self.stop("slurmctld")
        conf.write_text(text)
        self.start("slurmctld")

    def reboot(self, node: str) -> None:
        """Let a node lose its power and come back: no process on it ends in order, and its slurmd
        reports the boot. RebootProgram may have ended that slurmd already.
        """
        assert self._namespace is not None
        self.stop(f"slurmd.{node}", kill=True)
        self._namespace.call(("sh", "-c", _POWER_OFF, "power-off", node))
        slurmd = self._daemons[f"slurmd.{node}"] = self._launch(f"slurmd.{node}", "-b")
        slurmd.wait_until(partial(_listens, self._slurmd_ports[node]), what=f"slurmd {node}")

    @contextmanager
    def rebooting(self) -> Iterator[None]:
        """Within the block RebootProgram ends the node's slurmd; `reboot` then starts it again."""
        mark = self._run / "etc" / slurm_conf.REBOOTS
        mark.touch()
        try:
            yield
        finally:
            mark.unlink()

    def runs(self, component: str) -> bool:
        """Whether a component was started and has not ended."""
        return self._daemons[component].running

    def has_saved(self, text: str) -> bool:
        """Whether the job state that slurmctld last wrote to disk contains that text.

        The file's time is no proof, because the kernel's clock for it runs milliseconds behind.
        """
        try:
            return text.encode() in (self._run / "state/job_state").read_bytes()
        except FileNotFoundError:
            return False  # slurmctld removes the old file just before it puts the new one there

    def call(self, *command: str) -> str:
        """Run a command of Slurm as root; returns its output. RuntimeError if it fails."""
        assert self._namespace is not None
        return self._namespace.call(command)

    def entry(self, *command: str) -> tuple[str, ...]:
        """The command line that runs a command of Slurm as root, for use in a terminal."""
        assert self._namespace is not None
        return self._namespace.entry(*command)

    def read(self, path: str) -> str:
        """The content of a file as jobs see it; RuntimeError if it does not exist."""
        assert self._namespace is not None
        return self._namespace.call(("cat", path))

    @property
    def syslog(self) -> str:
        """What hooks and jobs have written to the syslog."""
        assert self._syslog is not None
        return self._syslog.text

    @property
    def log(self) -> LogFile:
        """The log of slurmctld."""
        return LogFile(self.log_directory / "slurmctld.log")

    def kill_script(self, job_id: int) -> None:
        """Kill (SIGKILL) the script of a batch job, as soon as slurmd has started it."""
        until = time.monotonic() + _SCRIPT_SECONDS
        while not self._succeeds("pkill", "-KILL", "-f", f"/job{job_id:05}/slurm_script$"):
            if time.monotonic() > until:
                raise RuntimeError(f"job {job_id} has no script after {_SCRIPT_SECONDS:.0f} s")
            time.sleep(0.05)

    @contextmanager
    def scripts_cannot_start(self) -> Iterator[None]:
        """Within the block no slurmd can start the script of a batch job: slurmstepd fails."""
        assert self._namespace is not None
        self._namespace.call(("mount", "--bind", "/bin/false", _STEPD))
        try:
            yield
        finally:
            # A slurmstepd that is just failing keeps the mount busy. With --lazy the path leads to
            # the real program at once.
            self._namespace.call(("umount", "--lazy", _STEPD))

    def script_runs(self, job_id: int) -> bool:
        """Whether slurmd has started the script of a batch job that Slurm says is running."""
        return self.runs_with(f"SLURM_JOB_ID={job_id}")

    def runs_with(self, *variables: str) -> bool:
        """Whether some process has all these variables in its environment, as in "A=b"."""
        return self._succeeds("sh", "-c", _RUNS_WITH, "look", *variables)

    def run_out_of_memory(self, job_id: int) -> None:
        """Let the kernel kill a process of a batch job for its memory, and then the job's script;
        only with `memory_confined`.
        """
        pattern = f"slurm_*/uid_*/job_{job_id}/step_batch/task_0/cgroup.procs"
        (processes,) = (cgroups.MEMORY / self._cgroup).glob(pattern)
        glutton = ("sh", "-c", _GLUTTON, "glutton", str(processes))
        status = subprocess.run(glutton, timeout=_SCRIPT_SECONDS, check=False).returncode
        if status != -signal.SIGKILL:
            raise RuntimeError(f"job {job_id} has more memory than it should: {status}")
        self.kill_script(job_id)

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
        cgroups.remove(self._cgroup)
        if self._syslog is not None:
            self._syslog.close()
        shutil.rmtree(self._run, ignore_errors=True)

    def _start_accounting(self, namespace: Namespace) -> None:
        owner = ("-o", accounting.OWNER, "-g", accounting.OWNER)
        namespace.call(("install", "-d", *owner, *accounting.RUN_DIRECTORIES))
        self.start("mariadbd")
        self.start("slurmdbd")
        for command in accounting.first_accounts(self.cluster, users=_USERS):
            namespace.call(("sacctmgr", "--immediate", *command))

    def _answers(self, component: str) -> bool:
        """Whether a component works, as far as the components that it needs are running."""
        if component == "mariadbd":
            return self._succeeds("mariadb-admin", "ping")
        if component == "slurmdbd":
            return _listens(self._database_port)
        if component.startswith("slurmd."):
            return _listens(self._slurmd_ports[component.removeprefix("slurmd.")])
        if "slurmrestd" not in self._daemons:
            return _listens(self._controller_port)
        return self.rest().responding()

    def _succeeds(self, *command: str) -> bool:
        try:
            self.call(*command)
        except RuntimeError:
            return False
        return True

    def _launch(self, component: str, *options: str) -> Daemon:
        assert self._namespace is not None
        self.starts[component] += 1
        log = self._run / "log" / f"{component}.out"
        if component == "slurmrestd":
            return self._namespace.run(
                self._rest_command(), log=log, user=_REST_USER, environment={"SLURM_JWT": "daemon"}
            )
        if component == "mariadbd":
            owner = f"{accounting.OWNER}:{accounting.OWNER}"
            return self._namespace.run(accounting.MARIADBD, log=log, user=owner)
        program, _, node = component.partition(".")
        name = ("-N", node) if node else ()
        return self._namespace.run((program, "-D", *name, *options), log=log)

    def _rest_command(self) -> tuple[str, ...]:
        self.socket.unlink(missing_ok=True)
        # 24.11 crashes at its start with the slurmdbd plugin if there is no slurmdbd.
        lacks_plugin = self.major == "24.11" and not self.shape.accounting
        plugins = ("-s", "openapi/slurmctld") if lacks_plugin else ()
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
                cluster=self.cluster,
                controller_port=self._controller_port,
                slurmd_ports=self._slurmd_ports,
                database_port=self._database_port,
                audited=self._audited,
            )
        )
        (etc / "gres.conf").write_text(slurm_conf.gres_conf(self.shape))
        for script in _HOOKS.glob("*.sh"):
            shutil.copy(script, etc)
        (etc / "reboot.sh").write_text(slurm_conf.REBOOT_PROGRAM)
        (etc / "reboot.sh").chmod(0o755)
        (etc / "cgroup.conf").write_text(slurm_conf.cgroup_conf(self.shape))
        for name, key in (("slurm.key", secrets.token_bytes(1024)), ("jwt_hs256.key", self._key)):
            (etc / name).write_bytes(key)
            (etc / name).chmod(0o600)
            os.chown(etc / name, uid, gid)
        if self.shape.accounting:
            self._write_accounting(etc / "slurmdbd.conf", uid, gid)
        self.token_file.write_text(self.token("root"))
        self.token_file.chmod(0o600)

    def _write_accounting(self, settings: Path, uid: int, gid: int) -> None:
        settings.write_text(accounting.slurmdbd_conf(port=self._database_port))
        settings.chmod(0o600)
        os.chown(settings, uid, gid)
        empty = f"{self._chroot.root}{accounting.EMPTY_DATABASE}"
        subprocess.run(("cp", "--archive", empty, str(self._run / "database")), check=True)

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
