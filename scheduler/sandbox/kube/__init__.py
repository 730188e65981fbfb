"""A Kubernetes cluster in memory for real clients, with API server, kubelets and controllers."""

from scheduler.sandbox.kube.cluster import KubeCluster
from scheduler.sandbox.kube.kubelet import Timing
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.nodes import NodeShape
from scheduler.sandbox.kube.server import KubeServer

__all__ = ["KubeCluster", "KubeModel", "KubeServer", "NodeShape", "Timing"]
