from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from annotations import Rules
from scheduler.config.annotation_rules import rules_of
from scheduler.config.flags import add_arguments, describe, load_settings
from scheduler.config.groups import GROUPS
from scheduler.config.settings import Address, Settings, SettingsError
from scheduler.core.gang_sources import ALL_SOURCES, Source

DEFAULTS = Settings.model_validate({})


def parsed(*flags: str, environ: Mapping[str, str] | None = None) -> Settings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return load_settings(parser.parse_args(flags), environ or {})


def refused(*flags: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        parsed(*flags, environ=environ)
    return str(caught.value)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_defaults_need_nothing():
    assert parsed() == DEFAULTS


def test_settings_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        DEFAULTS.workers = 1


def test_flag_is_above_environment_is_above_file_is_above_default(config):
    config.write_text("scheduler-name: filed\nworkers: 7\nslurm-connections: 3\n")
    environ = {"SLURM_POD_SCHEDULER_SCHEDULER_NAME": "environ", "SLURM_POD_SCHEDULER_WORKERS": "8"}
    found = parsed(f"--config={config}", "--scheduler-name=flag", environ=environ)
    assert found.scheduler_name == "flag"
    assert found.workers == 8
    assert found.slurm_connections == 3
    assert found.poll_interval == DEFAULTS.poll_interval


def test_flags_of_the_sunk_scheduler_are_known():
    # facts: the argument table of SUNK's scheduler page
    found = parsed(
        "--components=scheduler",
        "--health-probe-bind-address=:8081",
        "--hooks-api-bind-address=:8000",
        "--metrics-bind-address=:8080",
        "--scheduler-name=tenant-slurm-scheduler",
        "--slurm-api-base=http://slurm-restapi:6820",
        "--slurm-auth-token=eyJhbGciOiJIUzI1NiJ9.e30.c2ln",
        "--slurm-kill-wait=30s",
        "--watch-namespace=tenant",
        "--zap-log-level=debug",
    )
    assert found.scheduler_name == "tenant-slurm-scheduler"
    assert found.watch_namespace == ("tenant",)
    assert found.slurm_kill_wait == 30.0
    assert found.slurm_auth_token.get_secret_value() == "eyJhbGciOiJIUzI1NiJ9.e30.c2ln"


def test_token_is_not_shown():
    found = parsed("--slurm-auth-token=eyJhbGciOiJIUzI1NiJ9.e30.c2ln")
    assert "eyJ" not in f"{found} {found!r}"
    with pytest.raises(SettingsError) as refused:
        parsed("--slurm-auth-token=two words")
    assert "two words" not in str(refused.value)


@pytest.mark.parametrize("given", ["$(SLURM_TOKEN)", "two words", "naïve"])
def test_what_is_no_token_is_refused(given):
    with pytest.raises(SettingsError, match=r"^--slurm-auth-token: "):
        parsed(f"--slurm-auth-token={given}")


def test_every_setting_has_a_flag_a_default_and_a_meaning():
    described = [row for rows in describe().values() for row in rows]
    assert {flag for flag, *_ in described} == {
        f"--{name.replace('_', '-')}" for name in Settings.model_fields
    }
    assert all(default and meaning for *_, default, meaning in described)


def test_every_setting_is_in_one_group():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(
        Settings.model_fields
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30", 30.0), ("30s", 30.0), ("500ms", 0.5), ("2m", 120.0), ("1h", 3600.0), ("0.5", 0.5)],
)
def test_duration(text, seconds):
    assert parsed(f"--idle-poll-interval={text}").idle_poll_interval == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("1m30s", 90.0), ("1h0m1s", 3601.0), ("1m0.5s", 60.5)]
)
def test_duration_as_go_writes_it(text, seconds):
    assert parsed(f"--idle-poll-interval={text}").idle_poll_interval == seconds


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9081", Address(host=None, port=9081)),
        ("127.0.0.1:80", Address(host="127.0.0.1", port=80)),
        ("[::1]:80", Address(host="::1", port=80)),
        ("localhost:0", Address(host="localhost", port=0)),
        ("0", None),
    ],
)
def test_address(text, address):
    assert parsed(f"--metrics-bind-address={text}").metrics_bind_address == address


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("slurm-kill-wait", "soon", "expected a duration such as 30s"),
        ("slurm-kill-wait", "-5", "expected a duration"),
        ("slurm-kill-wait", "", "expected a duration"),
        ("metrics-bind-address", "8080", "expected HOST:PORT"),
        ("metrics-bind-address", ":99999", "expected HOST:PORT"),
        ("placeholder-mode", "magic", "'auto', 'external' or 'script'"),
        ("zap-log-level", "loud", "'debug', 'info', 'warn' or 'error'"),
        ("components", "syncer", "'scheduler'"),
        ("workers", "many", "expected a whole number"),
        ("workers", "0", "expected at least 1"),
        ("slurm-connections", "65", "expected at most 64"),
        ("scheduler-name", " ", "expected a name"),
        ("unschedulable-reason", "no cpu", "expected a word in CamelCase"),
    ],
)
def test_refusal_names_flag_value_and_what_is_accepted(flag, value, expected):
    error = refused(f"--{flag}={value}")
    assert f"--{flag}" in error
    assert repr(value) in error
    assert expected in error


@pytest.mark.parametrize("address", [":8082", "0.0.0.0:8082", "10.0.0.1:8082", "[::]:8082"])
def test_page_without_tokens_is_for_this_machine_alone(address):
    error = refused(f"--page-bind-address={address}", "--page-access=open")
    assert "expected --page-bind-address=127.0.0.1:PORT beside it" in error


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:8082", "localhost:1", "0"])
def test_page_without_tokens_on_a_loopback_address(address):
    assert parsed(f"--page-bind-address={address}", "--page-access=open").page_access == "open"


def test_there_is_no_page_unless_it_is_asked_for():
    assert parsed().page_bind_address is None
    assert parsed().page_access == "token"


def test_duration_of_nothing_is_refused():
    assert refused("--slurm-kill-wait=0s") == "--slurm-kill-wait: '0s': expected more than 0s"


def test_all_problems_are_told_at_once():
    error = refused("--workers=0", "--poll-interval=never", "--zap-log-level=loud")
    assert len(error.splitlines()) == 3


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("--watch-namespace=Team_A", "'Team_A' is no namespace"),
        ("--watch-namespace=team-a,kube/b", "'kube/b' is no namespace"),
        ("--node-mapping=nam", "expected name, comment, extra"),
        ("--node-mapping=label", "label:KEY"),
        ("--node-mapping=name,name", "each of them once"),
        ("--node-mapping=", "at least one mapping"),
        ("--node-access=maybe", "'auto', 'read' or 'none'"),
    ],
)
def test_scope_and_mapping_that_make_no_sense_are_refused(flag, expected):
    assert expected in refused(flag)


def test_mapping_is_understood_in_order():
    found = parsed("--node-mapping=label:a.b/c,slurmd-pod:slurm:app=d&e=f,name")
    assert [str(it) for it in found.strategies] == [
        "label:a.b/c",
        "slurmd-pod:slurm:app=d,e=f",
        "name",
    ]


def test_comma_lists(config):
    assert parsed("--watch-namespace=a, b,").watch_namespace == ("a", "b")
    config.write_text("watch-namespace: [c, d]\n")
    assert parsed(f"--config={config}").watch_namespace == ("c", "d")


def test_help_is_in_groups():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    lines = parser.format_help().splitlines()
    places = [lines.index(f"{title}:") for title in GROUPS]
    assert places == sorted(places)
    hooks, election = lines.index("Hooks:"), lines.index("Election:")
    assert any("--hooks-api-url" in line for line in lines[hooks:election])


def test_help_names_choices_units_and_limits():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    output = " ".join(parser.format_help().split())
    for words in (
        "--placeholder-mode auto|external|script",
        "--poll-interval DURATION",
        "default: 250ms",
        "--workers NUMBER",
        "(1 to 512; default: 48)",
        "--policy-file FILE",
        "--metrics-bind-address HOST:PORT",
        "above 0s; default: 30s",
    ):
        assert words in output


# --- the environment ------------------------------------------------------------------------------


def test_variable_without_a_meaning_is_named():
    error = refused(environ={"SLURM_POD_SCHEDULER_WORKER": "3"})
    assert error == (
        "SLURM_POD_SCHEDULER_WORKER: there is no such setting; "
        "did you mean 'SLURM_POD_SCHEDULER_WORKERS'?"
    )


def test_variable_with_a_wrong_value_is_named():
    error = refused(environ={"SLURM_POD_SCHEDULER_WORKERS": "many"})
    assert error == "SLURM_POD_SCHEDULER_WORKERS: 'many': expected a whole number"


@pytest.mark.parametrize(
    "name",
    [
        "SLURM_POD_SCHEDULER_SERVICE_HOST",
        "SLURM_POD_SCHEDULER_SERVICE_PORT",
        "SLURM_POD_SCHEDULER_SERVICE_PORT_METRICS",
        "SLURM_POD_SCHEDULER_PORT",
        "SLURM_POD_SCHEDULER_PORT_8080_TCP",
        "SLURM_POD_SCHEDULER_PORT_8080_TCP_ADDR",
        "SLURM_POD_SCHEDULER_HOOKS_SERVICE_HOST",
        "SLURM_POD_SCHEDULER_HOOKS_PORT_8000_TCP_PROTO",
    ],
)
def test_service_variables_that_kubernetes_sets_are_no_settings(name):
    assert parsed(environ={name: "tcp://10.0.0.1:8080"}) == DEFAULTS


def test_sources_of_gangs_are_tried_in_the_order_given():
    assert parsed().gangs == ALL_SOURCES
    assert parsed("--gangs=job, lws").gangs == (Source.JOB, Source.LWS)
    assert parsed("--gangs=").gangs == ()


@pytest.mark.parametrize(
    ("flag", "accepted"),
    [
        ("--gangs=jobs", "'annotations', 'lws', 'jobset'"),
        ("--gangs=job,lws,job", "each source once"),
        ("--gang-linger=-1s", "a duration"),
        ("--gang-linger=2d", "a duration"),
        ("--pods-per-node=0", "at least 1"),
        ("--pods-per-node=65534", "at most 65533"),
    ],
)
def test_setting_of_gangs_that_is_wrong_names_what_is_accepted(flag, accepted):
    message = refused(flag)
    assert flag.partition("=")[0] in message
    assert accepted in message


def test_variables_of_others_are_ignored():
    assert parsed(environ={"SLURM_CONF": "/etc/slurm.conf", "PATH": "/bin"}) == DEFAULTS


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_empty_file_sets_nothing(config, text):
    config.write_text(text)
    assert parsed(f"--config={config}") == DEFAULTS


def test_file_that_is_not_there(config):
    error = refused(f"--config={config}")
    assert str(config) in error
    assert "No such file" in error


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words\n", "a: [\n", "{a: 1}}"])
def test_file_that_holds_no_settings(config, text):
    config.write_text(text)
    assert f"--config {config}" in refused(f"--config={config}")


@pytest.mark.parametrize("key", ["scheduler_nam", "scheduler-names", "7", "2020-01-01"])
def test_unknown_key_is_named(config, key):
    config.write_text(f"{key}: x\n")
    error = refused(f"--config={config}")
    assert f"--config {config}: {key}: there is no such setting" in error


def test_nearest_name_to_an_unknown_key_is_proposed(config):
    config.write_text("scheduler_nam: x\n")
    assert refused(f"--config={config}").endswith("; did you mean 'scheduler-name'?")


def test_fault_is_named_where_it_was_given(config):
    config.write_text("workers: 0\nslurm-connections: 0\n")
    error = refused(f"--config={config}", "--workers=-1")
    assert error.splitlines() == [
        f"--config {config}: slurm-connections: 0: expected at least 1",
        "--workers: '-1': expected at least 1",
    ]


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("slurm-kill-wait: 45\n", "slurm_kill_wait", 45.0),
        ("slurm-kill-wait: 45s\n", "slurm_kill_wait", 45.0),
        ("metrics-bind-address: 0\n", "metrics_bind_address", None),
        ("metrics-bind-address: ':9'\n", "metrics_bind_address", Address(host=None, port=9)),
        ("kubeconfig: /etc/kube\n", "kubeconfig", Path("/etc/kube")),
    ],
)
def test_values_of_the_file(config, text, field, value):
    config.write_text(text)
    assert getattr(parsed(f"--config={config}"), field) == value


@pytest.mark.parametrize("value", [".inf", ".nan"])
def test_number_that_is_none_is_refused(config, value):
    config.write_text(f"slurm-kill-wait: {value}\n")
    assert f"--config {config}: slurm-kill-wait: " in refused(f"--config={config}")


@pytest.mark.parametrize(("wait", "offset"), [("30s", "40s"), ("3s", "5s"), ("6s", "5s")])
def test_settings_that_leave_no_grace_are_refused(wait, offset):
    error = refused(f"--slurm-kill-wait={wait}", f"--termination-offset={offset}")
    assert "--termination-offset" in error
    assert "--slurm-kill-wait" in error


def test_kill_wait_too_short_for_the_usual_offset_is_refused():
    assert "--slurm-kill-wait" in refused("--slurm-kill-wait=3s")


@pytest.mark.parametrize("flag", ["cert", "key"])
def test_half_of_a_certificate_is_refused(flag):
    assert "both" in refused(f"--hooks-api-tls-{flag}-file=/x")


def test_authority_of_a_hooks_api_without_tls_is_refused():
    url = ("--hooks-api-url=http://h:1", "--hooks-api-token-file=/run/token")
    assert "expected --hooks-api-url=https://HOST" in refused("--hooks-api-ca-file=/ca", *url)
    assert "expected --hooks-api-url=https://HOST" in refused("--hooks-api-ca-file=/ca")


def test_guard_that_nobody_can_ask_is_refused():
    error = refused(
        "--grace-policy=guarded",
        "--hooks-api-token-file=/run/token",
        "--hooks-api-bind-address=0",
    )
    assert error.startswith("--hooks-api-bind-address: ")
    assert "expected HOST:PORT with --grace-policy=guarded" in error


def test_hooks_api_that_is_off_is_no_address_for_placeholders():
    error = refused(
        "--hooks-api-url=http://h:1",
        "--hooks-api-token-file=/run/token",
        "--hooks-api-bind-address=0",
    )
    assert error.startswith("--hooks-api-url: 'http://h:1': expected --hooks-api-bind-address")


@pytest.mark.parametrize("value", ["8080", "{host: x, port: 1}", "[':1']", "true"])
def test_address_that_is_no_text_is_told_the_form(config, value):
    config.write_text(f"metrics-bind-address: {value}\n")
    assert refused(f"--config={config}").endswith("expected HOST:PORT or :PORT, or 0 for none")


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--metrics-bind-address=:8081"],
            "--metrics-bind-address: ':8081': expected another port than "
            "--health-probe-bind-address, which is :8081",
        ),
        (
            ["--health-probe-bind-address=127.0.0.1:8080"],
            "expected another port than --health-probe-bind-address, which is 127.0.0.1:8080",
        ),
        (
            ["--page-bind-address=127.0.0.1:8081"],
            "--page-bind-address: '127.0.0.1:8081': expected another port than",
        ),
        (
            ["--metrics-bind-address=:8000", "--hooks-api-token-file=/run/token"],
            "expected --hooks-api-bind-address with another port than --metrics-bind-address, "
            "which is :8000: with this file the hooks API is on",
        ),
    ],
)
def test_two_listeners_on_one_port_are_told_each_other(flags, told):
    assert told in refused(*flags)


@pytest.mark.parametrize(
    "flags",
    [
        ["--metrics-bind-address=:8000"],
        ["--metrics-bind-address=:0", "--health-probe-bind-address=:0"],
        ["--metrics-bind-address=10.0.0.1:9", "--health-probe-bind-address=10.0.0.2:9"],
        ["--metrics-bind-address=0", "--health-probe-bind-address=0"],
    ],
)
def test_listeners_that_do_not_meet_are_accepted(flags):
    assert parsed(*flags).metrics_bind_address != parsed().metrics_bind_address


def test_maps_are_pairs_joined_by_commas():
    found = parsed(
        "--gpu-types=NVIDIA_H100=h100, NVIDIA_L4=l4",
        "--device-resources=nvidia.com/gpu=gpu,nvidia.com/mig-1g.10gb=gpu:1g.10gb",
    )
    assert found.gpu_types == {"NVIDIA_H100": "h100", "NVIDIA_L4": "l4"}
    assert found.device_resources["nvidia.com/mig-1g.10gb"] == "gpu:1g.10gb"


def test_maps_of_the_file_are_maps(config):
    config.write_text("gpu-types:\n  NVIDIA_H100: h100\n")
    assert parsed(f"--config={config}").gpu_types == {"NVIDIA_H100": "h100"}


def test_rules_are_those_of_the_settings():
    rules = rules_of(
        parsed(
            "--annotation-prefix=slurm.example.com/",
            "--gpu-type-keys=nvidia.com/gpu.product",
            "--slurm-kill-wait=60s",
            "--grace-policy=guarded",
            "--hooks-api-token-file=/run/token",
        )
    )
    assert rules.prefixes == ("sunk.coreweave.com/", "slurm.example.com/")
    assert rules.gpu_type_keys == ("nvidia.com/gpu.product",)
    assert (rules.kill_wait_seconds, rules.grace_policy) == (60, "guarded")
    assert rules_of(DEFAULTS) == Rules()


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--annotation-prefix=example.com", "slurm.example.com/"),
        ("--annotation-prefix=slurm-pod-scheduler/", "writes itself"),
        ("--gpu-types=h100", "KEY=VALUE"),
        ("--gpu-types=X=", "NVIDIA_H100=h100"),
        ("--gpu-types=X=1", "NVIDIA_H100=h100"),
        ("--device-resources=amd.com/gpu=gres/gpu", "amd.com/gpu=gpu:mi300x"),
        ("--grace-policy=loose", "strict"),
        ("--grace-policy=guarded", "the guard asks the hooks API"),
    ],
)
def test_rules_that_would_not_do_are_refused(flag, words):
    assert words in refused(flag)


@pytest.mark.parametrize("url", ["x", "http://", "http://h:1/path", "http://a b", "ftp://h", "h:1"])
def test_url_for_jobs_that_is_none_is_refused(url):
    error = refused(f"--hooks-api-url={url}", "--hooks-api-token-file=/x")
    assert "expected http(s)://HOST[:PORT]" in error


def test_url_for_jobs_needs_a_secret():
    assert "expected a file with a secret" in refused("--hooks-api-url=http://h:1")


def test_election_has_the_defaults_of_the_field():
    # kube-scheduler's, but for its being on: outside of a cluster there is no Lease
    found = parsed("--leader-elect")
    assert found.leader_elect is True
    assert DEFAULTS.leader_elect is False
    assert parsed("--leader-elect=false").leader_elect is False
    assert found.leader_elect_lease_duration == 15
    assert found.leader_elect_renew_deadline == 10
    assert found.leader_elect_retry_period == 2


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--leader-elect-lease-duration=10s"],
            "--leader-elect-renew-deadline: 10.0: expected less than 10s, which is "
            "--leader-elect-lease-duration: the leader has to end before another may lead",
        ),
        (
            ["--leader-elect-renew-deadline=2.4s"],
            "--leader-elect-retry-period: 2.0: expected less than 2s: 1.2 times it must be below "
            "--leader-elect-renew-deadline, which is 2.4s",
        ),
        (
            ["--leader-elect-lease-duration=15500ms"],
            "--leader-elect-lease-duration: '15500ms': expected whole seconds: a Lease stores "
            "no fractions",
        ),
        (
            ["--leader-elect-lease-duration=0"],
            "--leader-elect-lease-duration: '0': expected at least 1s",
        ),
        (
            ["--leader-elect-retry-period=0"],
            "--leader-elect-retry-period: '0': expected more than 0s",
        ),
        (
            ["--leader-elect-resource-name=A_b"],
            "--leader-elect-resource-name: 'A_b': expected a name of small letters, digits, '-' "
            "and '.'",
        ),
        (
            ["--leader-elect-resource-namespace=A"],
            "--leader-elect-resource-namespace: 'A': expected the name of a namespace",
        ),
        (["--leader-elect=maybe"], "--leader-elect: 'maybe': expected true or false"),
    ],
)
def test_election_that_could_not_work_is_refused(flags, told):
    assert refused(*flags) == told
