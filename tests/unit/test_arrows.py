"""What each room imports, of other rooms and of other libraries. `pyproject.toml` says which rooms
lie below which; here stands each arrow that there is, so that nobody adds one without noticing.
"""

from __future__ import annotations

import ast
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
# A room that needs another one: is what it needs in the right place?
_ROOMS: Final[Mapping[str, str]] = {
    "__main__": "commands",
    "commands": (
        "completion config demo doctor election kube listen migrate observe page sandbox "
        "service view"
    ),
    "config": "core observe",
    "core": "",
    "demo": "config core kube observe sandbox",
    "doctor": "config core hooks kube nodes policy slurm",
    "election": "config core kube",
    "execute": "core facts kube nodes observe policy slurm state",
    "facts": "core kube nodes observe policy slurm state",
    "hooks": "config core listen nodes observe slurm state",
    "kube": "config core observe",
    "listen": "config",
    "migrate": "config facts kube",
    "nodes": "config core kube state",
    "observe": "core",
    "page": "config core kube listen nodes observe policy service view",
    "policy": "config core kube observe",
    "reconcile": "core execute facts kube observe state",
    "sandbox": "",
    "service": (
        "config core election execute facts hooks kube listen nodes observe policy "
        "reconcile slurm state"
    ),
    "slurm": "core observe state",
    "state": "core kube",
    "view": "config core facts kube observe slurm",
}
# A room that needs another library: is this the room that speaks to the outside in that way?
_LIBRARIES: Final[Mapping[str, str]] = {
    "completion": "groundwork",
    "config": "annotated_types annotations pydantic slurmapi yaml",
    "core": "annotations groundwork msgspec slurmapi",
    "demo": "slurmapi",
    "doctor": "aiohttp annotations groundwork msgspec pydantic slurmapi",
    "election": "structlog",
    "execute": "annotations groundwork msgspec slurmapi structlog",
    "facts": "annotations groundwork msgspec slurmapi structlog",
    "hooks": "aiohttp groundwork slurmapi structlog",
    "kube": "aiohttp groundwork kubernetes_asyncio msgspec slurmapi structlog yaml yarl",
    "listen": "aiohttp structlog",
    "migrate": "annotations groundwork msgspec yaml",
    "nodes": "annotations groundwork msgspec slurmapi structlog",
    "observe": "prometheus_client structlog",
    "page": "aiohttp annotations groundwork msgspec slurmapi structlog",
    "policy": "annotations groundwork msgspec pydantic structlog",
    "reconcile": "slurmapi structlog",
    "sandbox": "aiohttp groundwork msgspec yaml",
    "service": "aiohttp groundwork prometheus_client slurmapi structlog",
    "slurm": "groundwork slurmapi structlog",
    "state": "annotations msgspec slurmapi",
    "view": "aiohttp annotations groundwork msgspec slurmapi yaml",
}


# What core and annotations may import. Whoever adds a library here has seen that it reaches nothing
# outside of the process and asks no clock.
_COMPUTES: Final = {
    *("annotations", "groundwork", "scheduler", "slurmapi"),
    *("__future__", "bisect", "collections", "dataclasses", "datetime", "difflib", "enum"),
    *("functools", "hashlib", "heapq", "itertools", "math", "msgspec", "operator", "re"),
    *("typing", "unicodedata"),
}


# What reaches the file system, the network or other processes.
_OUTSIDE: Final = {
    *("http", "io", "multiprocessing", "os", "pathlib", "select", "selectors", "shutil", "signal"),
    *("socket", "ssl", "subprocess", "tempfile", "urllib"),
}


def _imported(source: str) -> Iterator[tuple[str, str]]:
    """The packages that a module imports, and of our own also the room."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found = [it.name for it in names]
            case ast.ImportFrom(module="scheduler", names=names, level=0):
                found = [f"scheduler.{it.name}" for it in names]
            case ast.ImportFrom(module=str(module), level=0):
                found = [module]
            case _:
                continue
        for name in found:
            package, _, rest = name.partition(".")
            yield package, rest.partition(".")[0]


def _arrows(root: Path = _ROOT) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The rooms and the libraries that each room imports."""
    rooms, libraries = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for path in sorted((root / "scheduler").rglob("*.py")):
        room = path.relative_to(root / "scheduler").parts[0].removesuffix(".py")
        for package, other in _imported(path.read_text(encoding="utf-8")):
            if package == "scheduler" and other not in {room, "", "__version__"}:
                rooms[room].add(other)
            elif package not in {"scheduler", *sys.stdlib_module_names}:
                libraries[room].add(package)
    return dict(rooms), dict(libraries)


def test_imports_are_found_in_every_form() -> None:
    source = """
        import os.path, aiohttp
        from scheduler.kube.api import KubeApi
        from scheduler import state
        def f():
            import yaml
    """
    found = set(_imported("if True:\n" + source))
    assert found == {
        ("os", "path"),
        ("aiohttp", ""),
        ("scheduler", "kube"),
        ("scheduler", "state"),
        ("yaml", ""),
    }


def test_each_room_imports_the_rooms_that_stand_here() -> None:
    rooms, _ = _arrows()
    assert rooms == {room: set(others.split()) for room, others in _ROOMS.items() if others}


def test_each_room_imports_the_libraries_that_stand_here() -> None:
    _, libraries = _arrows()
    assert libraries == {room: set(names.split()) for room, names in _LIBRARIES.items()}


def test_new_arrow_and_new_library_are_found_in_a_copy(tmp_path: Path) -> None:
    shutil.copytree(_ROOT / "scheduler", tmp_path / "scheduler")
    with (tmp_path / "scheduler" / "state" / "units.py").open("a") as source:
        source.write("\nimport aiohttp\nfrom scheduler.listen import acceptor\n")
    rooms, libraries = _arrows(tmp_path)
    assert rooms["state"] - set(_ROOMS["state"].split()) == {"listen"}
    assert libraries["state"] - set(_LIBRARIES["state"].split()) == {"aiohttp"}


def test_rooms_that_only_remember_or_decide_reach_nothing_outside() -> None:
    found = {
        f"{path.relative_to(_ROOT)}: {name}"
        for folder in ("state", "reconcile", "facts")
        for path in sorted((_ROOT / "scheduler" / folder).rglob("*.py"))
        for name, _ in _imported(path.read_text(encoding="utf-8"))
        if name in _OUTSIDE
    }
    assert found == set()


def test_libraries_of_an_import_are_found() -> None:
    source = "import os.path, math\nfrom time import sleep\ndef f():\n    import random"
    assert {package for package, _ in _imported(source)} == {"os", "math", "time", "random"}


def test_core_and_annotations_import_only_libraries_that_compute() -> None:
    found = {
        f"{path.relative_to(_ROOT)}: {name}"
        for folder in ("annotations", "scheduler/core")
        for path in sorted((_ROOT / folder).rglob("*.py"))
        for name, _ in _imported(path.read_text(encoding="utf-8"))
        if name not in _COMPUTES
    }
    assert found == set()
