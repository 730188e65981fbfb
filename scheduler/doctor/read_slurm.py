"""Asks Slurm. Nothing is submitted or changed, and jobs are never listed."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from groundwork.retry import once
from scheduler.config.settings import Settings
from scheduler.doctor.asking import Asker, Progress
from scheduler.doctor.facts import SlurmFacts, Unread, seconds_apart
from scheduler.kube.errors import KubeError
from scheduler.kube.identity import token_name, token_of
from scheduler.nodes.records import SlurmNodes
from scheduler.slurm.causes import SlurmCauses
from scheduler.slurm.restarts import conf_if_shown
from slurmapi import Deadlines, SlurmClient, SlurmConfig, SlurmError, TokenSource
from slurmapi.jwt import user_of


class SlurmReader:
    """Reads what `SlurmFacts` holds; an async context manager. `nodes` are Slurm's nodes as the
    mapping to Kubernetes Nodes needs them, once `read` has listed them.
    """

    def __init__(self, settings: Settings, *, seconds: float, progress: Progress) -> None:
        self._settings = settings
        self._token = token_of(settings)
        # The asker's own limit comes first, and its message names the limit.
        longer = 2.0 * seconds
        self._client = SlurmClient(
            settings.slurm_api_base,
            token=self._token,
            deadlines=Deadlines(connect=longer, silence=longer, total=longer),
            retry=once,
            cluster=settings.slurm_cluster,
        )
        self._causes = SlurmCauses(
            settings.slurm_api_base,
            token=token_name(settings),
            lifetime=lambda: self._token.lifetime,
            answered=lambda: bool(self._client.cluster),
        )
        where = f"slurmrestd at {settings.slurm_api_base}"
        self._asker = Asker(where, self._explain, seconds=seconds, progress=progress)
        self.nodes = SlurmNodes(self._client, clock=time.monotonic, on_change=lambda: None)
        self.seconds_off: float | None = None

    async def __aenter__(self) -> SlurmReader:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(None, None, None)

    async def read(self) -> SlurmFacts:
        """All of it. After the first question without an answer nothing else is asked."""
        facts = SlurmFacts(where=self._settings.slurm_api_base, token=token_name(self._settings))
        version = await self._asker.ask("the version of its API", self._client.negotiate())
        user = await _user(self._token)
        facts = replace(facts, version=version, user=user, lifetime=self._token.lifetime)
        if isinstance(version, Unread):
            return facts
        ping, config, listed = await asyncio.gather(
            self._asker.ask("a ping of slurmctld", self._client.ping()),
            self._asker.ask("its settings", self._config()),
            self._asker.ask("its nodes", self.nodes.learn(())),
        )
        nodes = listed if isinstance(listed, Unread) else tuple(self.nodes.listed or ())
        return replace(facts, cluster=self._client.cluster, ping=ping, config=config, nodes=nodes)

    async def _config(self) -> SlurmConfig | None:
        """The settings of slurm.conf, and how far Slurm's clock is ahead of ours. Slurm's times are
        whole seconds.
        """
        before = time.time()
        config = await conf_if_shown(self._client)
        if config is not None and config.answered_at is not None:
            self.seconds_off = seconds_apart(config.answered_at, before=before, after=time.time())
        return config

    def _explain(self, error: SlurmError | KubeError) -> Unread:
        if not isinstance(error, SlurmError):
            return Unread(str(error))
        cause = self._causes.of(error)
        return Unread(cause.text, cause.name)


async def _user(token: TokenSource) -> str:
    """Whose token it is; "" if there is none, or if it does not say."""
    try:
        return user_of(await token.token())
    except SlurmError:
        return ""
