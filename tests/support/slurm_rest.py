"""Raw HTTP to slurmrestd, one connection per request; it shares no code with the scheduler.

http.client reads only the first of the two responses that 26.05 sends to a failed request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

# The newest API version that each release serves (measured on 26.05.5 and 24.11.5).
API_VERSIONS: Final = {"26.05": "v0.0.45", "24.11": "v0.0.42"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: `body` is the decoded JSON, or {"text": ...} where it is not JSON."""

    status: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        return self.status < 300 and not self.body.get("errors")


class SlurmRest:
    """slurmrestd at `url` ("http://HOST:PORT" or "unix:/PATH"), seen with one token."""

    def __init__(self, url: str, *, major: str, token: str, seconds: float = 30.0) -> None:
        self._url = url
        self._base = f"/slurm/{API_VERSIONS[major]}/"
        self._token = token
        self._seconds = seconds

    def request(self, method: str, path: str, *, body: Mapping[str, Any] | None = None) -> Answer:
        """Ask for a path such as "job/7". Raises OSError, http.client.HTTPException."""
        connection = self._connect()
        headers = {"X-SLURM-USER-TOKEN": self._token, "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, self._base + path, body=text, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, _decoded(response.read()))
        finally:
            connection.close()

    def responding(self) -> bool:
        """True when slurmrestd reaches a controller that accepts our token."""
        try:
            answer = self.request("GET", "ping/")
        except (OSError, http.client.HTTPException):
            return False
        return any(ping.get("responding") for ping in answer.body.get("pings", ()))

    def _connect(self) -> http.client.HTTPConnection:
        if self._url.startswith("unix:"):
            return _UnixConnection(self._url.removeprefix("unix:"), seconds=self._seconds)
        parts = urlsplit(self._url)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self._seconds)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, *, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def mint(key: bytes, user: str, *, seconds: int = 86400) -> str:
    """A token as slurmctld accepts it: HS256, the user in the claim "sun"; it must have "exp"."""
    now = int(time.time())
    claims = {"exp": now + seconds, "iat": now, "sun": user}
    signed = ".".join(_encoded(part) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return signed + "." + _base64(hmac.digest(key, signed.encode(), hashlib.sha256))


def read_token(path: Path) -> str:
    """The token in a file."""
    return path.read_text().strip()


def _encoded(part: Mapping[str, Any]) -> str:
    return _base64(json.dumps(part, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except ValueError:
        return {"text": data.decode(errors="replace")}
    return body if isinstance(body, dict) else {"body": body}
