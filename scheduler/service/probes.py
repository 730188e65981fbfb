"""The HTTP endpoints for machines: /healthz and /readyz for probes, /metrics for Prometheus.

What is missing for readiness is listed by `app.py` (`App.not_ready`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry

from scheduler.config.settings import Address
from scheduler.listen.listener import (
    FACE,
    HANDSHAKE_SECONDS,
    STRANGER_SECONDS,
    Listener,
    one_request,
)
from scheduler.service.scrapes import Scrapes


class Listeners:
    """The ports that serve probes and metrics. They are closed together."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    async def open(self, address: Address | None, app: web.Application) -> int | None:
        """Serve the app on the address; returns the port, or None if `address` is None.

        Raises OSError if the address cannot be bound.
        """
        if address is None:
            return None
        listener = Listener(
            FACE, stranger_seconds=STRANGER_SECONDS, handshake_seconds=HANDSHAKE_SECONDS
        )
        self._listeners.append(listener)
        return await listener.open(app, address)

    async def close(self) -> None:
        """Stop all listeners."""
        for listener in reversed(self._listeners):
            await listener.close()


def probes(
    not_ready: Callable[[], Sequence[str]], role: Callable[[], str] = str
) -> web.Application:
    """/healthz shows that the event loop runs. /readyz answers 503 and names everything that is
    missing, or 200 and `role`.

    Liveness does not depend on Slurm or Kubernetes, because a restart would repair neither.
    """

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        missing = not_ready()
        text = "".join(f"{reason}\n" for reason in missing or ["ok", *filter(None, [role()])])
        return web.Response(text=text, status=503 if missing else 200)

    app = web.Application(middlewares=[one_request])
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def metrics(registry: CollectorRegistry) -> web.Application:
    """/metrics in the text formats of Prometheus and OpenMetrics."""
    app = web.Application(middlewares=[one_request])
    app.router.add_get("/metrics", Scrapes(registry).answer)
    return app
