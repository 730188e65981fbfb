"""From settings to a process that schedules: who we are, which rules hold, and who leads."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

import scheduler
from scheduler.app import App
from scheduler.core.naming import Owner
from scheduler.election import election_of
from scheduler.elector import LeaseLostError
from scheduler.kube.api import KubeApi
from scheduler.kube.session import KubeSession
from scheduler.metrics import Metrics
from scheduler.policy import file as policy_file
from scheduler.policy.rules import NO_POLICY, Policy
from scheduler.scope import cluster_id
from scheduler.settings import Settings, SettingsError

log = structlog.get_logger(__name__)


async def run(settings: Settings) -> None:
    """Connect, find out who we are, and schedule until told to stop. Raises LeaseLostError."""
    agent = f"slurm-pod-scheduler/{scheduler.__version__}"
    metrics = Metrics()
    policy = await _policy(settings.policy_file)
    election = election_of(settings, user_agent=agent, observe=metrics.kube_call)
    async with election as elected:
        opening = KubeSession.open(
            settings.kubeconfig,
            user_agent=agent,
            observe=metrics.kube_call,
            permit=elected.seconds_left,
        )
        async with await opening as kube:
            owner = Owner(await cluster_id(settings, KubeApi(kube)), settings.scheduler_name)
            log.info(
                "starting",
                version=scheduler.__version__,
                server=kube.server,
                owner=owner.cluster,
                scheduler_name=owner.scheduler,
                slurm=settings.slurm_api_base,
            )
            await _run(
                App(settings, kube, owner=owner, election=elected, metrics=metrics, policy=policy)
            )


async def _run(app: App) -> None:
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


async def _policy(path: Path | None) -> Policy:
    """The site's rules, which must be in order at the start. Raises SettingsError."""
    if path is None:
        return NO_POLICY
    try:
        return await asyncio.to_thread(policy_file.read, path)
    except policy_file.PolicyError as error:
        raise SettingsError(f"--policy-file: {error}") from None
