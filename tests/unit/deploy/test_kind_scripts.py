"""What deploy/kind's scripts ask of docker, kind, kubectl and helm; that its files fit together.

No Docker here: the four are programs that note what they were asked, and answer as the real ones.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

import scheduler
from tests.rigs import kind_conf
from tests.support.outside import ClusterDescription

ROOT: Final = Path(__file__).parents[3]
FOLDER: Final = ROOT / "deploy/kind"
PAGE: Final = ROOT / "docs/kind.md"
NAME: Final = "slurm-pod-scheduler"
IMAGE: Final = f"{NAME}:{scheduler.__version__}"
_TOOLS: Final = ("docker", "kind", "kubectl", "helm", "python")
_SYSTEM: Final = ("base64", "bash", "cat", "dirname", "grep", "mkdir", "rm", "sed", "touch")
# Every tool is this; `world.sh` says what it answers, and sees its words in $asked.
_TOOL: Final = """#!/bin/bash
cd "${0%/*}"
asked="${0##*/} $*"
echo "$asked" >>calls
. ./world.sh
"""
# There is a Slurm as soon as its container is, and its jobs end as their pods do.
_WORLD: Final = r"""
job() { case $asked in *first*) echo 11 ;; *second*) echo 12 ;; *third*) echo 13 ;; esac; }
node() { case $asked in *second*) echo slurm-pods-worker2 ;; *) echo slurm-pods-worker ;; esac; }
case $asked in
"docker inspect --format {{.NetworkSettings"*) echo 172.18.0.5 ;;
"docker inspect "*) [ -e slurm ] && cat slurm ;;
"docker port "*) echo 127.0.0.1:49153 ;;
"docker run "*) echo "${asked##* }" >slurm ;;
"docker rm "*) rm -f slurm ;;
*"slurmctld -V") echo "slurm-wlm 26.05.5" ;;
*sinfo*) echo 2 ;;
*"scontrol token"*) echo SLURM_JWT=header.payload.signature ;;
*"cat /etc/slurm/hooks.token"*) echo hidden ;;
*squeue*"--job 11"*) [ -e first-gone ] && echo CANCELLED || echo "RUNNING slurm-pods-worker" ;;
*squeue*"--job 13"*) [ -e stories-gone ] && echo CANCELLED || echo "RUNNING slurm-pods-worker" ;;
*scancel*) touch second-gone ;;
"kind get clusters") [ -e cluster ] && echo slurm-pods ;;
"kind create "*) touch cluster "$KUBECONFIG" ;;
"kind delete "*) rm -f cluster ;;
"kubectl create secret "*) echo "secret of $(cat)" ;;
"kubectl create token "*) echo key ;;
"kubectl create "*) echo an object ;;
"kubectl config "*.server}) echo https://127.0.0.1:33001 ;;
"kubectl config "*) echo Y2VydGlmaWNhdGU= ;;
*"delete pod first"*) touch first-gone ;;
*"delete namespace stories"*) touch stories-gone ;;
*"get pod third"*.reason*) echo SlurmPending ;;
*"get pod third"*.phase*) [ -e first-gone ] && echo Running ;;
*"get pod "*.phase*) echo Running ;;
*"get pod "*job-id*) job ;;
*"get pod "*nodeName*) node ;;
*"get pod second"*) [ -e second-gone ] || echo pod/second ;;
*" apply "*) cat >>applied ;;
esac
"""


class Machine:
    """A checkout, and a folder of programs that know what the scripts need."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.programs = folder / "programs"
        self.programs.mkdir()
        for part in ("deploy/kind", "deploy/image"):
            shutil.copytree(ROOT / part, self.checkout / part)
        (self.checkout / "scheduler").mkdir()
        shutil.copy(ROOT / "scheduler/__init__.py", self.checkout / "scheduler")
        for name in _SYSTEM:
            (self.programs / name).symlink_to(str(shutil.which(name)))
        for name in _TOOLS:
            self._add(name, _TOOL)
        self._add("sleep", "#!/bin/bash\n")
        self.behaves(_WORLD)

    def _add(self, name: str, text: str) -> None:
        program = self.programs / name
        program.write_text(text)
        program.chmod(0o755)

    def behaves(self, world: str) -> None:
        """What the programs answer from now on."""
        (self.programs / "world.sh").write_text(world)

    def up(self) -> None:
        """What has to be before stories are told."""
        assert self.run("up.sh").returncode == 0
        (self.programs / "calls").unlink()
        (self.programs / "applied").unlink()

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """One of the scripts."""
        return subprocess.run(
            ("bash", str(self.checkout / "deploy/kind" / script)),
            check=False,
            capture_output=True,
            text=True,
            timeout=150,
            cwd="/",
            env={"PATH": str(self.programs), **variables},
        )

    def asked(self, *begin: str) -> list[str]:
        """The commands that began so, in order."""
        path = self.programs / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [it for it in lines if it.startswith(" ".join(begin))]

    @property
    def applied(self) -> str:
        """What kubectl was given to apply."""
        return (self.programs / "applied").read_text()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def options(command: str) -> dict[str, str]:
    """Of a command, by name; those that may be given often are joined by commas."""
    words = shlex.split(command)
    found: dict[str, str] = {}
    for word, value in pairwise(words):
        if word.startswith("--"):
            found[word] = f"{found[word]},{value}" if word in found else value
    return found


def test_up_makes_a_kubernetes_a_slurm_and_the_scheduler_between_them(machine: Machine):
    done = machine.run("up.sh")
    assert done.returncode == 0, done.stderr
    (create,) = machine.asked("kind", "create", "cluster")
    assert options(create)["--config"] == "deploy/kind/cluster.yaml"
    slurm, image = machine.asked("docker", "build")
    assert "BASE=debian:sid-slim,RELEASE=26.05" in options(slurm)["--build-arg"]
    assert options(image)["--tag"] == IMAGE
    (run,) = machine.asked("docker", "run")
    assert options(run)["--network"] == "kind"
    assert options(run)["--hostname"] == "slurm"
    assert machine.asked("kind", "load") == [f"kind load docker-image {IMAGE} --name slurm-pods"]
    (install,) = machine.asked("helm")
    assert install.startswith(f"helm upgrade --install {NAME} deploy/helm/{NAME} ")
    assert options(install)["--set"].split(",") == [
        f"scheduler.image.tag={scheduler.__version__}",
        "scheduler.hostAliases[0].ip=172.18.0.5",
        "scheduler.hostAliases[0].hostnames[0]=slurm",
    ]


def test_secrets_reach_the_cluster_and_no_command_line(machine: Machine):
    machine.run("up.sh")
    assert "secret of SLURM_JWT=header.payload.signature" in machine.applied
    assert "secret of hidden" in machine.applied
    assert not [it for it in machine.asked() if "payload" in it or "hidden" in it]
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())["scheduler"]
    wanted = {
        values["config"]["slurm"]["token"]["existingSecret"]: "auth-token",
        values["hooks"]["existingSecret"]: "token",
    }
    given = {it.split()[4]: it.split("--from-file=")[1] for it in machine.asked("kubectl create s")}
    assert {name: it.split("=")[0] for name, it in given.items()} == wanted


def test_second_run_keeps_cluster_and_queue_and_upgrades_the_rest(machine: Machine):
    assert machine.run("up.sh").returncode == 0
    assert machine.run("up.sh").returncode == 0
    assert len(machine.asked("kind", "create")) == 1
    assert len(machine.asked("docker", "run")) == 1
    assert machine.asked("docker", "start") == ["docker start slurm-pods-slurm"]
    assert len(machine.asked("helm", "upgrade")) == 2


def test_release_of_slurm_and_images_are_the_users_choice(machine: Machine):
    machine.run("up.sh", RELEASE="24.11", NODE_IMAGE="mirror.example/node:1")
    (create,) = machine.asked("kind", "create")
    assert options(create)["--image"] == "mirror.example/node:1"
    slurm = machine.asked("docker", "build")[0]
    assert "BASE=debian:trixie-slim,RELEASE=24.11" in options(slurm)["--build-arg"]
    machine.run("down.sh")
    machine.run("up.sh", SLURM_BASE="mirror.example/debian:sid")
    assert "BASE=mirror.example/debian:sid" in machine.asked("docker", "build")[-2]


def test_other_release_is_refused_while_one_is_up(machine: Machine):
    machine.run("up.sh")
    done = machine.run("up.sh", RELEASE="24.11")
    assert done.returncode == 1
    assert "slurm-pods-slurm:26.05 is up: deploy/kind/down.sh before Slurm 24.11" in done.stderr
    assert len(machine.asked("docker", "run")) == 1


def test_release_that_is_not_there_is_named(machine: Machine):
    done = machine.run("up.sh", RELEASE="25.05")
    assert (done.returncode, machine.asked()) == (2, [])
    assert "RELEASE is 25.05: expected 26.05 or 24.11" in done.stderr


@pytest.mark.parametrize("script", ["up.sh", "test.sh", "stories.sh", "down.sh"])
def test_program_that_is_missing_is_named(machine: Machine, script: str):
    (machine.programs / "docker").unlink()
    done = machine.run(script)
    assert done.returncode == 1
    assert done.stderr == "docker is missing (docs/kind.md)\n"


@pytest.mark.parametrize("script", ["up.sh", "test.sh", "stories.sh", "down.sh"])
def test_docker_without_its_daemon_is_told_of(machine: Machine, script: str):
    machine.behaves("exit 1")
    done = machine.run(script)
    assert done.returncode == 1
    assert "docker does not answer" in done.stderr
    assert not machine.asked("kind")


def test_stories_hold_where_pods_and_jobs_do_as_they_should(machine: Machine):
    machine.up()
    done = machine.run("test.sh")
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^== ", done.stdout, re.MULTILINE)) == 6
    assert machine.asked("helm test")
    assert machine.asked("docker exec slurm-pods-slurm scancel 12")
    made = [it["metadata"]["name"] for it in yaml.safe_load_all(_pods(machine.applied))]
    assert made == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("fault", "held"),
    [
        ('"helm test"*) exit 1 ;;', 0),
        ('*squeue*"--job 11"*) echo "RUNNING slurm-pods-worker2" ;;', 1),
        ('*"get pod second"*nodeName*) echo slurm-pods-worker ;;', 2),
        ("*scancel*) exit 1 ;;", 4),
    ],
    ids=["helm test", "on another node", "two on one node", "scancel"],
)
def test_story_that_does_not_hold_ends_with_a_picture(machine: Machine, fault: str, held: int):
    machine.up()
    machine.behaves(_WORLD.replace("case $asked in\n", f"case $asked in\n{fault}\n"))
    done = machine.run("test.sh")
    assert done.returncode == 1
    assert len(re.findall(r"^== ", done.stdout, re.MULTILINE)) == held
    assert machine.asked("kubectl", "--namespace", "stories", "describe")
    assert machine.asked("kubectl", "logs", f"deployment/{NAME}")


def test_stories_of_the_project_are_told_where_the_file_says(machine: Machine):
    machine.up()
    done = machine.run("stories.sh", PYTHON="python")
    assert done.returncode == 0, done.stderr
    folder = machine.checkout / "build/kind"
    file = folder / "cluster.json"
    assert machine.asked("python") == [f"python -m pytest tests/stories --cluster {file}"]
    description = msgspec.json.decode(file.read_bytes(), type=ClusterDescription)
    assert description.release == "26.05"
    assert description.nodes == kind_conf.NODES
    assert description.container["image"] == IMAGE
    assert (description.kube_url, description.slurm_url) == (
        "https://127.0.0.1:33001",
        "http://127.0.0.1:49153",
    )
    secrets = (description.kube_ca, description.kube_token_file, description.slurm_token_file)
    assert [Path(str(it)).read_text().strip() for it in secrets] == [
        "certificate",
        "key",
        "header.payload.signature",
    ]
    assert all(Path(str(it)).stat().st_mode & 0o077 == 0 for it in secrets)


@pytest.mark.parametrize("status", [0, 1])
def test_installed_scheduler_rests_while_the_stories_are_told(machine: Machine, status: int):
    machine.up()
    machine.behaves(f"case $asked in python*) exit {status} ;; esac\n{_WORLD}")
    assert machine.run("stories.sh", PYTHON="python").returncode == status
    scaled = [it.split("--replicas ")[1] for it in machine.asked("kubectl", "scale")]
    assert scaled == ["0", "1"]
    hooks = [it.split("mv ")[1] for it in machine.asked("docker exec slurm-pods-slurm bash")]
    conf = "/etc/slurm/slurm-pod-scheduler-hooks.conf"
    assert hooks == [f"{conf} {conf}.off", f"{conf}.off {conf}"]


@pytest.mark.parametrize("script", ["test.sh", "stories.sh"])
def test_stories_need_a_cluster(machine: Machine, script: str):
    done = machine.run(script, PYTHON="python")
    assert (done.returncode, machine.asked("kubectl")) == (1, [])
    assert "there is no cluster: deploy/kind/up.sh makes one" in done.stderr


def test_stories_need_a_python(machine: Machine):
    machine.up()
    done = machine.run("stories.sh")
    assert (done.returncode, machine.asked("kubectl")) == (1, [])
    assert ".venv/bin/python is missing" in done.stderr


def test_down_takes_away_what_up_made(machine: Machine):
    machine.run("up.sh")
    assert machine.run("down.sh").returncode == 0
    assert machine.asked("docker", "rm") == ["docker rm --force slurm-pods-slurm"]
    assert machine.asked("kind", "delete") == ["kind delete cluster --name slurm-pods"]


@pytest.mark.parametrize(("name", "text"), list(kind_conf.made()), ids=lambda it: str(it)[:16])
def test_slurm_conf_is_that_of_the_rigs(name: str, text: str):
    assert (FOLDER / name).read_text() == text, "run: make docs"


def test_slurm_knows_the_workers_of_the_cluster():
    cluster = yaml.safe_load((FOLDER / "cluster.yaml").read_text())
    workers = [it for it in cluster["nodes"] if it["role"] == "worker"]
    names = [f"{cluster['name']}-worker{index if index > 1 else ''}" for index in (1, 2)]
    assert len(workers) == len(names)
    assert tuple(names) == kind_conf.NODES
    assert f"CLUSTER={cluster['name']}\n" in (FOLDER / "common.sh").read_text()


def test_slurm_reaches_the_hooks_where_the_chart_serves_them():
    hooks = yaml.safe_load((FOLDER / "values.yaml").read_text())["scheduler"]["hooks"]
    assert hooks["url"] == f"http://{kind_conf.NODES[0]}:{hooks['service']['nodePort']}"
    url = hooks["url"].replace(kind_conf.NODES[0], "$CLUSTER-worker")
    assert f"HOOKS_URL={url}" in (FOLDER / "up.sh").read_text()


def test_pod_of_the_stories_fills_a_slurm_node_and_is_of_the_image():
    pod = yaml.safe_load((FOLDER / "pod.yaml").read_text())["spec"]
    (container,) = pod["containers"]
    assert container["image"] == IMAGE
    assert pod["schedulerName"] == "slurm-scheduler"
    assert container["resources"]["requests"]["cpu"] == "1500m"
    sizes = re.findall(
        r"^NodeName=\S+worker.* CPUs=(\d+)", "".join(dict(kind_conf.made()).values()), re.M
    )
    assert set(sizes) == {"2"}


def test_page_tells_of_each_variable_and_file():
    page = PAGE.read_text()
    scripts = (FOLDER / "up.sh").read_text() + (FOLDER / "stories.sh").read_text()
    used = set(re.findall(r"\$\{([A-Z_]+):-", scripts))
    assert set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE)) == used
    for it in FOLDER.iterdir():
        assert it.name in page, f"{it.name} is not told of"


def _pods(applied: str) -> str:
    return "---\n".join(it for it in re.split(r"(?m)^(?=# A pod)", applied) if "kind: Pod" in it)
