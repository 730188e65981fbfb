"""`python -m deploy.helm.dashboards`: writes the chart's two Grafana dashboards."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deploy.helm.grafana import Dashboard, Panel, Query, Row, quantiles, rate, rendered, stat

FOLDER: Final = Path(__file__).parent / "slurm-pod-scheduler" / "dashboards"
_P: Final = "slurm_pod_scheduler_"
_MINE: Final = 'pod_namespace=~"$namespace"'
_HERE: Final = 'instance=~"$instance"'

USERS: Final = Dashboard(
    name="users",
    title="Slurm pods: where they wait and why",
    info="For those whose pods Slurm places: how many wait, for what, and how long it takes.",
    variables=(("namespace", f"label_values({_P}namespace_pods, pod_namespace)"),),
    rows=(
        Row(
            "Now",
            (
                stat(
                    "Wait in Slurm's queue",
                    f'sum({_P}namespace_pods{{{_MINE},state="pending"}}) or vector(0)',
                ),
                stat(
                    "Have no Slurm job yet",
                    f'sum({_P}namespace_pods{{{_MINE},state=~"none|in_doubt"}}) or vector(0)',
                    info="Refused, gated, or about to be submitted.",
                ),
                stat(
                    "Have their nodes",
                    f'sum({_P}namespace_pods{{{_MINE},state="running"}}) or vector(0)',
                ),
                stat(
                    "Typical wait in the queue",
                    f"sum(rate({_P}queue_wait_seconds_sum{{{_MINE}}}[1h])) / "
                    f"(sum(rate({_P}queue_wait_seconds_count{{{_MINE}}}[1h])) > 0) or "
                    f"histogram_quantile(0.5, sum by (le) (rate("
                    f'{_P}stage_seconds_bucket{{stage="allocated"}}[1h])))',
                    unit="s",
                    info="Mean of the pods that got nodes in the last hour. If none has, or only "
                    "the first of a namespace, the median of all namespaces.",
                ),
                stat(
                    "Typical time from nodes to start",
                    f"sum(rate({_P}stage_seconds_sum"
                    '{stage=~"bound|started"}[1h])) / '
                    f'sum(rate({_P}stage_seconds_count{{stage="bound"}}[1h]))',
                    unit="s",
                    info="Mean of the last hour: images are pulled in this time.",
                ),
                stat(
                    "GPUs that we hold",
                    f'sum({_P}gpus{{{_MINE},state="held"}}) or vector(0)',
                ),
                stat(
                    "GPUs that we wait for",
                    f'sum({_P}gpus{{{_MINE},state="waiting"}}) or vector(0)',
                ),
                stat(
                    "Longest wait now",
                    f"max(time() - {_P}oldest_waiting_pod_timestamp_seconds{{{_MINE}}})"
                    " or vector(0)",
                    unit="s",
                    info="Since the pod that waits for longest was created.",
                ),
                stat(
                    "Slurm answers",
                    f"max({_P}ready)",
                    info="1 when the scheduler can work; nothing starts while it is 0.",
                    limits=((None, "red"), (1, "green")),
                ),
            ),
        ),
        Row(
            "Why pods wait",
            (
                Panel(
                    "Pods that wait, by reason",
                    (
                        Query(
                            f'sum by (reason) ({_P}namespace_pods{{{_MINE},reason!=""}})',
                            "{{reason}}",
                        ),
                    ),
                    stacked=True,
                    width=12,
                    info="Slurm's reasons are explained in docs/pending.md, the scheduler's own in "
                    "docs/events.md. `kubectl describe pod` tells more of each.",
                ),
                Panel(
                    "Who waits for what",
                    (
                        Query(
                            "sort_desc(sum by (pod_namespace, state, reason) "
                            f'({_P}namespace_pods{{{_MINE},reason!=""}}))'
                        ),
                    ),
                    kind="table",
                    width=12,
                ),
                Panel(
                    "Pods by the state of their Slurm job",
                    (Query(f"sum by (state) ({_P}namespace_pods{{{_MINE}}})", "{{state}}"),),
                    stacked=True,
                    width=12,
                ),
                Panel(
                    "Pods that wait, by partition",
                    (
                        Query(
                            f'sum by (partition) ({_P}partition_pods{{reason!=""}})',
                            "{{partition}}",
                        ),
                    ),
                    stacked=True,
                    width=12,
                    info="Of all namespaces.",
                ),
                Panel(
                    "GPUs held and waited for",
                    tuple(
                        Query(f'sum({_P}gpus{{{_MINE},state="{state}"}}) or vector(0)', state)
                        for state in ("held", "waiting")
                    ),
                    stacked=True,
                    width=12,
                ),
                Panel(
                    "Pods that Slurm has ended, by reason",
                    (
                        Query(
                            f"sum by (reason) (increase({_P}evictions_total[$__rate_interval]))",
                            "{{reason}}",
                        ),
                    ),
                    width=12,
                    info="Of all namespaces. The reasons are explained in docs/events.md.",
                ),
            ),
        ),
        Row(
            "How long it takes",
            (
                Panel(
                    "From pod to running containers, mean by stage",
                    (
                        Query(
                            f"sum by (stage) (rate({_P}stage_seconds_sum[$__rate_interval])) / "
                            f"sum by (stage) (rate({_P}stage_seconds_count[$__rate_interval]))",
                            "{{stage}}",
                        ),
                    ),
                    unit="s",
                    stacked=True,
                    width=12,
                    info="submitted: until Slurm has the job; allocated: in Slurm's queue; bound: "
                    "until the pod has its Node; started: until its containers run.",
                ),
                Panel(
                    "Wait in Slurm's queue",
                    tuple(
                        Query(
                            f"histogram_quantile({q}, sum by (le) (rate({_P}stage_seconds_bucket"
                            '{stage="allocated"}[$__rate_interval])))',
                            f"p{round(q * 100)}",
                        )
                        for q in (0.5, 0.9, 0.99)
                    ),
                    unit="s",
                    width=12,
                    info="Of all namespaces.",
                ),
                Panel(
                    "Wait in Slurm's queue by partition, mean",
                    (
                        Query(
                            "sum by (partition) "
                            f"(rate({_P}queue_wait_seconds_sum{{{_MINE}}}[$__rate_interval])) / "
                            "sum by (partition) "
                            f"(rate({_P}queue_wait_seconds_count{{{_MINE}}}[$__rate_interval]))",
                            "{{partition}}",
                        ),
                    ),
                    unit="s",
                    width=12,
                ),
            ),
        ),
    ),
)

_LATE: Final = ((None, "green"), (60.0, "red"))
_WRONG: Final = ((None, "green"), (1.0, "red"))

OPERATORS: Final = Dashboard(
    name="operators",
    title="slurm-pod-scheduler: operation",
    info="Health, latency and errors of the scheduler, and of both APIs it stands on.",
    variables=(("instance", f"label_values({_P}build_info, instance)"),),
    rows=(
        Row(
            "Health",
            (
                stat("Ready", f"min({_P}ready{{{_HERE}}})", limits=((None, "red"), (1, "green"))),
                stat(
                    "Slurm's last answer",
                    f"max(time() - {_P}slurm_last_answer_timestamp_seconds{{{_HERE}}})",
                    unit="s",
                    limits=_LATE,
                ),
                stat(
                    "Oldest watch",
                    f"max(time() - {_P}kube_watch_last_event_timestamp_seconds{{{_HERE}}})",
                    unit="s",
                    info="An idle watch says something each minute.",
                    limits=((None, "green"), (120.0, "red")),
                ),
                stat(
                    "Slurm's token expires in",
                    f"min({_P}slurm_token_expiry_timestamp_seconds{{{_HERE}}} - time())",
                    unit="s",
                    limits=((None, "red"), (600.0, "green")),
                ),
                stat(
                    "KillWait differs",
                    f"max({_P}kill_wait_mismatch{{{_HERE}}})",
                    limits=_WRONG,
                ),
                stat("Policy outdated", f"max({_P}policy_outdated{{{_HERE}}})", limits=_WRONG),
                Panel(
                    "Who leads",
                    (Query(f"max by (instance) ({_P}leader{{{_HERE}}})", "{{instance}}"),),
                    width=6,
                    height=5,
                    info="Of several schedulers one: the others are at 0.",
                ),
                Panel(
                    "What runs",
                    (Query(f"max by (instance, version, python) ({_P}build_info{{{_HERE}}})"),),
                    kind="table",
                    width=9,
                    height=5,
                ),
                Panel(
                    "Alerts",
                    (
                        Query(
                            "max by (alertname, severity, instance) "
                            '(ALERTS{alertname=~"SlurmPodScheduler.+",alertstate="firing"})'
                        ),
                    ),
                    kind="table",
                    width=9,
                    height=5,
                    info="What to do about each is in docs/runbooks.md.",
                ),
            ),
        ),
        Row(
            "Pods and their placeholders",
            (
                Panel(
                    "Pods by state",
                    (Query(f"sum by (state) ({_P}pods{{{_HERE}}})", "{{state}}"),),
                    stacked=True,
                ),
                Panel(
                    "Pods that wait, by reason",
                    (
                        Query(
                            f'sum by (reason) ({_P}pods{{{_HERE},reason!=""}})',
                            "{{reason}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Placeholders without a pod",
                    (
                        Query(f"sum({_P}placeholders_without_pod{{{_HERE}}})", "now"),
                        Query(
                            f"sum by (kind) (increase({_P}leftover_placeholders_total"
                            f"{{{_HERE}}}[$__rate_interval]))",
                            "found: {{kind}}",
                        ),
                    ),
                ),
                rate("Evictions", f"{_P}evictions_total", "reason", selector=_HERE),
                Panel(
                    "Pods that the brake holds",
                    (
                        Query(f"sum({_P}brake_held_pods{{{_HERE}}})", "held now"),
                        Query(
                            f"sum by (pods) (increase({_P}brake_engaged_total"
                            f"{{{_HERE}}}[$__rate_interval]))",
                            "engaged: pods that {{pods}}",
                        ),
                    ),
                    info="So many would end at once because of Slurm that each waits for a later "
                    "look: docs/operations.md, The brake.",
                ),
                rate("Actions", f"{_P}actions_total", "action", selector=_HERE),
                rate(
                    "Actions that failed",
                    f"{_P}actions_total",
                    "action, outcome",
                    selector=f'{_HERE},outcome!~"ok|bound|alreadybound|gone"',
                ),
            ),
        ),
        Row(
            "Slurm's nodes",
            tuple(
                Panel(
                    title,
                    (Query(f"max by (state) ({_P}{metric}{{{_HERE}}})", "{{state}}"),),
                    stacked=True,
                    info="As Slurm listed them last, at most five minutes ago.",
                )
                for title, metric in (
                    ("Nodes by state", "slurm_nodes"),
                    ("CPUs by state of the node", "slurm_node_cpus"),
                    ("GPUs by state of the node", "slurm_node_gpus"),
                )
            ),
        ),
        Row(
            "Latency",
            (
                quantiles(
                    "Stages of a pod or a gang", f"{_P}stage_seconds", "stage", selector=_HERE
                ),
                Panel(
                    "From allocation to bound",
                    (
                        Query(
                            f"sum by (le) (increase({_P}stage_seconds_bucket"
                            f'{{{_HERE},stage="bound"}}[$__rate_interval]))',
                            "{{le}}",
                        ),
                    ),
                    kind="heatmap",
                    unit="s",
                ),
                rate(
                    "Pods and gangs through each stage",
                    f"{_P}stage_seconds_count",
                    "stage",
                    selector=_HERE,
                ),
            ),
        ),
        *(
            Row(
                title,
                (
                    rate("Requests", f"{_P}{api}_requests_total", "operation", selector=_HERE),
                    rate(
                        "Requests that failed",
                        f"{_P}{api}_requests_total",
                        "operation, outcome",
                        selector=f'{_HERE},outcome!~"ok|cancelled"',
                    ),
                    quantiles(
                        "Duration", f"{_P}{api}_request_seconds", "operation", selector=_HERE
                    ),
                ),
            )
            for api, title in (("slurm", "slurmrestd"), ("kube", "Kubernetes API"))
        ),
        Row(
            "Hooks of Slurm",
            (
                Panel(
                    "Hooks that wait now",
                    (Query(f"sum by (hook) ({_P}hook_waits{{{_HERE}}})", "{{hook}}"),),
                ),
                rate(
                    "Answers of the guard",
                    f"{_P}hook_seconds_count",
                    "answer",
                    selector=f'{_HERE},hook="guard"',
                    info="busy: a pod has not left a node that Slurm has given to the next job.",
                ),
                quantiles("How long hooks waited", f"{_P}hook_seconds", "hook", selector=_HERE),
            ),
        ),
        Row(
            "The process",
            (
                Panel(
                    "Work queue",
                    (
                        Query(f"sum({_P}workqueue_depth{{{_HERE}}})", "wait"),
                        Query(
                            f"sum(rate({_P}workqueue_adds_total{{{_HERE}}}[$__rate_interval]))",
                            "added each second",
                        ),
                        Query(
                            f"sum(rate({_P}workqueue_retries_total{{{_HERE}}}[$__rate_interval]))",
                            "delayed each second",
                        ),
                    ),
                ),
                Panel(
                    "Time in the work queue, p99",
                    tuple(
                        Query(
                            "histogram_quantile(0.99, sum by (le) (rate("
                            f"{_P}workqueue_{what}_duration_seconds_bucket{{{_HERE}}}"
                            "[$__rate_interval])))",
                            legend,
                        )
                        for what, legend in (("queue", "in the queue"), ("work", "at work"))
                    ),
                    unit="s",
                ),
                rate(
                    "Stalls of the event loop",
                    f"{_P}loop_stalls_total",
                    "cause",
                    selector=_HERE,
                    info="busy: it computed for over 50 ms; waiting: it got no CPU.",
                ),
                Panel(
                    "CPU",
                    (
                        Query(
                            "rate(process_cpu_seconds_total[$__rate_interval]) "
                            f"and on (instance) {_P}build_info{{{_HERE}}}",
                            "{{instance}}",
                        ),
                    ),
                    unit="percentunit",
                ),
                Panel(
                    "Memory",
                    (
                        Query(
                            "process_resident_memory_bytes "
                            f"and on (instance) {_P}build_info{{{_HERE}}}",
                            "{{instance}}",
                        ),
                    ),
                    unit="bytes",
                ),
                Panel(
                    "Open live pages",
                    (Query(f"sum({_P}page_streams{{{_HERE}}})", "pages"),),
                ),
                Panel(
                    "Looks at Slurm",
                    (Query(f"max({_P}slurm_poll_interval_seconds{{{_HERE}}})", "interval"),),
                    unit="s",
                    info="It grows when Slurm is slow and when nobody waits.",
                ),
            ),
        ),
        Row(
            "Policy",
            (
                rate(
                    "Values that were refused", f"{_P}policy_refusals_total", "rule", selector=_HERE
                ),
                Panel(
                    "New versions of the policy file",
                    (
                        Query(
                            f"sum by (version) (increase({_P}policy_reloads_total"
                            f"{{{_HERE}}}[$__rate_interval]))",
                            "{{version}}",
                        ),
                    ),
                ),
                Panel(
                    "Pods that asked for root",
                    (
                        Query(
                            f"sum(increase({_P}root_requests_total{{{_HERE}}}[$__rate_interval]))",
                            "requests",
                        ),
                    ),
                ),
            ),
        ),
    ),
)

DASHBOARDS: Final = (USERS, OPERATORS)


def main() -> None:
    """Write both files."""
    for dashboard in DASHBOARDS:
        path = FOLDER / f"{dashboard.name}.json"
        path.write_text(rendered(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
