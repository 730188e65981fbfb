"""The user's own connection to the API server, and what to say in one line when it fails."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import scheduler
from scheduler.config.settings import Settings
from scheduler.kube.errors import Forbidden, KubeError, KubeRefused, Unauthorized
from scheduler.kube.identity import own_namespace
from scheduler.kube.session import KubeConfigError, KubeSession
from scheduler.view.safe_text import shown

# Not the scheduler's own name, by which audit logs know the scheduler.
_AGENT: Final = f"kubectl-slurm/{scheduler.__version__}"
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_DEFAULT: Final = "default"
_LONGEST: Final = 80


class ViewError(Exception):
    """The command cannot go on; the message is one line for the person who called it."""


@asynccontextmanager
async def connected(settings: Settings, context: str | None) -> AsyncIterator[KubeSession]:
    """A session with the user's rights. Raises ViewError, also for failures of its requests."""
    try:
        session = await KubeSession.open(settings.kubeconfig, user_agent=_AGENT, context=context)
    except KubeConfigError as error:
        raise ViewError(f"{error}; name a kubeconfig with --kubeconfig or $KUBECONFIG") from None
    async with session:
        try:
            yield session
        except KubeError as error:
            raise ViewError(_told(error, session)) from error


async def chosen_namespace(given: str | None, session: KubeSession, settings: Settings) -> str:
    """The namespace that is meant, found as kubectl does: the one given, that of the kubeconfig's
    context, that of the pod it runs in, or `default`. Raises ViewError for a word that is no name.
    """
    found = given if given is not None else session.namespace or await own_namespace(settings)
    name = found if given is not None else found or _DEFAULT
    if _NAMESPACE.fullmatch(name) is None:
        where = "the kubeconfig's namespace" if given is None else "-n"
        expected = "the name of a namespace: lower-case letters, digits and -, at most 63"
        raise ViewError(f"{where}: {shown(name)[:_LONGEST]!r}: expected {expected}")
    return name


def variables(environ: Mapping[str, str], prefix: str, names: tuple[str, ...]) -> dict[str, str]:
    """The environment variables of these settings alone: all others concern the service."""
    wanted = {prefix + name.upper() for name in names}
    return {name: value for name, value in environ.items() if name in wanted}


def right_missing(error: Forbidden, verb: str, namespace: str) -> ViewError:
    """What to say of a refusal to `list` or `watch` pods there; "" stands for all namespaces."""
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    other = "name another namespace with -n" if namespace else "name one namespace with -n"
    return ViewError(
        f"you may not {verb} pods {where}: the right `{verb}` on `pods` is missing there; {other}, "
        f"or ask the administrators of the cluster for it ({shown(str(error))})"
    )


def _told(error: KubeError, session: KubeSession) -> str:
    server = f"the API server {shown(session.server)}"
    if isinstance(error, Unauthorized):
        return (
            f"{server} refuses the credentials of the kubeconfig ({shown(str(error))}): log in "
            "again, or name another one with --kubeconfig or --context"
        )
    if isinstance(error, KubeRefused):
        return f"{server} refuses the request: {shown(str(error))}"
    return (
        f"{server} does not answer as it should ({shown(str(error))}): see whether `kubectl get "
        "pods` works, or name another cluster with --kubeconfig or --context"
    )
