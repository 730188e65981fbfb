"""Configures Slurm's hooks for one scheduler, as a site would, and removes the settings again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import trustme

from tests.support.ports import free_ports

CONF: Final = "slurm-pod-scheduler-hooks.conf"
SECRET: Final = "a-secret-of-the-hooks-in-tests"
_TOKEN: Final = "hooks.token"


class Hooked(Protocol):
    """A cluster as far as hooks are concerned; None where it has no hooks."""

    @property
    def hooks_folder(self) -> Path | None:
        """The folder for the settings of the hooks."""

    @property
    def hooks_seen_as(self) -> str:
        """The path by which the hooks see that folder."""


@contextmanager
def hooks_on(cluster: Hooked, url: str, **settings: object) -> Iterator[None]:
    """Within the block the hooks ask `url`; `settings` are further lines of their settings."""
    folder = cluster.hooks_folder
    assert folder is not None, "this cluster has no hooks"
    told = {"URL": url, "TOKEN_FILE": f"{cluster.hooks_seen_as}/{_TOKEN}"} | settings
    (folder / _TOKEN).write_text(SECRET + "\n")
    (folder / _TOKEN).chmod(0o644)  # SlurmUser must read it, and has no name here
    # Renamed into place, because a hook of another job may read it at any moment.
    lines = "".join(f"{name}='{value}'\n" for name, value in told.items())
    replace(folder / CONF, lines.encode())
    try:
        yield
    finally:
        (folder / CONF).unlink()


def secret_file(folder: Path) -> Path:
    """Write the secret into a file for the scheduler; returns its path."""
    path = folder / "hooks-secret"
    path.write_text(SECRET + "\n")
    return path


def flags_for_scripts(folder: Path, *, scheme: str = "http") -> tuple[str, ...]:
    """Flags for a scheduler that submits batch scripts which ask its hooks API."""
    (port,) = free_ports(1)
    return (
        "--placeholder-mode=script",
        f"--hooks-api-token-file={secret_file(folder)}",
        f"--hooks-api-bind-address=127.0.0.1:{port}",
        f"--hooks-api-url={scheme}://127.0.0.1:{port}",
    )


class TlsFiles:
    """Files with the certificate and key of the hooks API, and with the certificate authority."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.certificate = folder / "tls.crt"
        self.key = folder / "tls.key"
        self.issue()

    @property
    def authority(self) -> bytes:
        """The file with the certificate of the authority."""
        return self._authority.cert_pem.bytes()

    def issue(self, *, expired: bool = False) -> None:
        """Write a new certificate, signed by the same authority."""
        now = datetime.now(UTC)
        leaf = self._authority.issue_cert(
            "127.0.0.1",
            not_before=now - timedelta(days=2),
            not_after=now + timedelta(days=-1 if expired else 1),
        )
        replace(self.key, leaf.private_key_pem.bytes())
        replace(self.certificate, b"".join(it.bytes() for it in leaf.cert_chain_pems))

    def change_authority(self) -> None:
        """Write a new certificate, signed by a new authority."""
        self._authority = trustme.CA()
        self.issue()


def replace(path: Path, content: bytes) -> None:
    """Replace a file that others may be reading."""
    draft = path.with_suffix(".new")
    draft.write_bytes(content)
    os.replace(draft, path)
