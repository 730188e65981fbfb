"""The table of reasons: what a pod's Events and conditions may say, and what to do about it.

`make docs` generates docs/events.md from it. Reasons never change, because people alert on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final, Literal

Kind = Literal["Normal", "Warning"]


@unique
class Reason(StrEnum):
    """Why something is said about a pod."""

    PLACEHOLDER_SUBMITTED = "PlaceholderSubmitted"
    PLACEHOLDER_UPDATED = "PlaceholderUpdated"
    UPDATE_REFUSED = "UpdateRefused"
    EDITED_TOO_OFTEN = "EditedTooOften"
    SUBMITTED_TOO_OFTEN = "SubmittedTooOften"
    POLICY_CHANGED = "PolicyChanged"
    SLURM_PENDING = "SlurmPending"
    SCHEDULED = "Scheduled"
    SCHEDULING_FAILED = "SchedulingFailed"
    SLURM_REJECTED = "SlurmRejected"
    SLURM_UNAVAILABLE = "SlurmUnavailable"
    NODE_UNAVAILABLE = "NodeUnavailable"
    NO_NODE_FITS = "NoNodeFits"
    NODES_NOT_COMPARED = "NodesNotCompared"
    BIND_REFUSED = "BindRefused"
    STATUS_REFUSED = "StatusRefused"
    CONTROLLER_BACK_OFF = "ControllerBackOff"
    PLACEHOLDER_LOST = "PlaceholderLost"
    RESIZED_BEYOND_JOB = "ResizedBeyondJob"
    POLICY_APPLIED = "PolicyApplied"
    ROOT_REQUESTED = "RootRequested"
    REQUIREMENT_IGNORED = "RequirementIgnored"
    NOT_CHARGED = "NotCharged"
    ANNOTATIONS_ON_OWNER = "AnnotationsOnOwner"
    PREEMPTED = "Preempted"
    TIME_LIMIT = "TimeLimit"
    NODE_FAILED = "NodeFailed"
    PLACEHOLDER_CANCELLED = "PlaceholderCancelled"
    PLACEHOLDER_COMPLETED = "PlaceholderCompleted"
    REQUEUED = "Requeued"
    SUSPENDED = "Suspended"
    BRAKE_ENGAGED = "BrakeEngaged"
    BRAKE_RELEASED = "BrakeReleased"
    KILL_WAIT_MISMATCH = "KillWaitMismatch"
    KILL_WAIT_WITHHELD = "KillWaitWithheld"
    MIN_JOB_AGE_SHORT = "MinJobAgeShort"


# Events that must not wait behind others: what became of a pod, and what concerns all pods.
IMPORTANT: Final = frozenset(
    {
        *(Reason.SCHEDULED, Reason.SCHEDULING_FAILED, Reason.PREEMPTED, Reason.TIME_LIMIT),
        *(Reason.NODE_FAILED, Reason.PLACEHOLDER_CANCELLED, Reason.PLACEHOLDER_COMPLETED),
        *(Reason.REQUEUED, Reason.SUSPENDED, Reason.BRAKE_ENGAGED, Reason.BRAKE_RELEASED),
    }
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """`kind` is the Event's type; `condition` is the type of the condition that has the reason."""

    kind: Kind
    condition: Literal["", "PodScheduled", "DisruptionTarget"]
    meaning: str
    remedy: str


NO_ANSWER_YET: Final = "no answer yet"
"""The text for the first moments of a process, which are no outage."""

_EVICTED: Final = "The pod is deleted with its own grace period"

MEANINGS: Final[Mapping[Reason, Meaning]] = {
    Reason.PLACEHOLDER_SUBMITTED: Meaning(
        "Normal",
        "",
        "A Slurm job was submitted for the pod; the message has its id and Slurm's warnings.",
        "Nothing. `squeue -j ID` shows the job.",
    ),
    Reason.PLACEHOLDER_UPDATED: Meaning(
        "Normal",
        "",
        "The annotations of the waiting pod were edited, and its pending job has taken it; the "
        "message names what, and where Slurm shows something else nevertheless.",
        "Nothing.",
    ),
    Reason.UPDATE_REFUSED: Meaning(
        "Warning",
        "",
        "The annotations of the waiting pod were edited, and Slurm does not let its pending job "
        "take it; the message gives its words, and so does the condition. Or other nodes suit the "
        "pod by now, and Slurm does not let the job have them. The job keeps its place "
        "in the queue. It is tried again with growing pauses, at most 5 minutes, and at once after "
        "another edit.",
        "Correct the annotation, or have the partition, account, QoS or reservation put right in "
        "Slurm.",
    ),
    Reason.EDITED_TOO_OFTEN: Meaning(
        "Warning",
        "PodScheduled",
        "The annotations of the waiting pod, or of many waiting pods, are edited more often than "
        "Slurm is asked about it; the condition says when the next edit reaches Slurm. What the "
        "pod asks for by then counts. The job keeps its place in the queue.",
        "Wait, and find out who edits the pod again and again.",
    ),
    Reason.SUBMITTED_TOO_OFTEN: Meaning(
        "Warning",
        "PodScheduled",
        "The pods of the namespace ask for more Slurm jobs than one namespace gets at a time: 5000 "
        "at once, then 20 a second. The condition says when the pod's turn comes. Pods of other "
        "namespaces do not wait for it, and pods that run never do.",
        "Wait. If nobody has made thousands of pods, look for a controller or a script that makes "
        "and deletes pods again and again.",
    ),
    Reason.POLICY_CHANGED: Meaning(
        "Normal",
        "PodScheduled",
        "The site's [policy](policy.md) was changed, and with it what the pod asks for; or that "
        "changed while no scheduler ran. Of such pods 200 at once reach Slurm, and then 10 a "
        "second: the condition says when this one does. Its job keeps its place in the queue.",
        "Nothing.",
    ),
    Reason.SLURM_PENDING: Meaning(
        "Normal",
        "PodScheduled",
        "The job waits; the message gives Slurm's reason, priority and partition. An Event is "
        "written for each new reason, the condition follows every change.",
        "Usually nothing. `scontrol show job ID` explains; squeue(1), JOB REASON CODES, lists "
        "the reasons.",
    ),
    Reason.SCHEDULED: Meaning(
        "Normal",
        "",
        "The pod is bound to the Node that its Slurm job holds.",
        "Nothing.",
    ),
    Reason.SCHEDULING_FAILED: Meaning(
        "Warning",
        "PodScheduled",
        "The pod asks for something that cannot become a Slurm job; the message lists every fault "
        "with its value and what is accepted. No job is submitted.",
        "Correct an annotation in place; anything else in the template, and recreate the pod.",
    ),
    Reason.SLURM_REJECTED: Meaning(
        "Warning",
        "PodScheduled",
        "Slurm refused the job; the message gives its words, the field and the value. It is tried "
        "again with growing pauses, at most 5 minutes.",
        "Correct the annotation or the resources the message names, or have the partition, "
        "account, QoS or limit put right in Slurm.",
    ),
    Reason.SLURM_UNAVAILABLE: Meaning(
        "Warning",
        "PodScheduled",
        "Slurm did not answer, or did not accept the scheduler's token. Submitting is tried again "
        "within seconds; pods that run are left alone. The Event is written once in an outage for "
        "each pod, the condition follows every change.",
        "If it lasts: check slurmrestd, slurmctld and the token file (`/readyz`, the log).",
    ),
    Reason.NODE_UNAVAILABLE: Meaning(
        "Warning",
        "PodScheduled",
        "Slurm has started the job on a node where the pod cannot go: its Kubernetes Node is "
        "absent, not ready, cordoned, has a taint the pod does not tolerate, is excluded by the "
        "pod's nodeSelector or required affinity, or has no room beside the pods that are there. "
        "The allocation is given back, after a minute where waiting can help, and a new job asks "
        "for other nodes for a while.",
        "Repair or uncordon the Node, or drain the node in Slurm so that it is not chosen; for a "
        "taint, a label or an expression, give the pod a toleration or a Slurm partition or "
        "constraint that keeps to the right nodes.",
    ),
    Reason.NO_NODE_FITS: Meaning(
        "Warning",
        "PodScheduled",
        "No Kubernetes Node has the labels that the pod's nodeSelector or required affinity wants, "
        "without a taint it does not tolerate, and is large enough. No job is submitted; it is as "
        "soon as a Node fits.",
        "Correct the pod's template and recreate the pod, or label the Nodes.",
    ),
    Reason.NODES_NOT_COMPARED: Meaning(
        "Normal",
        "PodScheduled",
        "It takes a while to compare the pod's requests, affinity, topologySpreadConstraints, "
        "ports or volumes with all pods and Nodes of a large cluster, and other templates are "
        "before it: those of one namespace take turns with those of others. A job is submitted "
        "afterwards.",
        "Nothing. Pods of one template are compared once: give pods that need not differ the same "
        "requests, labels and terms.",
    ),
    Reason.BIND_REFUSED: Meaning(
        "Warning",
        "PodScheduled",
        "Slurm has started the job, and the API server refuses to bind the pod; the message has "
        "its words: an admission policy or webhook, a quota, or a right that the scheduler lacks. "
        "It is tried again with growing pauses. After a minute the allocation is given back, and "
        "later jobs are asked for with pauses of at most 5 minutes.",
        "Have the policy, webhook or quota that the message names let the pod through, or change "
        "the pod so that it does.",
    ),
    Reason.STATUS_REFUSED: Meaning(
        "Warning",
        "",
        "The API server refuses to write the pod's condition or the scheduler's annotations; the "
        "message has its words, and what was to be written. The pod is served nevertheless; the "
        "write is tried again with growing pauses.",
        "Have the policy, webhook or right that the message names let the scheduler write "
        "`pods/status`.",
    ),
    Reason.CONTROLLER_BACK_OFF: Meaning(
        "Warning",
        "PodScheduled",
        "The pods of its controller that were in this one's place before it failed, or were ended, "
        "within a minute of being bound, two at least in a row. So that this does not go on at "
        "full speed, its job is asked for later: after 10 s, twice as long each time, at most 5 "
        "minutes. The message says when, and how the last one ended.",
        "Mend what ends the pods: the message and the Events of the last one say what it was. "
        "After a change of the template, or once this pod is deleted, the next one waits for "
        "nothing.",
    ),
    Reason.PLACEHOLDER_LOST: Meaning(
        "Warning",
        "",
        "The job ended, vanished or was given back, which is no reason to end the pod; a new one "
        "follows, for the very node where the pod runs already and for what is left of its time, "
        "unless the pod has become one that cannot be served. No container is affected, unless the "
        "message says that other jobs have the pod's place on its node, or that five jobs were "
        "asked for: then the pod is deleted, with this reason in its `DisruptionTarget`.",
        "Nothing, unless it repeats: then look at the cause the message gives.",
    ),
    Reason.RESIZED_BEYOND_JOB: Meaning(
        "Warning",
        "",
        "The running pod was resized (`pods/resize`) to more than its Slurm job holds. Slurm "
        "gives a running job no more, and may give the difference to others.",
        "Resize the pod back, or delete it and ask for what it needs from the beginning. The "
        "[admission policies](admission.md) refuse such a resize.",
    ),
    Reason.POLICY_APPLIED: Meaning(
        "Normal",
        "",
        "A rule of the site's [policy](policy.md) forces a value that the pod gives otherwise; the "
        "message names the rule and both values.",
        "Nothing, or take the annotation off the pod. Ask the site for another rule.",
    ),
    Reason.ROOT_REQUESTED: Meaning(
        "Warning",
        "",
        "The pod asks for a Slurm job of user 0 (root) in so many words, and no rule of a "
        "[policy](policy.md) speaks of users. It is served.",
        "Name another user with the annotation `user-id`. Sites: allow or forbid it in a policy "
        "file.",
    ),
    Reason.REQUIREMENT_IGNORED: Meaning(
        "Warning",
        "",
        "The pod requires something that the scheduler cannot honour, and the site lets it pass: "
        "`--ignored-requirements`, or a rule of the [policy](policy.md). The message names field "
        "and value. The pod is served as if it did not require it.",
        "Nothing, or take it out of the pod's template.",
    ),
    Reason.NOT_CHARGED: Meaning(
        "Normal",
        "",
        "The pod names an account or a QoS, and Slurm runs without slurmdbd: it takes any name and "
        "charges nobody. Said once; only Slurm 26.05 and newer say whether they have slurmdbd.",
        "Nothing, or take the annotation out of the pod's template. To have names checked, set "
        "`AccountingStorageType=accounting_storage/slurmdbd` in slurm.conf.",
    ),
    Reason.ANNOTATIONS_ON_OWNER: Meaning(
        "Warning",
        "",
        "The pod's controller has annotations that count on pods only, and the pod has not got "
        "them. It is served without them. Told where the scheduler may read controllers "
        "([rights](annotations.md#annotations-of-a-controller)).",
        "Put them into the template: `spec.template.metadata.annotations`.",
    ),
    Reason.PREEMPTED: Meaning(
        "Warning",
        "DisruptionTarget",
        "Slurm preempted the job for one of higher priority, or says that it will when the "
        f"GraceTime is over. {_EVICTED}, or with what is left of the GraceTime where that is less.",
        "Nothing; the pod's controller makes a new pod, which queues again. Ask for a partition or "
        "QoS that is not preempted if this must not happen.",
    ),
    Reason.TIME_LIMIT: Meaning(
        "Warning",
        "DisruptionTarget",
        f"The job has reached its time limit or deadline. {_EVICTED}.",
        "Ask for more time with the annotation `timeout`, or save and resume the work.",
    ),
    Reason.NODE_FAILED: Meaning(
        "Warning",
        "DisruptionTarget",
        f"Slurm lost the node, or it did not boot. {_EVICTED}.",
        "Nothing; the pod's controller makes a new pod. `sinfo -R` shows why the node is down.",
    ),
    Reason.PLACEHOLDER_CANCELLED: Meaning(
        "Warning",
        "DisruptionTarget",
        f"Somebody cancelled the job in Slurm. {_EVICTED}.",
        "Ask whoever ran scancel. To stop the work for good, delete its controller.",
    ),
    Reason.PLACEHOLDER_COMPLETED: Meaning(
        "Warning",
        "DisruptionTarget",
        f"The job ended by itself, though its pod had not. {_EVICTED}.",
        "Look for what ends jobs early on that node: an epilog, a health check, an operator.",
    ),
    Reason.REQUEUED: Meaning(
        "Warning",
        "DisruptionTarget",
        f"The job was requeued and has lost its node. {_EVICTED}; the requeued job is cancelled "
        "once the pod is gone.",
        "Nothing; the pod's controller makes a new pod with a job of its own.",
    ),
    Reason.SUSPENDED: Meaning(
        "Warning",
        "DisruptionTarget",
        "Slurm suspended the job, and may run another on the same cores, so the pod goes "
        f"(`--suspend-policy=evict`, the default). {_EVICTED}.",
        "Nothing; the pod's controller makes a new pod, which queues again. Sites where both may "
        "compute at once set `--suspend-policy=keep`.",
    ),
    Reason.BRAKE_ENGAGED: Meaning(
        "Warning",
        "",
        "So many pods would end at once by weak evidence (lost nodes, or records of a slurmctld "
        "that has just started) that it may be a mistake: the scheduler holds each of them for "
        "`--brake-pause`, and ends it only if a later look at Slurm confirms its end. Said about "
        "each such pod, and about the scheduler's own.",
        "If it is meant, nothing: it goes on by itself, or delete the pods to go on at once. If it "
        "is not, see [mass endings](operations.md#the-brake).",
    ),
    Reason.BRAKE_RELEASED: Meaning(
        "Normal",
        "",
        "About the scheduler's own pod: no pod is held by the brake any longer. Each has ended, or "
        "is to stay.",
        "Nothing.",
    ),
    Reason.KILL_WAIT_MISMATCH: Meaning(
        "Warning",
        "",
        "About the scheduler's own pod: Slurm's `KillWait` is not what `--slurm-kill-wait` says. "
        "Grace periods are judged by Slurm's.",
        "Set `--slurm-kill-wait` to what `scontrol show config` says.",
    ),
    Reason.KILL_WAIT_WITHHELD: Meaning(
        "Warning",
        "",
        "About the scheduler's own pod: `/conf` of slurmrestd, which tells Slurm's `KillWait`, is "
        "refused. Grace periods are judged by what was known last, at first by "
        "`--slurm-kill-wait`.",
        "See that `--slurm-kill-wait` is what `scontrol show config` says, or let the path be "
        "asked for.",
    ),
    Reason.MIN_JOB_AGE_SHORT: Meaning(
        "Warning",
        "",
        "About the scheduler's own pod: Slurm's `MinJobAge` is below 60 s. Slurm may forget how a "
        "job ended before the scheduler has read it; then the pod runs on, and its node is asked "
        "for anew.",
        "Set `MinJobAge` in slurm.conf to 60 or more (Slurm's default is 300).",
    ),
}
