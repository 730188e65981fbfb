"""The Helm chart's values fit the scheduler's settings, its schema and its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

import scheduler
from deploy.helm import admission as chart_admission
from deploy.helm import values_docs as chart
from docs._make.pages import rewritten
from scheduler.config.settings import Settings

VALUES = yaml.safe_load(chart.VALUES.read_text())
TOLD = chart.comments(chart.VALUES.read_text())
SCHEMA = json.loads(chart.SCHEMA.read_text())
FLAGS = yaml.safe_load(chart.FLAGS.read_text())
ARGUMENTS = (chart.CHART / "templates/_arguments.tpl").read_text()
# Reached by `extraArgs` alone, with the reason.
BY_HAND = {
    "kubeconfig": "a pod has a service account",
    "components": "there is one",
    "leader-elect-resource-namespace": "the chart gives rights in the release's own",
    "page-access": "in a pod, whoever may forward a port would see all namespaces",
    "slurm-auth-token": "a token in the arguments is seen by all who read pods",
}


def flag_of(field: str) -> str:
    return field.replace("_", "-")


def in_templates() -> set[str]:
    return set(re.findall(r"--([a-z-]+)=", ARGUMENTS))


def given(path: str) -> Any:
    found = VALUES["scheduler"]
    for name in path.split("."):
        found = found[name]
    return found


def as_word(value: Any) -> Any:
    """As the chart writes it on the command line."""
    if isinstance(value, dict):
        return ",".join(f"{key}={it}" for key, it in value.items())
    return ",".join(value) if isinstance(value, list) else value


def leaves(schema: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, part in schema["properties"].items():
        if "description" in part:
            yield (*path, name)
        else:
            yield from leaves(part, (*path, name))


def objects(schema: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(schema, dict):
        if "properties" in schema:
            yield path, schema
        for name, part in schema.items():
            yield from objects(part, f"{path}/{name}")


def takes(part: Mapping[str, Any], value: float | str) -> bool:
    """Whether this part of the schema accepts a duration, as far as zero is concerned."""
    if not isinstance(value, str):
        return bool(value > part.get("exclusiveMinimum", -1))
    return all(re.search(it["pattern"], value) for it in (part, *part.get("allOf", ())))


def test_every_setting_is_a_value_or_left_to_extra_args():
    settings = {flag_of(field) for field in Settings.model_fields}
    reached = [*FLAGS, *in_templates(), *BY_HAND]
    assert sorted(reached) == sorted(settings)


@pytest.mark.parametrize(("flag", "path"), FLAGS.items())
def test_default_of_a_value_is_the_default_of_its_flag(flag, path):
    field = flag.replace("-", "_")
    value = given(path)
    if flag in {"slurm-api-base", "log-format"}:  # required; for a pod, not for a terminal
        return
    settings = Settings.model_validate({} if value in ("", [], {}) else {flag: as_word(value)})
    assert getattr(settings, field) == getattr(Settings.model_validate({}), field)


def test_choices_of_the_schema_are_those_of_the_flags():
    fields = Settings.model_fields
    for flag, path in FLAGS.items():
        part = SCHEMA["properties"]["scheduler"]
        for name in path.split("."):
            part = part["properties"][name]
        kind = fields[flag.replace("-", "_")].annotation
        accepted = getattr(kind, "__args__", ()) if "Literal" in str(kind) else ()
        assert set(part.get("enum", ())) == set(accepted), flag


def test_schema_refuses_zero_where_the_flag_does():
    """As a number and in words, so that `helm install` says it, not a pod that does not start."""
    for flag, path in FLAGS.items():
        part = SCHEMA["properties"]["scheduler"]
        for name in path.split("."):
            part = part["properties"][name]
        if "(ms|s|m|h)" not in part.get("pattern", ""):
            continue
        for zero in (0, "0", "0s", "0.0h0ms"):
            try:
                Settings.model_validate({flag: zero})
            except ValidationError:
                positive = True
            else:
                positive = False
            assert takes(part, zero) is not positive, (flag, zero)
        assert takes(part, "1m0s"), flag


def test_every_value_is_told_and_in_the_schema():
    assert list(leaves(SCHEMA))[: len(TOLD)] == list(TOLD)
    assert set(leaves(SCHEMA)) - set(TOLD) == {("global",)}


def test_every_value_of_the_file_is_told():
    def parts(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for name, value in values.items():
            here = (*path, name)
            if here in TOLD or not isinstance(value, dict):
                yield here
            else:
                yield from parts(value, here)

    assert [it for it in parts(VALUES) if it not in TOLD] == []


def test_schema_refuses_unknown_names_everywhere():
    assert [path for path, part in objects(SCHEMA) if part.get("additionalProperties")] == []
    assert all("additionalProperties" in part for _, part in objects(SCHEMA))


def test_schema_and_page_say_what_the_file_of_values_says():
    assert chart.SCHEMA.read_text() == chart.rendered_schema(), "run: make docs"
    page = chart.PAGE.read_text()
    assert page == rewritten(page, chart.table()), "run: make docs"


def test_chart_has_the_admission_policies_as_they_stand_in_their_folder():
    copied = {it.name: it.read_text() for it in chart_admission.FOLDER.iterdir()}
    assert copied == dict(chart_admission.made()), "run: make docs"


def test_stale_descriptions_are_brought_up_to_date():
    stale = {"properties": {"a": {"description": "old", "type": "string"}, "b": {"type": "null"}}}
    descriptions: dict[tuple[str, ...], str] = {("a",): "new"}
    assert chart.described(stale, descriptions)["properties"]["a"] == {
        "description": "new",
        "type": "string",
    }


def test_comments_belong_to_the_key_below_them():
    text = "# about the file\n\n# first\n# second\na:\n  # inner\n  b: 1\nc: {}\n"
    assert chart.comments(text) == {("a",): "first second", ("a", "b"): "inner"}


def test_chart_is_of_the_version_of_the_scheduler():
    chart_file = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert str(chart_file["appVersion"]) == scheduler.__version__
