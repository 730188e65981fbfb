"""One real Node: a kubelet with containerd and runc, that runs real containers on this machine.

All of it lives in a mount and a pid namespace of its own. The first process there waits on a pipe
of ours; when the pipe closes, by `close()` or because this process died in whatever way, the kernel
ends the kubelet, containerd, every shim and every container, and takes their mounts away. Only
empty cgroups can be left after a crash; the next rig removes them.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final, Self

from tests.rigs import busybox_image, cgroups
from tests.rigs.kube import KubeRig
from tests.rigs.kube_files import kubelet_user
from tests.rigs.prerequisites import run
from tests.rigs.process import answered
from tests.support.ports import free_ports

_SCRIPT: Final = Path(__file__).with_name("node_real.sh")
_READY_SECONDS: Final = 60.0
_END_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1


class RealNode:
    """The Node `name` of `kube`; a context manager within which it is Ready.

    It offers the CPUs and the memory of the machine. With `imagePullPolicy: Never` it runs `image`,
    which is a busybox, and images that were loaded. Pods can reach this machine and nothing beyond.
    """

    image: Final = busybox_image.BUSYBOX

    def __init__(self, kube: KubeRig, name: str) -> None:
        self.name = name
        self._kube = kube
        self._run = Path(tempfile.mkdtemp(prefix="node-rig-"))
        self.cgroup = cgroups.name_of(self._run.name)
        self._anchor: subprocess.Popen[bytes] | None = None
        self._addresses = _Addresses()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def gateway(self) -> str:
        """The machine's address as pods see it; it only exists while a pod has a network."""
        return str(next(ip_network(self._addresses.subnet).hosts()))

    @property
    def log_directory(self) -> Path:
        """Where kubelet and containerd write their logs."""
        return self._run / "log"

    def load(self, archive: Path) -> None:
        """Load the images of a docker archive, as if they had been pulled."""
        ctr = ("ctr", "--address", f"{self._run}/containerd.sock", "--namespace", "k8s.io")
        run((*ctr, "images", "import", str(archive)), environment=self._environment())

    def close(self) -> None:
        """End everything on the Node; the Node object stays in the API, as after a crash."""
        if self._anchor is not None:
            _end(self._anchor)
        cgroups.remove(self.cgroup)
        shutil.rmtree(self._run, ignore_errors=True)
        self._addresses.close()

    def _start(self) -> None:
        self._write()
        cgroups.make(self.cgroup)
        with (self.log_directory / "node.log").open("ab") as log:
            self._anchor = subprocess.Popen(
                ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation",
                 "private", "--", "sh", str(_SCRIPT), str(self._run), self.name),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                process_group=0,
                env=self._environment(),
            )  # fmt: skip
        self._wait_until_ready(self._anchor)

    def _wait_until_ready(self, anchor: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _READY_SECONDS
        while not answered(lambda: self.name in self._kube.ready_nodes()):
            if anchor.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"Node {self.name} does not become Ready\n{self._tails()}")
            time.sleep(_POLL_SECONDS)

    def _environment(self) -> dict[str, str]:
        tools = self._kube.binaries.containers
        folders = [str(tools / folder) for folder in ("usr/bin", "usr/sbin")]
        return {
            "PATH": ":".join((*folders, "/usr/sbin:/usr/bin:/sbin:/bin")),
            "KUBELET": str(self._kube.binaries.kubelet),
        }

    def _write(self) -> None:
        for folder in ("log", "var-lib", "var-log", "cni", "sys"):
            (self._run / folder).mkdir()
        for name, value in _KERNEL_SETTINGS.items():
            (self._run / "sys" / name.replace("/", ".")).write_text(value + "\n")
        tools = self._kube.binaries.containers
        busybox_image.write(self._run / "images.tar", tools / "bin/busybox")
        (self._run / "containerd.toml").write_text(_containerd(self._run, tools))
        (self._run / "cni/rig.conflist").write_text(json.dumps(self._network()))
        shutil.copy(self._kube.files.kubeconfig(kubelet_user(self.name)), self._run / "kubeconfig")
        (self._run / "kubelet.json").write_text(json.dumps(self._kubelet()))

    def _kubelet(self) -> dict[str, Any]:
        port = free_ports(1)[0]
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "port": port,
            "readOnlyPort": 0,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self._kube.ca)},
            },
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{self._run}/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "evictionHard": {},
            "oomScoreAdj": 0,
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
        }

    def _network(self) -> dict[str, Any]:
        """The CNI configuration: a link from each pod to the machine."""
        addresses = {
            "type": "host-local",
            "dataDir": f"{self._run}/addresses",
            "subnet": self._addresses.subnet,
        }
        return {
            "cniVersion": "0.4.0",
            "name": "rig",
            "plugins": [{"type": "ptp", "ipam": addresses}],
        }

    def _tails(self) -> str:
        logs = sorted(self.log_directory.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-2000:]}" for log in logs)


# Kernel settings that a kubelet and a CNI plugin insist on. These files are mounted over the real
# settings, which stay as the machine's owner has set them; nothing is forwarded for pods.
_KERNEL_SETTINGS: Final = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "net/ipv4/ip_forward": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}


def _containerd(run: Path, tools: Path) -> str:
    """containerd's configuration; without restrict_oom_score_adj runc needs CAP_SYS_RESOURCE."""
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = "{run}/containerd"
state = "/run/containerd-rig"
[grpc]
address = "{run}/containerd.sock"
[{cri}]
sandbox_image = "{busybox_image.PAUSE}"
restrict_oom_score_adj = true
[{cri}.containerd]
snapshotter = "overlayfs"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[{cri}.containerd.runtimes.runc.options]
BinaryName = "{tools}/usr/sbin/runc"
[{cri}.cni]
bin_dir = "{tools}/usr/lib/cni"
conf_dir = "{run}/cni"
"""


class _Addresses:
    """A subnet reserved for tests (RFC 2544) that no other Node on this machine has.

    The claim is an abstract socket. Its name is unique per network namespace, as the addresses are,
    and the kernel releases it when this process ends.
    """

    def __init__(self) -> None:
        self._claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        for number in range(256):
            with suppress(OSError):
                self._claim.bind(f"\0slurm-pod-rig-addresses-{number}")
                self.subnet = f"198.18.{number}.0/24"
                return
        self._claim.close()
        raise RuntimeError("256 real Nodes on this machine have all the addresses for pods")

    def close(self) -> None:
        """Release the subnet."""
        self._claim.close()


def _end(anchor: subprocess.Popen[bytes]) -> None:
    assert anchor.stdin is not None
    anchor.stdin.close()
    try:
        anchor.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        anchor.kill()
        anchor.wait(_END_SECONDS)
