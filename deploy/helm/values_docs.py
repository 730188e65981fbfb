"""`python -m deploy.helm.values_docs`: copies the comments of values.yaml to schema and docs.

The comment above a key in values.yaml becomes its description in values.schema.json, which editors
and helm show, and its row in docs/helm-values.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from docs._make.pages import rewritten

Keys = tuple[str, ...]

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy/helm/slurm-pod-scheduler"
VALUES: Final = CHART / "values.yaml"
SCHEMA: Final = CHART / "values.schema.json"
FLAGS: Final = CHART / "files/flags.yaml"
PAGE: Final = ROOT / "docs/helm-values.md"

_KEY: Final = re.compile(r"(?P<indent> *)(?P<name>[\w./-]+):( (?P<value>.*))?")
_HEAD: Final = ("Value", "Default", "Flag", "Meaning")


def comments(text: str) -> dict[Keys, str]:
    """The comment above each key of values.yaml, by the path of the key."""
    found: dict[Keys, str] = {}
    above: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        key = _KEY.fullmatch(line)
        if line.strip().startswith("#"):
            above.append(line.strip().removeprefix("#").strip())
            continue
        if key is not None:
            path = [*path[: len(key["indent"]) // 2], key["name"]]
            if above:
                found[tuple(path)] = " ".join(above)
        above = []
    return found


def leaves(values: Mapping[str, Any], descriptions: Mapping[Keys, str]) -> dict[Keys, Any]:
    """The default of each value that has a comment of its own."""
    return {path: _at(values, path) for path in descriptions}


def described(
    schema: dict[str, Any], descriptions: Mapping[Keys, str], path: Keys = ()
) -> dict[str, Any]:
    """The schema, with these descriptions in place of its own."""
    found = dict(schema)
    if path in descriptions:
        found = {"description": descriptions[path]} | found | {"description": descriptions[path]}
    if "properties" in schema:
        found["properties"] = {
            name: described(part, descriptions, (*path, name))
            for name, part in schema["properties"].items()
        }
    return found


def table() -> str:
    """All values as a Markdown table."""
    text = VALUES.read_text(encoding="utf-8")
    descriptions = comments(text)
    flags = {path: flag for flag, path in yaml.safe_load(FLAGS.read_text("utf-8")).items()}
    rows = [_HEAD, ("---",) * len(_HEAD)]
    for path, default in leaves(yaml.safe_load(text), descriptions).items():
        flag = flags.get(".".join(path[1:]))
        rows.append(
            (
                f"`{'.'.join(path)}`",
                f"`{json.dumps(default, ensure_ascii=False)}`",
                f"`--{flag}`" if flag else "",
                descriptions[path].replace("|", "\\|"),
            )
        )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def rendered_schema() -> str:
    """values.schema.json with the descriptions that values.yaml has now."""
    descriptions = comments(VALUES.read_text(encoding="utf-8"))
    schema = described(json.loads(SCHEMA.read_text(encoding="utf-8")), descriptions)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Rewrite the schema and the page."""
    SCHEMA.write_text(rendered_schema(), encoding="utf-8")
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), table()), encoding="utf-8")


def _at(values: Mapping[str, Any], path: Keys) -> Any:
    found: Any = values
    for name in path:
        found = found[name]
    return found


if __name__ == "__main__":
    main()
