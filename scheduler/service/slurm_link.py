"""The connection to Slurm, and a description of what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.config.settings import Settings
from scheduler.kube.identity import token_name, token_of
from scheduler.observe.metrics import Metrics
from scheduler.observe.trouble import Trouble
from scheduler.slurm.causes import SlurmCauses
from slurmapi import Call, SlurmClient, SlurmError
from slurmapi.jwt import Lifetime


class SlurmLink:
    """Owns the client. `permit` returns for how many seconds this process may still write."""

    def __init__(
        self,
        settings: Settings,
        *,
        permit: Callable[[], float],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._metrics = metrics
        self._token = token_of(settings)
        self._answered = False
        self._trouble = Trouble("slurm", clock=clock, metrics=metrics)
        self._causes = SlurmCauses(
            settings.slurm_api_base,
            token=token_name(settings),
            lifetime=self.lifetime,
            answered=lambda: self._answered,
        )
        self.client = SlurmClient(
            settings.slurm_api_base,
            token=self._token,
            connections=settings.slurm_connections,
            cluster=settings.slurm_cluster,
            observe=self._observe_call,
            permit=permit,
        )

    @property
    def trouble(self) -> str:
        """Why Slurm does not answer as it should, in words for people; empty while it does."""
        return self._trouble.text

    def lifetime(self) -> Lifetime:
        """When the token in use was issued, and when it expires."""
        return self._token.lifetime

    def pulsed(self, error: SlurmError | None) -> None:
        """A pulse has ended: with this error, or with an answer (None)."""
        if error is None:
            self._answered = True
            self._trouble.over()
        else:
            self._trouble.saw(self._causes.of(error))

    def _observe_call(self, call: Call) -> None:
        self._metrics.slurm_call(call.operation, call.outcome, call.seconds)
