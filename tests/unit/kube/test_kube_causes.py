"""Each fault of the link to the API server is told with its cause; the sockets are real."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from scheduler.kube.causes import CAUSES, cause_of
from scheduler.kube.errors import KubeError, KubeInterrupted, refused
from scheduler.kube.link import KubeLink
from scheduler.kube.session import KubeSession
from scheduler.observe.metrics import Metrics
from scheduler.observe.trouble import Cause
from tests.support.names import lose_reserved_names
from tests.support.ports import free_ports
from tests.unit.kube import server
from tests.unit.kube.server import ApiStub

_ROOT = Path(__file__).parents[3]


def _kubeconfig(folder: Path, url: str, *, authority: trustme.CA | None = None) -> Path:
    cluster: dict[str, Any] = {"server": url}
    if authority is not None:
        pem = authority.cert_pem.bytes()
        cluster["certificate-authority-data"] = base64.b64encode(pem).decode()
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": "x"}}],
                "contexts": [{"name": "t", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "t",
            }
        )
    )
    return path


async def _cause(config: Path, *, seconds: float = 30.0) -> Cause:
    """What is told of a first request, which gets an answer within `seconds` or none."""
    async with await KubeSession.open(config, user_agent="t") as session:
        with pytest.raises(KubeError) as failed:
            await session.request("GET", "/x", timeout=seconds)
        cause = cause_of(failed.value, server=session.server)
    assert cause is not None
    assert session.server in cause.text
    return cause


async def test_nothing_listens(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    assert (await _cause(_kubeconfig(tmp_path, f"https://127.0.0.1:{port}"))).name == "refused"


async def test_name_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_reserved_names(monkeypatch)
    assert (await _cause(_kubeconfig(tmp_path, "https://api.invalid:6443"))).name == "unresolved"


async def test_credentials_are_refused(stub: ApiStub, tmp_path: Path) -> None:
    stub.answer("GET", "/x", server.status(401, reason="Unauthorized"))
    assert (await _cause(_kubeconfig(tmp_path, stub.url))).name == "unauthorized"


async def test_tls_where_plain_http_is_spoken(stub: ApiStub, tmp_path: Path) -> None:
    url = stub.url.replace("http:", "https:")
    assert (await _cause(_kubeconfig(tmp_path, url))).name == "tls_not_spoken"


async def test_another_authority(tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    cause = await _cause(_kubeconfig(tmp_path, url, authority=trustme.CA()))
    listener.close()
    assert cause.name == "tls_not_trusted"
    assert "certificate-authority-data" in cause.text


async def test_no_answer_in_time(tmp_path: Path) -> None:
    held: list[asyncio.StreamWriter] = []

    def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    assert (await _cause(_kubeconfig(tmp_path, url), seconds=1.0)).name == "timeout"
    listener.close()
    for writer in held:
        writer.close()


@pytest.mark.parametrize("status", [403, 404, 409, 429, 500])
def test_refusal_of_a_request_is_no_trouble_with_the_server(status: int) -> None:
    assert cause_of(refused(status), server="s") is None


def test_trouble_ends_with_any_answer_but_one_of_a_gateway() -> None:
    link = KubeLink(Metrics(), clock=lambda: 0.0)
    link.server = "https://api:6443"
    link.heard(KubeInterrupted("cut"))
    link.heard(refused(502))
    assert ["https://api:6443" in told for told in link.not_ready()] == [True]
    link.heard(refused(403))
    assert link.not_ready() == []
    link.heard(KubeInterrupted("cut"))
    link.heard(None)
    assert link.not_ready() == []


@pytest.mark.parametrize("name", CAUSES)
def test_cause_has_a_row_in_the_runbook(name: str) -> None:
    page = (_ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
    section = page.partition("## SlurmPodSchedulerNoAnswerFromKubernetes")[2].partition("\n## ")[0]
    assert f"`{name}`" in section
