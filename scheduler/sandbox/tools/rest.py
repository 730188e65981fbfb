"""Requests to slurmrestd. Its answer to a failed request may come twice: the first one counts."""

from __future__ import annotations

import http.client
import json
from typing import Any, Final
from urllib.parse import urlsplit

# Both releases that the sandbox plays have it.
_VERSION: Final = "v0.0.42"
_SECONDS: Final = 30.0
_ERROR: Final = 400

Record = dict[str, Any]
"""A job, node or partition as slurmrestd shows it."""


class RestError(Exception):
    """Slurm refuses the request, in its words."""


class Rest:
    """One slurmrestd, with one user's token."""

    def __init__(self, url: str, token: str) -> None:
        self._host = urlsplit(url).netloc
        self._headers = {"X-SLURM-USER-TOKEN": token, "Content-Type": "application/json"}

    def records(self, kind: str) -> list[Record]:
        """All records of a kind: jobs, nodes or partitions."""
        found: list[Record] = self.ask("GET", f"{kind}/")[kind]
        return found

    def ask(self, method: str, path: str, body: Record | None = None) -> Record:
        """The answer. Raises RestError, and OSError if there is none."""
        connection = http.client.HTTPConnection(self._host, timeout=_SECONDS)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, f"/slurm/{_VERSION}/{path}", data, self._headers)
            response = connection.getresponse()
            answer = _decoded(response.read())
        except http.client.HTTPException as error:
            raise RestError(f"slurmrestd: {error!r}") from error
        finally:
            connection.close()
        errors = answer.get("errors") or []
        if errors or response.status >= _ERROR:
            said = [it.get("error") or it.get("description") or "" for it in errors]
            raise RestError(next(filter(None, said), f"status {response.status} of slurmrestd"))
        return answer


def _decoded(body: bytes) -> Record:
    try:
        found = json.loads(body)
    except ValueError as error:
        raise RestError("slurmrestd answers something that is not JSON") from error
    if not isinstance(found, dict):
        raise RestError("slurmrestd answers something that is no object")
    return found


def number(value: Record) -> int | None:
    """A number as slurmrestd writes it; None if it is not set, or infinite."""
    return int(value["number"]) if value["set"] and not value["infinite"] else None


def commas(text: str) -> frozenset[str]:
    """The words of a comma-separated text."""
    return frozenset(filter(None, (word.strip() for word in text.split(","))))
