"""Builds the hooks API from the settings, opens it, runs it and closes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from scheduler.config.settings import Settings, SettingsError
from scheduler.hooks.api import CALLER_LIMITS, HooksApi, JobNews
from scheduler.hooks.guard import Guard
from scheduler.hooks.heartbeat import Heartbeat
from scheduler.hooks.job_states import FreshStates
from scheduler.hooks.pem import Authority, Certificate, PemFiles
from scheduler.hooks.secrets import SecretError, Secrets
from scheduler.listen.address_error import address_error
from scheduler.listen.listener import (
    HANDSHAKE_SECONDS,
    HOOKS,
    HOOKS_TLS,
    STRANGER_SECONDS,
    Listener,
)
from scheduler.observe.metrics import Metrics


class Hooks:
    """Everything behind `--hooks-api-bind-address`. Without a secret it does not listen. `fresh`
    are the states that the guard asks for. `news` is what hooks say about jobs. `prolog` returns
    Slurm's PrologSlurmctld; None if it is not known.
    """

    def __init__(
        self,
        settings: Settings,
        guard: Guard,
        *,
        fresh: FreshStates,
        news: JobNews,
        leads: Callable[[], bool],
        prolog: Callable[[], str | None],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._url = settings.hooks_api_url
        self._address = settings.hooks_api_bind_address
        self._secrets = _secrets(settings.hooks_api_token_file)
        self._certificate = _certificate(settings)
        self._authority = _authority(settings.hooks_api_ca_file)
        self.heartbeat = Heartbeat(
            listens=settings.serves_hooks,
            prolog=prolog,
            clock=clock,
        )
        self._guard = guard
        self._fresh = fresh
        self._news = news
        self._leads = leads
        self._metrics = metrics
        self._clock = clock
        self._listener: Listener | None = None

    async def open(self) -> int | None:
        """Listen, and return the port; None if the API is turned off. Raises SettingsError."""
        if self._secrets is None or self._address is None:
            return None
        try:
            await self._secrets.load()
        except SecretError as error:
            raise SettingsError(f"--hooks-api-token-file: {error}") from None
        self._load_pem_files()
        tls = self._certificate.context if self._certificate else None
        self._listener = Listener(
            HOOKS if tls is None else HOOKS_TLS,
            stranger_seconds=STRANGER_SECONDS,
            handshake_seconds=HANDSHAKE_SECONDS,
        )
        api = HooksApi(
            self._guard,
            secrets=self._secrets,
            news=self._news,
            beat=self.heartbeat.beat,
            leads=self._leads,
            waits_on=self._listener.know,
            metrics=self._metrics,
            clock=self._clock,
            limits=CALLER_LIMITS,
        )
        try:
            return await self._listener.open(api.app(), self._address, tls=tls)
        except OSError as error:
            raise address_error("--hooks-api-bind-address", self._address, error) from None

    async def run(self) -> None:
        """Serve for ever; end it by cancelling."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._fresh.run(), name="fresh states")
            for _flags, files in self._pem_files():
                group.create_task(files.follow(), name="pem files")

    def job_environment(self, unit: str, *, kill_wait_seconds: int) -> Mapping[str, str]:
        """The variables with which the placeholder of that unit can ask whether its pod is gone."""
        if self._secrets is None or not self._url:
            return {}
        return {
            "SLURM_POD_SCHEDULER_HOOKS_URL": self._url,
            "SLURM_POD_SCHEDULER_UNIT": unit,
            "SLURM_POD_SCHEDULER_TOKEN": self._secrets.job_token(unit),
            "SLURM_POD_SCHEDULER_KILL_WAIT": str(kill_wait_seconds),
            **({"SLURM_POD_SCHEDULER_CA": self._authority.text} if self._authority else {}),
        }

    async def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.close()

    def _load_pem_files(self) -> None:
        for flags, files in self._pem_files():
            try:
                files.load()
            except OSError as error:
                raise SettingsError(f"{flags}: {error}") from None

    def _pem_files(self) -> Iterator[tuple[str, PemFiles]]:
        if self._certificate is not None:
            yield "--hooks-api-tls-cert-file, -key-file", self._certificate.files
        if self._authority is not None:
            yield "--hooks-api-ca-file", self._authority.files


def _secrets(path: Path | None) -> Secrets | None:
    return None if path is None else Secrets(path)


def _certificate(settings: Settings) -> Certificate | None:
    certificate, key = settings.hooks_api_tls_cert_file, settings.hooks_api_tls_key_file
    return Certificate(certificate, key) if certificate and key else None


def _authority(path: Path | None) -> Authority | None:
    return None if path is None else Authority(path)
