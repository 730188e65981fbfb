"""What the documentation says exists: links, commands, flags, targets, settings."""

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from annotations.keys import DEFINITIONS
from scheduler.__main__ import main
from scheduler.commands.every import parser
from scheduler.config.settings import ENV_PREFIX, Settings

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "README.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
PACKAGES = ("annotations", "groundwork", "scheduler", "slurmapi")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), TESTS])
README = ROOT / "README.md"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WIDEST = 120
_INLINE = re.compile(r"`([^`\n]+)`")
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
_TEST = re.compile(r"`(test_\w+)`")
_MODULE = re.compile(r"`([\w./-]+\.py)`")
# `Class.member` and `module.member`; the fields of a pod's spec look alike.
_MEMBER = re.compile(r"`(?!spec\.)([A-Za-z]\w*)\.(?!(?:py|sh|toml)`)(\w+)(?:\(\))?`")
_PATH = re.compile(r"`((?:annotations|benchmarks|docs|scheduler|slurmapi|tests)/[\w./-]*)`")


def relative_links() -> list[tuple[Path, str]]:
    return [
        (document, link)
        for document in DOCUMENTS
        for link in _LINK.findall(document.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", link)
    ]


def command_lines(document: Path, program: str) -> list[list[str]]:
    """The words behind `program` in the document's fences and inline code, comments removed."""
    text = document.read_text(encoding="utf-8")
    fences = _FENCE.findall(text)
    inline = _INLINE.findall(_FENCE.sub("", text))
    joined = "\n".join([*fences, *inline]).replace("\\\n", " ")
    found = []
    for line in joined.splitlines():
        words = shlex.split(line, comments=True) if line.startswith(f"{program} ") else []
        if words:
            found.append(words[1:])
    return found


def subcommands() -> dict[str, argparse.ArgumentParser]:
    for action in parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the command line has no subcommands")


def plugin_lines() -> Iterator[list[str]]:
    """The words behind `kubectl slurm` in all documents."""
    for document in DOCUMENTS:
        for words in command_lines(document, "kubectl"):
            if words[0] == "slurm":
                yield words[1:]


def flags_of(command: str) -> set[str]:
    return set(subcommands()[command]._option_string_actions)


def documented() -> Iterator[tuple[str, list[str]]]:
    for document in DOCUMENTS:
        for words in command_lines(document, "slurm-pod-scheduler"):
            yield document.name, words


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda it: it.name)
def test_no_line_of_prose_is_wider_than_a_screen(document):
    wide, fenced = [], False
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        if len(line) > _WIDEST and not fenced and not line.startswith("|"):
            wide.append(number)
    assert not wide


@pytest.mark.parametrize(("document", "link"), relative_links(), ids=str)
def test_relative_link_leads_somewhere(document, link):
    path, _, anchor = link.partition("#")
    target = (document.parent / path) if path else document
    assert target.exists()
    if anchor:
        headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert anchor in slugs


@pytest.fixture(scope="module")
def functions() -> set[str]:
    """Names of all tests there are."""
    return {
        it.name
        for path in (ROOT / "tests").glob("**/test_*.py")
        for it in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_test_that_is_named_exists(document, functions):
    named = set(_TEST.findall(document.read_text(encoding="utf-8")))
    assert not named - functions


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_path_that_is_named_exists(document):
    named = _PATH.findall(document.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def modules(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from (ROOT / package).glob("**/*.py")


def names_in(body: list[ast.stmt]) -> set[str]:
    """What the statements of a class or a module define."""
    found = set()
    for it in body:
        match it:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(it.name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
            case _:
                pass
    return found


def test_module_that_the_architecture_names_exists():
    named = set(_MODULE.findall(ARCHITECTURE.read_text(encoding="utf-8")))
    assert named
    paths = [path.as_posix() for path in modules(*PACKAGES, "docs", "tests")]
    assert {it for it in named if not any(path.endswith(f"/{it}") for path in paths)} == set()


def test_module_that_the_docstring_of_another_names_exists():
    """It stands beside the other, or it is named from `scheduler/` or from the root."""
    named = [
        (path, name)
        for path in modules(*PACKAGES)
        for name in _MODULE.findall(ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
    ]
    assert named
    places = (lambda path: path.parent, lambda _path: ROOT / "scheduler", lambda _path: ROOT)
    lost = [it for it in named if not any((place(it[0]) / it[1]).exists() for place in places)]
    assert lost == []


def test_member_that_the_architecture_names_exists():
    named = set(_MEMBER.findall(ARCHITECTURE.read_text(encoding="utf-8")))
    assert named
    known = {
        (owner, name)
        for path in modules(*PACKAGES)
        for module in (ast.parse(path.read_text(encoding="utf-8")),)
        for owner, body in (
            (path.stem, module.body),
            *((it.name, it.body) for it in module.body if isinstance(it, ast.ClassDef)),
        )
        for name in names_in(body)
    }
    assert named - known == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_file_to_deploy_that_is_named_exists(document):
    """In commands as well as in the text."""
    folders = "admission|examples|helm|image|kind|manifests|slurm"
    text = document.read_text(encoding="utf-8")
    named = re.findall(rf"\bdeploy/(?:{folders})(?:/[\w./-]*[\w/])?(?![\w.-])", text)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_readme_begins_with_the_commands_of_a_fresh_clone():
    first, second = _FENCE.findall(README.read_text(encoding="utf-8"))[:2]
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
    assert [line.split("#")[0].strip() for line in second.splitlines()] == [
        "make rig",
        "make test-live",
        "bash .ci/run",
    ]
    assert (ROOT / ".ci" / "run").exists()


def test_documents_show_a_command_line_of_each_subcommand():
    shown = {words[0] for _, words in documented()}
    assert {"run", "sandbox"} <= shown


@pytest.mark.parametrize(("document", "words"), list(documented()), ids=str)
def test_command_line_that_is_shown_is_one(document, words):
    command, *rest = words
    assert command in subcommands()
    if command == "run":  # settings are strings to argparse, and judged by Settings
        given = {word.partition("=")[0] for word in rest if word.startswith("-")}
        assert given <= flags_of("run")
    elif "--help" not in rest:
        parser().parse_args(words)


@pytest.mark.parametrize("words", list(plugin_lines()), ids=str)
def test_line_of_the_kubectl_plugin_that_is_shown_is_one(words):
    assert words[0] in subcommands()
    parser().parse_args(words)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_target_that_is_named_exists(document):
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    for words in command_lines(document, "make"):
        assert {word for word in words if "=" not in word} <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_flag_that_is_named_exists(document):
    known = {flag for command in subcommands() for flag in flags_of(command)}
    text = _FENCE.sub("", document.read_text(encoding="utf-8"))
    sbatch = {option for it in DEFINITIONS for option in it.slurm_option.split(", ")}
    named = {word.partition("=")[0] for word in re.findall(r"`(--[a-z][a-z-]*[^`\s]*)`", text)}
    assert named <= known | sbatch


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_environment_variable_that_is_named_sets_something(document):
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields}
    assert set(re.findall(rf"{ENV_PREFIX}[A-Z_]+", document.read_text(encoding="utf-8"))) <= known


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["run"],
        ["queue"],
        ["explain"],
        ["partitions"],
        ["migrate"],
        ["completion"],
        ["nodes"],
        ["sandbox"],
        ["demo"],
    ],
    ids=str,
)
def test_help_fits_a_terminal_of_100_columns(words, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= 100
    assert all(flag in output for flag in (flags_of(words[0]) if words else {"--version"}))


def test_every_folder_of_tests_is_told_of() -> None:
    folders = {f"tests/{it.parent.name}" for it in (ROOT / "tests").glob("*/__init__.py")}
    assert folders
    assert not folders - {found.removesuffix("/") for found in _PATH.findall(TESTS.read_text())}


def test_every_folder_is_told_of() -> None:
    made = {line.strip("/") for line in (ROOT / ".gitignore").read_text("utf-8").splitlines()}
    folders = {it.name for it in ROOT.iterdir() if it.is_dir()} - made - {".git"}
    rows = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("| Folder |")[2]
    assert not folders - {*re.findall(r"`([\w.]+)`", rows.partition("\n\n")[0])}


def test_every_shared_helper_stands_on_the_page_of_helpers() -> None:
    folder = ROOT / "tests" / "support"
    helpers = {f"tests/support/{it.name}" for it in folder.glob("[!_]*.py")}
    assert helpers
    assert not helpers - set(_PATH.findall(TESTS.read_text("utf-8")))
