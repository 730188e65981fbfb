"""The headings under which the help of `run` and the documentation list the settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Kubernetes": (
        *("scheduler_name", "watch_namespace", "kubeconfig", "components"),
        *("node_mapping", "node_access", "pod_access", "volume_access"),
        *("eviction_policy", "eviction_budget_timeout", "unschedulable_reason"),
    ),
    "Slurm": (
        *("slurm_api_base", "slurm_auth_token_file", "slurm_auth_token", "slurm_connections"),
        *("slurm_kill_wait", "termination_offset", "grace_policy"),
        *("placeholder_mode", "gpu_node_sharing", "suspend_policy"),
        *("poll_interval", "idle_poll_interval", "running_looks_per_second"),
    ),
    "Identity": ("cluster_id", "own_namespace", "slurm_cluster"),
    "What pods may ask for": (
        *("annotation_prefix", "policy_file", "ignored_requirements"),
        *("device_resources", "gpu_types", "gpu_type_keys"),
    ),
    "Gangs": ("gangs", "gang_linger", "gang_lost_slot", "pods_per_node"),
    "Limits": (
        *("workers", "events_per_second", "condition_interval", "shutdown_grace"),
        *("brake_share", "brake_minimum", "brake_window", "brake_pause"),
    ),
    "Hooks": (
        *("hooks_api_bind_address", "hooks_api_url", "hooks_api_token_file"),
        *("hooks_api_tls_cert_file", "hooks_api_tls_key_file", "hooks_api_ca_file"),
    ),
    "Election": (
        *("leader_elect", "leader_elect_lease_duration", "leader_elect_renew_deadline"),
        *("leader_elect_retry_period", "leader_elect_resource_name"),
        "leader_elect_resource_namespace",
    ),
    "Observability": (
        *("health_probe_bind_address", "metrics_bind_address"),
        *("page_bind_address", "page_access"),
        *("zap_log_level", "log_format"),
    ),
}
"""Names of fields of `Settings` by heading, in the order in which they are shown. Each field has
one heading; a test holds that.
"""
