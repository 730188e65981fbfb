"""Where the scheduler's page is, and with whose token it is asked."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from scheduler.kube.session import KubeSession
from scheduler.view.connection import ViewError
from scheduler.view.safe_text import shown

VARIABLE: Final = "KUBECTL_SLURM_PAGE_URL"
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_LONGEST: Final = 80
_LONGEST_TOKEN: Final = 4000
_TOKEN: Final = re.compile(r"[!-~]+")
_EXPECTED: Final = (
    "expected https://HOST, or http://127.0.0.1:PORT on this machine, because the request has your "
    "token"
)


@dataclass(frozen=True, slots=True)
class PageAddress:
    """`base` is without a slash at its end. `name` is the flag or the variable that gave it."""

    base: str
    name: str


def add_page_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say where the page is, and with whose token it is asked."""
    parser.add_argument(
        "--page-url",
        type=page_url,
        metavar="URL",
        help="where the scheduler's live page is, such as https://slurm.example or "
        f"http://127.0.0.1:8082 (default: {VARIABLE} of the environment)",
    )
    parser.add_argument(
        "--page-token-file",
        type=Path,
        metavar="FILE",
        help="a file with a token for the page (default: that of the kubeconfig)",
    )


@dataclass(frozen=True, slots=True)
class NamedPage:
    """The page that flags or the environment name, and the token that a flag names."""

    address: PageAddress
    given_token: str | None

    async def token(self, session: KubeSession) -> str:
        """The token to ask with: the one given, or the one of the user's kubeconfig."""
        return await session.bearer_token() if self.given_token is None else self.given_token


def named_page(arguments: argparse.Namespace) -> NamedPage | None:
    """The page that the flags and the environment name; None if they name none. Raises ViewError,
    also for a token that nobody needs.
    """
    address = address_of(arguments.page_url, dict(os.environ))
    path = arguments.page_token_file
    given = None if path is None else token_in(path)
    return None if address is None else NamedPage(address, given)


def page_url(text: str) -> str:
    """The address of the page, as the command line says; without a slash at its end."""
    wrong = argparse.ArgumentTypeError(f"'{shown(text)[:_LONGEST]}': {_EXPECTED}")
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise wrong from None
    safe = parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)
    if not safe or not host or parts.query or parts.fragment or "@" in parts.netloc:
        raise wrong
    if not text.isascii() or not text.isprintable() or " " in text:
        raise wrong
    return text.rstrip("/")


def address_of(given: str | None, environ: dict[str, str]) -> PageAddress | None:
    """Where to ask; None if nobody says. Raises ViewError for a wrong variable."""
    if given is not None:
        return PageAddress(given, "--page-url")
    text = environ.get(VARIABLE, "")
    if not text:
        return None
    try:
        return PageAddress(page_url(text), VARIABLE)
    except argparse.ArgumentTypeError as error:
        raise ViewError(f"{VARIABLE}: {error}") from None


def token_in(path: Path) -> str:
    """The token in a file. Raises ViewError."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LONGEST_TOKEN + 2)
    except OSError as error:
        why = error.strerror or str(error)
        raise ViewError(f"--page-token-file: {shown(str(path))}: {why}") from None
    token = raw.decode("ascii", "replace").strip()
    if len(token) > _LONGEST_TOKEN or _TOKEN.fullmatch(token) is None:
        expected = f"expected one token of at most {_LONGEST_TOKEN} characters"
        raise ViewError(f"--page-token-file: {shown(str(path))}: {expected}")
    return token
