from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

import pytest

from scheduler.core.naming import Owner, read_tag
from scheduler.placeholder import SCRIPT, Mode, mode_for, submission
from slurmapi import KNOWN_VERSIONS, JobSubmission
from tests.unit.core.things import REQUEST

OWNER = Owner("cluster-1", "slurm-scheduler")
UIDS = ("01234567-89ab", "fedcba98-7654")


def made(*, mode: Mode = "external", uids: tuple[str, ...] = UIDS[:1], node: str = ""):
    return submission(
        REQUEST, owner=OWNER, mode=mode, namespace="ns", name="train", uids=uids, node=node
    )


@pytest.mark.parametrize("version", KNOWN_VERSIONS, ids=str)
def test_external_jobs_are_taken_where_the_server_offers_them(version):
    assert mode_for("auto", version) == ("external" if version.number >= 43 else "script")
    assert mode_for("external", version) == "external"
    assert mode_for("script", version) == "script"


def test_external_job_has_no_script():
    job = made()
    assert (job.external, job.script) == (True, None)


def test_script_job_has_the_script():
    job = made(mode="script")
    assert (job.external, job.script) == (False, SCRIPT)


def _heed_interrupts() -> None:
    """A shell cannot trap what was ignored when it began, as SIGINT is in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_script_ends_at_once_on_a_signal(number):
    ready = SCRIPT.replace("while :;", "echo ready\nwhile :;")
    with subprocess.Popen(
        ["/bin/sh", "-c", ready],
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - no thread of ours runs here
    ) as script:
        try:
            assert script.stdout is not None
            assert script.stdout.readline() == b"ready\n"
            script.send_signal(number)
            assert script.wait(5) == 0
        finally:
            with suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)


def test_job_belongs_to_all_pods_of_its_unit():
    job = made(uids=UIDS)
    assert job.nodes == 2
    tag = read_tag(job.admin_comment)
    assert tag is not None
    assert (tag.owner, tag.uids, tag.namespace, tag.unit) == (OWNER, UIDS, "ns", "train")
    assert job.name == "ns.train.01234567"


def test_pinned_job_asks_for_its_node():
    assert made(node="n1").required_nodes == ("n1",)
    assert made().required_nodes == ()


def test_every_job_is_a_singleton_and_none_is_requeued():
    for job in (made(), made(mode="script")):
        assert isinstance(job, JobSubmission)
        assert job.singleton
        assert not job.requeue
