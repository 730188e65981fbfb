"""From settings to a process that schedules: our identity, the policy, and the election."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress

import structlog
from aiohttp import web

import scheduler
from groundwork.garbage import tended
from scheduler.config.settings import Settings, SettingsError
from scheduler.core.owner_tag import Owner
from scheduler.election.elector import LeaseLostError
from scheduler.election.setup import election_of
from scheduler.kube.api import KubeApi
from scheduler.kube.errors import KubeError
from scheduler.kube.identity import absent_namespaces, admitted, cluster_id
from scheduler.kube.link import KubeLink, Standing
from scheduler.kube.session import KubeSession
from scheduler.listen.address_error import address_error
from scheduler.listen.descriptors import AcceptErrors
from scheduler.observe.clock import monotonic
from scheduler.observe.metrics import Metrics
from scheduler.policy import file as policy_file
from scheduler.policy.rules import NO_POLICY, Policy
from scheduler.service import probes
from scheduler.service.app import App
from scheduler.service.shown import Showing

log = structlog.get_logger(__name__)


async def run(settings: Settings, *, showing: Showing | None = None) -> None:
    """Connect, find out who we are, and schedule until SIGTERM; `showing` shows the live page
    meanwhile. Raises LeaseLostError.
    """
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(AcceptErrors(loop.time))
    metrics = Metrics()
    policy = await _policy(settings)
    link = KubeLink(metrics, clock=monotonic)
    standing = Standing(link.not_ready)
    listeners = probes.Listeners()
    agent = f"slurm-pod-scheduler/{scheduler.__version__}"
    election = election_of(settings, user_agent=agent, observe=metrics.kube_call)
    try:
        async with election as elected:
            opening = KubeSession.open(
                settings.kubeconfig,
                user_agent=agent,
                observe=metrics.kube_call,
                permit=elected.seconds_left,
                on_answer=link.heard,
            )
            async with await opening as kube:
                link.server = kube.server
                health = probes.probes(standing.not_ready, elected.role)
                await _open(listeners, settings, health, metrics)
                owner = await _owner(settings, kube)
                await _warn_of_absent(settings, KubeApi(kube))
                app = App(
                    settings,
                    kube,
                    owner=owner,
                    election=elected,
                    metrics=metrics,
                    link=link,
                    policy=policy,
                )
                standing.service = app.not_ready
                async with showing(settings, app.shown) if showing else nullcontext():
                    await tended(_run_app(app), objects=app.objects)
    finally:
        await listeners.close()


async def _open(
    listeners: probes.Listeners, settings: Settings, health: web.Application, metrics: Metrics
) -> None:
    """Start to listen before we wait for anything, so that /readyz can say what we wait for."""
    served = {
        "health-probe": (settings.health_probe_bind_address, health),
        "metrics": (settings.metrics_bind_address, probes.metrics(metrics.registry)),
    }
    for name, (address, app) in served.items():
        try:
            port = await listeners.open(address, app)
        except OSError as error:
            raise address_error(f"--{name}-bind-address", address, error) from None
        log.info("listening", face=name, port=port)


async def _owner(settings: Settings, kube: KubeSession) -> Owner:
    """Our identity. Raises KubeConfigError if the API server does not accept us, and
    ClusterIdError.
    """
    api = KubeApi(kube)
    await admitted(api, server=kube.server)
    owner = Owner(await cluster_id(settings, api), settings.scheduler_name)
    log.info(
        "starting",
        version=scheduler.__version__,
        server=kube.server,
        owner=owner.cluster,
        scheduler_name=owner.scheduler,
        slurm=settings.slurm_api_base,
    )
    return owner


async def _warn_of_absent(settings: Settings, api: KubeApi) -> None:
    """Warn of watched namespaces that do not exist: a misspelt one leaves pods unserved."""
    with suppress(KubeError):  # the watches report it, if the API server is away again
        if absent := await absent_namespaces(settings, api):
            log.warning("watched namespaces do not exist", namespaces=", ".join(absent))


async def _run_app(app: App) -> None:
    try:
        await app.run()
    except BaseExceptionGroup as group:
        lost = group.subgroup(LeaseLostError)
        if lost is None:
            raise
    else:
        return
    log.error("the lease is lost", why=str(lost.exceptions[0]))
    raise lost.exceptions[0]


async def _policy(settings: Settings) -> Policy:
    """The site's policy, which must be valid when the process starts. Raises SettingsError."""
    path = settings.policy_file
    if path is None:
        return NO_POLICY
    try:
        return await asyncio.to_thread(policy_file.read_policy, path, gangs=settings.gangs)
    except policy_file.PolicyError as error:
        raise SettingsError(f"--policy-file: {error}") from None
