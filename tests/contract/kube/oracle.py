"""Asks the real kube-scheduler which Nodes a pod may go to, without letting it bind the pod.

kube-scheduler has an extender here, and sends it the Nodes that have passed all of its own filters.
The extender rejects all of them, so the pod stays pending, and tests can ask about it again.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self

from tests.rigs.kube import KubeRig
from tests.rigs.kube_build import kube_scheduler
from tests.rigs.process import Daemon

NAME: Final = "oracle"


class Oracle:
    """A context manager. Inside, `allowed` has the Nodes of each pod that names this scheduler."""

    def __init__(self, kube: KubeRig, folder: Path) -> None:
        self._kube = kube
        self._folder = folder
        self._daemon: Daemon | None = None
        self.allowed: dict[str, frozenset[str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        config = self._folder / "config.json"
        config.write_text(json.dumps(self._configuration()))
        command = (str(kube_scheduler()), f"--config={config}", "--secure-port=0")
        self._daemon = Daemon(command, log=self._folder / "kube-scheduler.log")
        return self

    def __exit__(self, *_: object) -> None:
        if self._daemon is not None:
            self._daemon.stop(kill=True)
        self._server.shutdown()
        self._server.server_close()

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {
                "kubeconfig": str(self._kube.kubeconfig),
                "qps": 1000,
                "burst": 1000,
            },
            "percentageOfNodesToScore": 100,
            "profiles": [
                {
                    "schedulerName": NAME,
                    "plugins": {"postFilter": {"disabled": [{"name": "*"}]}},
                }
            ],
            "extenders": [
                {
                    "urlPrefix": f"http://127.0.0.1:{self._server.server_port}",
                    "filterVerb": "filter",
                    "nodeCacheCapable": True,
                }
            ],
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        allowed = self.allowed

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                asked = json.loads(self.rfile.read(length))
                uid = asked["Pod"]["metadata"]["uid"]
                allowed[uid] = frozenset(asked["NodeNames"] or ())
                answer = json.dumps({"NodeNames": []}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: the test reports what differs."""

        return Handler
