"""The admission policies say what the code says."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from annotations import PREFIX, Rules
from annotations.keys import BY_KEY, DEFINITIONS
from annotations.value_patterns import LONGEST_BYTES
from docs._make.policy import rewrite, rewritten
from docs._make.policy_maps import raw_string, table
from scheduler.config.settings import Settings
from scheduler.core.naming import OWN_PREFIX
from tests.support.admission import FOLDER, rendered

VALIDATING = FOLDER / "validating.yaml"
_SETTING = re.compile(r"'([\w-]+)': '([^']*)'")


def named(name: str, kind: str) -> dict[str, Any]:
    return next(it for it in rendered() if (it["metadata"]["name"], it["kind"]) == (name, kind))


def variables() -> dict[str, str]:
    policy = named("slurm-pod-scheduler-pods", "ValidatingAdmissionPolicy")
    return {it["name"]: it["expression"] for it in policy["spec"]["variables"]}


def test_policy_has_the_table_of_annotations_as_the_code_has_it():
    text = VALIDATING.read_text(encoding="utf-8")
    assert rewritten(text) == text, "run: make docs"


def test_stale_policy_is_brought_up_to_date(tmp_path):
    path = tmp_path / "validating.yaml"
    text = VALIDATING.read_text(encoding="utf-8")
    path.write_text(text.replace(table(), "    - name: old\n"), encoding="utf-8")
    rewrite(path)
    assert path.read_text(encoding="utf-8") == text


def test_manifest_without_a_place_for_the_table_is_refused():
    with pytest.raises(ValueError, match="no place for the table"):
        rewritten("kind: Policy\n")


def test_text_that_would_end_its_own_string_is_refused():
    assert raw_string("it's here") == 'r"it\'s here"'
    with pytest.raises(ValueError, match="quotation mark"):
        raw_string('say "no"')


def test_every_annotation_has_a_pattern_and_words_for_people():
    found = variables()
    for key, definition in BY_KEY.items():
        assert f"'{key}': r\"^(?:" in found["patterns"]
        assert f"'{key}': r\"{definition.kind.pattern.expected}\"" in found["expected"]


def test_what_sets_the_same_thing_is_named_both_ways():
    fields = [it.field for it in DEFINITIONS]
    twice = {it.key for it in DEFINITIONS if fields.count(it.field) > 1}
    assert set(re.findall(r"'([\w-]+)':", variables()["rivals"])) == twice


def test_patterns_stay_in_the_syntax_of_re2():
    """Neither look-around nor what is not ASCII stands in the manifest."""
    patterns = variables()["patterns"]
    assert patterns.isascii()
    assert not re.search(r"\(\?[=!<P]", patterns)


def test_policies_know_the_prefixes_and_the_longest_value():
    text = "".join(path.read_text() for path in FOLDER.glob("*.yaml"))
    assert f"'{PREFIX}'" in text
    assert f"startsWith('{OWN_PREFIX}')" in text
    assert f"> {LONGEST_BYTES}" in text


def settings_of(body: dict[str, Any]) -> dict[str, str]:
    spec = body["spec"]
    found = next(it for it in spec["variables"] if it["name"] == "settings")["expression"]
    return dict(_SETTING.findall(found))


def policies() -> list[dict[str, Any]]:
    return [it for it in rendered() if it["kind"].endswith("Policy")]


def test_settings_are_those_of_the_scheduler_with_their_defaults():
    rules = Rules()
    devices = ",".join(f"{resource}={gres}" for resource, gres in rules.device_resources.items())
    defaults = {
        "scheduler-name": Settings.model_fields["scheduler_name"].default,
        "slurm-kill-wait": f"{rules.kill_wait_seconds}s",
        "termination-offset": f"{rules.termination_offset_seconds}s",
        "grace-policy": rules.grace_policy,
        "annotation-prefix": Settings.model_fields["annotation_prefix"].default,
        "device-resources": devices,
        "tolerate": "",
    }
    assert {key.replace("-", "_") for key in set(defaults) - {"tolerate"}} <= set(
        Settings.model_fields
    )
    for body in policies():
        given = settings_of(body)
        assert given.items() <= defaults.items()
        read = set(re.findall(r"settings\['([\w-]+)'\]", str(body)))
        assert read == set(given)


def test_rendered_policies_have_the_settings_that_were_given():
    given = {"scheduler-name": "a,b", "tolerate": "x.example/y", "scheduler-user": "carol"}
    bodies = rendered(given)
    assert [it["metadata"]["name"] for it in bodies] == [
        it["metadata"]["name"] for it in rendered()
    ]
    for body in (it for it in bodies if it["kind"].endswith("Policy")):
        assert settings_of(body)["scheduler-name"] == "a,b"
    assert "'scheduler-user': 'carol'" in str(bodies)


def test_seconds_without_a_unit_get_one():
    """The scheduler accepts them, but for the API server they are no duration: it would refuse each
    pod.
    """
    bodies = rendered({"slurm-kill-wait": "60", "termination-offset": "2.5"})
    found = [settings_of(it) for it in bodies if it["kind"].endswith("Policy")]
    assert {it["slurm-kill-wait"] for it in found if "slurm-kill-wait" in it} == {"60s"}
    assert {it["termination-offset"] for it in found if "termination-offset" in it} == {"2.5s"}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("killwait=1", "killwait is no setting"),
        ("tolerate", "expected KEY=VALUE"),
        ("tolerate=it's", "expected no quotes"),
        ("slurm-kill-wait=soon", "slurm-kill-wait=soon: expected a duration such as 30s"),
        ("termination-offset=", "expected a duration"),
        ("grace-policy=Guarded", "grace-policy=Guarded: expected strict, auto or guarded"),
        ("scheduler-name=", "scheduler-name=: expected a name"),
        ("scheduler-name=a\nb", "expected one line"),
        (".*=x", "'.*' is no setting"),
    ],
)
def test_setting_that_is_none_is_refused(setting, told):
    command = ("sh", str(FOLDER / "render.sh"), setting)
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr


def test_path_of_the_script_may_have_blanks(tmp_path):
    folder = shutil.copytree(FOLDER, tmp_path / "my clone")
    command = ("sh", str(folder / "render.sh"))
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert len([it for it in yaml.safe_load_all(text) if it]) == len(rendered())


def test_service_account_is_that_of_the_rights():
    rights = yaml.safe_load_all((FOLDER.parent / "manifests/rbac.yaml").read_text())
    account = next(it for it in rights if it["kind"] == "ServiceAccount")["metadata"]
    user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert f"'scheduler-user': '{user}'" in (FOLDER / "records.yaml").read_text()
    assert f"'scheduler-account': '{user}'" in (FOLDER / "account.yaml").read_text()


def test_bindings_name_policies_that_are_there():
    bindings = [it["spec"] for it in rendered() if it["kind"].endswith("Binding")]
    assert {it["policyName"] for it in bindings} == {it["metadata"]["name"] for it in policies()}
