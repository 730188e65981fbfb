"""`python -m tests.rigs`: starts the real clusters to try things by hand, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from tests.rigs import chart, fixtures, hands, helm, image, slurm_conf
from tests.rigs.default_scheduler import DefaultScheduler
from tests.rigs.kube import KubeRig
from tests.rigs.kube_build import ensure as ensure_kube
from tests.rigs.node_real import RealNode
from tests.rigs.node_sim import SimulatedNodes
from tests.rigs.prerequisites import PrerequisiteError, announced, need_root
from tests.rigs.simulator.nodes import NodeShape
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_build import ensure as ensure_slurm
from tests.support.chart import CHART

# kind is left out, because it has a cluster of its own.
_FOLDER: Final = Path("build/rig")

_READY: Final = """
Kubernetes with {nodes} played Nodes and a real one ({real}), and Slurm {release} are up.
In another terminal:

  export KUBECONFIG={folder}/kubeconfig PATH={folder}/bin:$PATH
{scheduler}
  kubectl apply -f {folder}/pod.yaml
  kubectl describe pod hello
  squeue

{more}
Logs of the servers: {logs}
Ctrl-C ends all of it.
"""
_BY_HAND: Final = """\
  slurm-pod-scheduler run --slurm-api-base={url} --slurm-auth-token-file={folder}/slurm-token

and in a third one, with the same export:
"""
_INSTALLED: Final = """\
  helm test {name} --namespace {name} --logs
"""
_MIXED: Final = """\
Containers are real on {real} (partition {real_partition}: the pod hello), and played on the Nodes
with GPUs (partition {partition}): kubectl apply -f deploy/examples/quick-start.yaml
"""
_PLAYED: Final = """\
Pods go to played Nodes: kubectl apply -f deploy/examples/quick-start.yaml
"""
_CHART: Final = """\
The live page is at http://127.0.0.1:{page}/ for the token that this prints (docs/page.md):

  kubectl create token {name} --namespace {name}

To install it anew, or to change {folder}/values.yaml (docs/install.md):

  helm uninstall {name} --namespace {name}
  helm install {name} {chart} --namespace {name} --values {folder}/values.yaml
"""


def main() -> int:
    """Exit status: 0 after SIGINT or SIGTERM; 1, with a message, if something is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.rigs", description=__doc__)
    parser.add_argument("--release", choices=sorted(slurm_conf.SHAPES), default="26.05")
    parser.add_argument(
        "--chart", action="store_true", help="install the scheduler, by its Helm chart"
    )
    parser.add_argument("--folder", type=Path, default=_FOLDER, help=f"default: {_FOLDER}")
    args = parser.parse_args()
    # A shell starts background jobs with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt), ExitStack() as stack:
            print(_bring_up(stack, args), flush=True)
            signal.pause()
    except PrerequisiteError as missing:
        print(f"the real servers cannot run here: {missing}", file=sys.stderr)
        return 1
    return 0


def _bring_up(stack: ExitStack, args: argparse.Namespace) -> str:
    """Start everything; returns the text that says where it is."""
    need_root()
    shape = slurm_conf.SHAPES[args.release]
    with announced("Kubernetes"):
        kube = stack.enter_context(KubeRig(ensure_kube(), kubelets=(fixtures.REAL,)))
        devices = {"nvidia.com/gpu": slurm_conf.GPUS_PER_NODE}
        shapes = [NodeShape(name=name, devices=devices) for name in shape.schedulable]
        stack.enter_context(SimulatedNodes(kube, shapes))
        node = stack.enter_context(RealNode(kube, fixtures.REAL))
        stack.enter_context(DefaultScheduler(kube, node.name))
    with announced(f"Slurm {args.release}"):
        slurm = stack.enter_context(SlurmRig(ensure_slurm(args.release)))
    place = stack.enter_context(hands.folder(args.folder.resolve(), kubeconfig=kube.kubeconfig))
    hands.add_pod(place, image=node.image, real=bool(shape.real))
    hands.add_slurm(place, slurm)
    names = {
        "folder": place,
        "url": slurm.url,
        "real": node.name,
        "real_partition": slurm_conf.REAL_PARTITION,
        "partition": slurm_conf.PARTITION,
        "name": chart.NAME,
        "chart": CHART,
    }
    if args.chart:
        names["page"] = _install(kube, node, slurm, place)
    more = (_MIXED if shape.real else _PLAYED).format(**names)
    if args.chart:
        more += "\n" + _CHART.format(**names)
    return _READY.format(
        nodes=len(shape.schedulable),
        release=args.release,
        scheduler=(_INSTALLED if args.chart else _BY_HAND).format(**names),
        more=more,
        logs=slurm.log_directory,
        **names,
    )


def _install(kube: KubeRig, node: RealNode, slurm: SlurmRig, place: Path) -> int:
    """Returns the port of the live page."""
    program = helm.helm_program()
    archive = image.ensure()
    with announced("the image on the Node"):
        node.load(archive)
    given = chart.values(kube, slurm, image=image.NAME)
    given["scheduler"]["page"] = {"enabled": True}
    hands.add_helm(place, program=program, values=given)
    token = slurm.token_file.read_text()
    with announced("helm install"), tempfile.TemporaryDirectory() as home:
        found = helm.Helm(program, home=Path(home), kubeconfig=kube.kubeconfig)
        chart.install(kube, found, given=given, token=token)
    return int(given["scheduler"]["ports"]["page"])


if __name__ == "__main__":
    sys.exit(main())
