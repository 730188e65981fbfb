"""The live page in a real browser, on the sandbox: what people see, and that pods cannot make it
do anything.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from scheduler.kube.session import KubeSession
from tests.support.browser import Tab, tab
from tests.support.pods import pod
from tests.support.ports import free_ports
from tests.support.sandbox import SandboxCluster
from tests.support.scheduler import SchedulerProcess

_ROOT: Final = Path(__file__).parents[2]
_MARKUP: Final = "<img/src=x/onerror=document.title='taken'>"
_LARGEST_PICTURE: Final = 150_000
_MANY: Final = 60

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def cluster() -> Iterator[SandboxCluster]:
    with SandboxCluster("26.05", nodes=12) as cluster:
        yield cluster


@pytest.fixture
def access() -> str:
    return "open"


@pytest.fixture
def url(cluster: SandboxCluster, tmp_path: Path, access: str) -> Iterator[str]:
    (port,) = free_ports(1)
    flags = (f"--page-bind-address=127.0.0.1:{port}", f"--page-access={access}")
    with SchedulerProcess(cluster, folder=tmp_path, flags=flags):
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
async def kube(cluster: SandboxCluster) -> AsyncIterator[KubeSession]:
    async with await KubeSession.open(cluster.kubeconfig, user_agent="test") as session:
        yield session


@pytest.fixture
async def browser() -> AsyncIterator[Tab]:
    async with tab() as found:
        yield found


async def _create(kube: KubeSession, name: str, **more: Any) -> None:
    body = pod(name, **more)
    await kube.request("POST", "/api/v1/namespaces/default/pods", body=body)


async def _native_job(cluster: SandboxCluster) -> None:
    command = (*(sys.executable, "-m", "scheduler.sandbox.tools"), cluster.slurm_url)
    words = ("sbatch", "--gres=gpu:3", "--cpus-per-task=8", "--wrap=sleep 1000")
    process = await asyncio.create_subprocess_exec(
        *command, str(cluster.slurm_token_file), *words, cwd=_ROOT
    )
    assert await process.wait() == 0


async def test_page_shows_pods_nodes_gangs_and_stories_and_runs_nothing_of_theirs(
    cluster: SandboxCluster, url: str, kube: KubeSession, browser: Tab, tmp_path: Path
) -> None:
    await _native_job(cluster)
    await _create(kube, "notebook", gpus=2, slurm={"account": _MARKUP, "comment": _MARKUP})
    for rank in range(3):
        asks = {"gang": "trainer", "gang-size": "3"}
        await _create(kube, f"trainer-{rank}", gpus=4, slurm=asks)
    await asyncio.gather(*(_create(kube, f"sweep-{it:03}", gpus=4) for it in range(_MANY)))
    await _create(kube, "refused", slurm={"partition": _MARKUP, "timeout": _MARKUP})

    await browser.size(1280, 800)
    await browser.open(url)
    await browser.until(f"document.querySelector('#count')?.textContent === '{_MANY + 5} pods'")
    await browser.until("document.querySelector('#summary').innerText.includes('Running\\n2')")
    rows = "document.querySelectorAll('.body .row').length"
    assert 10 <= await browser.value(rows) < _MANY
    await browser.until("document.querySelector('#table').innerText.includes('Resources')")

    await _pictures(browser, tmp_path, "queue")
    await browser.value("document.querySelector('.body [tabindex=\"0\"]').focus()")
    await browser.press("End")
    # The three pods of the gang have one row.
    await browser.until(f"document.activeElement.getAttribute('aria-rowindex') === '{_MANY + 4}'")

    await _filter(browser, "trainer")
    await browser.until(f"{rows} === 1")
    await browser.value("document.querySelector('.body .row').focus()")
    await browser.press("Enter")
    await browser.until(f"{rows} === 4")
    await _pictures(browser, tmp_path, "gang")
    await browser.press("ArrowLeft")
    await browser.until(f"{rows} === 1")
    await browser.value("document.querySelector('#fold').click()")
    await browser.until(f"{rows} === 3")
    await browser.value("document.querySelector('#fold').click()")

    await _filter(browser, "refused")
    await browser.until(f"{rows} === 1")
    await browser.value("document.querySelector('.body .row').focus()")
    await browser.press("Enter")
    await browser.until("document.querySelector('#story-text').innerText.includes('onerror')")
    await browser.until("document.querySelector('#story-text').innerText.includes('Created')")
    await _pictures(browser, tmp_path, "story")
    await browser.press("Escape")
    await browser.until("!document.querySelector('#story').open")

    await browser.value("document.querySelector('#tab-queue').focus()")
    await browser.press("ArrowRight")
    held = "document.querySelectorAll('#nodes .unit.jobs[class]').length"
    await browser.until(f"{held} >= 3 && document.querySelectorAll('#nodes .card').length === 12")
    await _pictures(browser, tmp_path, "nodes")
    await browser.press("ArrowRight")
    await browser.until("document.querySelectorAll('#gangs .slot').length === 3")
    await _pictures(browser, tmp_path, "gangs")

    await browser.press("ArrowRight")
    await browser.until("document.querySelectorAll('#times .span').length >= 4")
    await kube.request("DELETE", "/api/v1/namespaces/default/pods/notebook")
    await browser.until("document.querySelector('#times .span.over')?.textContent === 'notebook'")
    await _pictures(browser, tmp_path, "times")

    for namespace, count in (("elsewhere", "0 pods"), ("default", f"{_MANY + 4} pods")):
        await browser.open(f"{url}?namespace={namespace}")
        said = "document.querySelector('#status')?.innerText"
        await browser.until(f"{said}?.startsWith('live, namespace {namespace}')")
        await browser.until(f"document.querySelector('#count')?.textContent === '{count}'")

    assert await browser.value("document.title") == "Slurm pod scheduler"
    assert await browser.value("document.querySelectorAll('img').length") == 0
    assert browser.said == []
    await browser.open(f"{url}?namespace=No/such")
    await browser.until("/expected the name of a namespace/.test(document.body?.innerText)")


@pytest.mark.parametrize("access", ["token"])
async def test_page_is_for_those_whose_token_kubernetes_accepts(
    cluster: SandboxCluster, url: str, kube: KubeSession, browser: Tab
) -> None:
    await _create(kube, "notebook")
    await browser.size(1280, 800)
    await browser.open(url)
    for token in ("wrong", _token(cluster)):
        await browser.until("document.activeElement?.id === 'token'")
        assert await browser.value("document.querySelector('main').hidden")
        await browser.call("Input.insertText", text=token)
        await browser.press("Enter")
        said = "document.querySelector('#status').innerText"
        await browser.until(f"/not accept|live/.test({said})")
    await browser.until("document.querySelector('#count')?.textContent === '1 pod'")
    assert await browser.value("document.querySelector('#sign-in').hidden")
    assert await browser.value("document.querySelector('#token').value") == ""


def _token(cluster: SandboxCluster) -> str:
    """The sandbox's kubeconfig has it as the password in the URL."""
    found = yaml.safe_load(Path(cluster.kubeconfig).read_text())["clusters"][0]["cluster"]
    return str(urlsplit(found["server"]).password)


async def _filter(browser: Tab, text: str) -> None:
    await browser.value(f"document.querySelector('#filter').value = '{text}'")
    await browser.value("document.querySelector('#filter').dispatchEvent(new Event('input'))")


async def _pictures(browser: Tab, folder: Path, name: str) -> None:
    """Of all sizes and colours; nothing may be wider than the window. With $PAGE_PICTURES they are
    kept in that folder.
    """
    folder = Path(os.environ.get("PAGE_PICTURES") or folder)
    for width in (1280, 400):
        for dark in (False, True):
            await browser.size(width, 800, dark=dark)
            path = folder / f"page-{name}-{width}-{'dark' if dark else 'light'}.png"
            await browser.picture(path)
            assert path.stat().st_size <= _LARGEST_PICTURE
        assert await browser.value("document.documentElement.scrollWidth") <= width
    await browser.size(1280, 800)
