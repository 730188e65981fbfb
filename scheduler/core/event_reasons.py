"""The table of reasons: what a pod's Events and conditions may say, and what to do about it.

`make docs` generates docs/events.md from it. Reasons never change, because people alert on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final, Literal

EventKind = Literal["Normal", "Warning"]


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
    GANG_INCOMPLETE = "GangIncomplete"
    GANG_SLOT_LOST = "GangSlotLost"
    WAITS_FOR_GANG = "WaitsForGang"
    NOT_IN_GANG = "NotInGang"
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
    GANG_RELEASED = "GangReleased"
    PLACEHOLDER_CANCELLED = "PlaceholderCancelled"
    PLACEHOLDER_COMPLETED = "PlaceholderCompleted"
    REQUEUED = "Requeued"
    SUSPENDED = "Suspended"
    BRAKE_ENGAGED = "BrakeEngaged"
    BRAKE_RELEASED = "BrakeReleased"
    KILL_WAIT_MISMATCH = "KillWaitMismatch"
    KILL_WAIT_WITHHELD = "KillWaitWithheld"
    MIN_JOB_AGE_SHORT = "MinJobAgeShort"


# Events that must not wait behind others: what happened to a pod, and what concerns all pods.
IMPORTANT: Final = frozenset(
    {
        *(Reason.SCHEDULED, Reason.SCHEDULING_FAILED, Reason.PREEMPTED, Reason.TIME_LIMIT),
        *(Reason.NODE_FAILED, Reason.PLACEHOLDER_CANCELLED, Reason.PLACEHOLDER_COMPLETED),
        Reason.GANG_RELEASED,
        *(Reason.REQUEUED, Reason.SUSPENDED, Reason.BRAKE_ENGAGED, Reason.BRAKE_RELEASED),
    }
)


@dataclass(frozen=True, slots=True)
class Meaning:
    """`kind` is the Event's type; `condition` is the type of the condition that has the reason."""

    kind: EventKind
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
        "A Slurm job was submitted for the pod; the message has its id and Slurm's warnings. If "
        "there are no warnings and no excluded nodes, and the pod is bound at once, only "
        "`Scheduled` is recorded.",
        "Nothing. `squeue -j ID` shows the job.",
    ),
    Reason.PLACEHOLDER_UPDATED: Meaning(
        "Normal",
        "",
        "The annotations of the waiting pod were edited, and Slurm has changed its pending "
        "job accordingly; the message names the changes, and any value that Slurm shows "
        "differently.",
        "Nothing.",
    ),
    Reason.UPDATE_REFUSED: Meaning(
        "Warning",
        "",
        "The annotations of the waiting pod were edited, and Slurm refuses to change its "
        "pending job accordingly; the message and the condition give Slurm's words. Or other "
        "nodes suit the pod now, and Slurm refuses to change the job's excluded nodes. The "
        "job keeps its place in the queue. The change is tried again with growing pauses, at "
        "most 5 minutes, and at once after another edit.",
        "Correct the annotation, or have the partition, account, QoS or reservation corrected"
        " in Slurm.",
    ),
    Reason.EDITED_TOO_OFTEN: Meaning(
        "Warning",
        "PodScheduled",
        "The annotations of the waiting pod, or of many waiting pods, are edited too often to"
        " pass every edit to Slurm; the condition says when the next edit reaches Slurm. What"
        " the pod asks for at that time counts. The job keeps its place in the queue.",
        "Wait, and find out who edits the pod again and again.",
    ),
    Reason.SUBMITTED_TOO_OFTEN: Meaning(
        "Warning",
        "PodScheduled",
        "The pods of the namespace ask for more Slurm jobs than one namespace may submit: "
        "5000 at once, then 20 a second. The condition says when the pod's turn comes. Pods "
        "of other namespaces do not wait because of this, and running pods never do.",
        "Wait. If nobody has created thousands of pods, look for a controller or a script "
        "that creates and deletes pods again and again.",
    ),
    Reason.POLICY_CHANGED: Meaning(
        "Normal",
        "PodScheduled",
        "The site's [policy](policy.md) was changed, and with it what the pod asks for; or "
        "the pod was edited while no scheduler ran. The changes of 200 such pods reach Slurm "
        "at once, then 10 a second: the condition says when this one does. Its job keeps its "
        "place in the queue.",
        "Nothing.",
    ),
    Reason.SLURM_PENDING: Meaning(
        "Normal",
        "PodScheduled",
        "The job waits; the message gives Slurm's reason, priority and partition. An Event is"
        " written for each new reason; the condition follows every change.",
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
        "The pod asks for something that cannot become a Slurm job; the message lists every "
        "problem with its value and what is accepted. No job is submitted.",
        "Correct an annotation in place. Correct anything else in the template, and recreate "
        "the pod.",
    ),
    Reason.SLURM_REJECTED: Meaning(
        "Warning",
        "PodScheduled",
        "Slurm refused the job; the message gives Slurm's words, the field and the value. The"
        " submit is tried again with growing pauses, at most 5 minutes.",
        "Correct the annotation or the resources that the message names, or have the "
        "partition, account, QoS or limit corrected in Slurm.",
    ),
    Reason.SLURM_UNAVAILABLE: Meaning(
        "Warning",
        "PodScheduled",
        "Slurm did not answer, or did not accept the scheduler's token. The submit is tried "
        "again within seconds; running pods are left alone. The Event is written once in an "
        "outage for each pod; the condition follows every change.",
        "If it lasts: check slurmrestd, slurmctld and the token file (`/readyz`, the log).",
    ),
    Reason.NODE_UNAVAILABLE: Meaning(
        "Warning",
        "PodScheduled",
        "Slurm has started the job on a node where the pod cannot go: its Kubernetes Node is "
        "absent, not ready, cordoned, has a taint that the pod does not tolerate, is excluded"
        " by the pod's nodeSelector or required affinity, or has no room beside the pods that"
        " are there. Or Slurm has cancelled the job as soon as it had started there, which it does "
        "if slurmd cannot start the job's script. The allocation is released (after a minute if "
        "waiting can help), and the next jobs avoid this node for a while.",
        "Repair or uncordon the Node, or drain the node in Slurm so that Slurm does not "
        "choose it. For a taint, a label or an expression, give the pod a toleration, or a "
        "Slurm partition or constraint that selects the right nodes.",
    ),
    Reason.NO_NODE_FITS: Meaning(
        "Warning",
        "PodScheduled",
        "The pod fits on no Kubernetes Node. The message says how many Nodes lack a label that the "
        "pod's nodeSelector or required affinity requires, have a taint that the pod does not "
        "tolerate, or are too small. A job is submitted as soon as a Node fits.",
        "Correct what the message names, in the pod or its template, and recreate the pod; or "
        "change the Nodes.",
    ),
    Reason.NODES_NOT_COMPARED: Meaning(
        "Normal",
        "PodScheduled",
        "It takes a while to compare the pod's requests, affinity, topologySpreadConstraints,"
        " ports or volumes with all pods and Nodes of a large cluster, and other pod "
        "templates are compared first: namespaces take turns. A job is submitted afterwards.",
        "Nothing. Pods of one template are compared only once, so give pods the same "
        "requests, labels and terms where possible.",
    ),
    Reason.BIND_REFUSED: Meaning(
        "Warning",
        "PodScheduled",
        "Slurm has started the job, but the API server refuses to bind the pod: because of an"
        " admission policy or webhook, a quota, or a right that the scheduler lacks. The "
        "message gives the server's words. The bind is tried again with growing pauses. After"
        " a minute the allocation is released, and later jobs are submitted with pauses of "
        "at most 5 minutes.",
        "Change the policy, webhook or quota that the message names, or change the pod so "
        "that it is accepted.",
    ),
    Reason.STATUS_REFUSED: Meaning(
        "Warning",
        "",
        "The API server refuses to write the pod's condition or the scheduler's annotations; "
        "the message gives the server's words and the refused text. The pod is served "
        "nevertheless, and the write is tried again with growing pauses. Or it refuses to write "
        "the status of the PodGroup of the pod's [gang](gangs.md#what-a-podgroup-says); this is "
        "said once, on one pod of the gang, and the refused write is not repeated.",
        "Let the policy or webhook that the message names accept the scheduler's writes to "
        "`pods/status` and `podgroups/status`, or grant the right that is missing (`patch`).",
    ),
    Reason.CONTROLLER_BACK_OFF: Meaning(
        "Warning",
        "PodScheduled",
        "At least two earlier pods in a row, which the controller replaced by this one, "
        "failed or were ended within a minute of being bound. To slow this down, the pod's "
        "job is submitted later: after 10 s, then after twice as long each time, up to 5 "
        "minutes. The message says when, and how the last pod ended.",
        "Find out what ends the pods: see the message and the Events of the last one. After a"
        " change of the template, or after this pod is deleted, the next pod does not wait.",
    ),
    Reason.GANG_INCOMPLETE: Meaning(
        "Normal",
        "PodScheduled",
        "The pod belongs to a [gang](gangs.md), whose pods share one Slurm job and start "
        "together. The message says how many of these pods exist and which pod the gang is "
        "waiting for. If the PodGroup that defines the gang's size does not exist, it says so.",
        "Wait until the controller has created all pods, or create the PodGroup. If the controller "
        "creates fewer pods, correct the size of the gang, or have its pods served one by one: "
        "create them anew with the annotation `gang: none`.",
    ),
    Reason.GANG_SLOT_LOST: Meaning(
        "Warning",
        "PodScheduled",
        "The pod belongs to a [gang](gangs.md) that runs, and has no slot: the gang's job has lost "
        "the node, the gang has grown, or the pod asks for other resources than its slot has. "
        "Slurm gives a running job no other node.",
        "The pod waits until no other pod of the gang runs; then one new job is submitted for all "
        "of them. To get it sooner, delete the pods of the gang. With the annotation "
        "`gang-lost-slot: release`, or `--gang-lost-slot=release`, the scheduler deletes them.",
    ),
    Reason.WAITS_FOR_GANG: Meaning(
        "Normal",
        "PodScheduled",
        "The pod belongs to a PodGroup that has more pods than start together (`minCount`, "
        "`minMember`). That many of the other pods are the [gang](gangs.md). This pod gets a "
        "Slurm job of its own as soon as the gang runs, or takes the place of a pod of the gang "
        "that goes away before that.",
        "Wait. If all pods are to start together, raise `minCount` or `minMember`.",
    ),
    Reason.NOT_IN_GANG: Meaning(
        "Warning",
        "",
        "The pod has the labels of a group's pods, but the group's controller did not create it, "
        "so it is served alone and not as a part of that [gang](gangs.md). The message names the "
        "group and the controller that was expected. Or the pod names a gang, and a rule of the "
        "policy, which the message names, forms no such gangs.",
        "If the pod belongs to the group, let the group's controller create it. Otherwise remove "
        "the labels, or the annotation. If the rule should allow the gang, change the policy; it "
        "counts for new pods.",
    ),
    Reason.PLACEHOLDER_LOST: Meaning(
        "Warning",
        "",
        "The job ended, vanished or was cancelled, but that is no reason to end the pod. A "
        "new job follows. If the pod runs, the new job is for the same node and for the time "
        "that is left, unless the pod cannot be served any more. No container is affected, "
        "unless the message says that other jobs have taken the pod's place on its node, or "
        "that five jobs were submitted in vain: then the pod is deleted, with this reason in "
        "its `DisruptionTarget`.",
        "Nothing, unless it happens again: then look at the cause in the message.",
    ),
    Reason.RESIZED_BEYOND_JOB: Meaning(
        "Warning",
        "",
        "The running pod was resized (`pods/resize`) to more than its Slurm job holds. Slurm "
        "cannot enlarge a running job, and may give the difference to other jobs.",
        "Resize the pod back, or delete it and ask for what it needs from the beginning. The "
        "[admission policies](admission.md) refuse such a resize.",
    ),
    Reason.POLICY_APPLIED: Meaning(
        "Normal",
        "",
        "A rule of the site's [policy](policy.md) replaces a value of the pod; the message "
        "names the rule and both values.",
        "Nothing, or remove the annotation from the pod. For another value, ask the site to "
        "change the rule.",
    ),
    Reason.ROOT_REQUESTED: Meaning(
        "Warning",
        "",
        "The pod explicitly asks for a Slurm job of user 0 (root), and no rule of a "
        "[policy](policy.md) says anything about users. The pod is served.",
        "Name another user with the annotation `user-id`. Sites: allow or forbid it in a policy "
        "file.",
    ),
    Reason.REQUIREMENT_IGNORED: Meaning(
        "Warning",
        "",
        "The pod requires something that the scheduler cannot honour, and the site allows "
        "that, by `--ignored-requirements` or a rule of the [policy](policy.md). The message "
        "names field and value. The pod is served as if it did not require it.",
        "Nothing, or remove it from the pod's template.",
    ),
    Reason.NOT_CHARGED: Meaning(
        "Normal",
        "",
        "The pod names an account or a QoS, but Slurm runs without slurmdbd: it accepts any "
        "name and charges nobody. The Event is written once, and only with Slurm 26.05 and "
        "newer, which say whether they have slurmdbd.",
        "Nothing, or remove the annotation from the pod's template. To have names checked, "
        "set `AccountingStorageType=accounting_storage/slurmdbd` in slurm.conf.",
    ),
    Reason.ANNOTATIONS_ON_OWNER: Meaning(
        "Warning",
        "",
        "The pod's controller has annotations that take effect only on pods, and the pod itself "
        "lacks them. The pod is served without them. The Event is written only if the scheduler may"
        " read controllers ([rights](annotations.md#annotations-of-a-controller)).",
        "Put them into the template: `spec.template.metadata.annotations`.",
    ),
    Reason.PREEMPTED: Meaning(
        "Warning",
        "DisruptionTarget",
        "Slurm preempted the job for one of higher priority, or says that it will when the "
        f"GraceTime is over. {_EVICTED}, or with what is left of the GraceTime where that is less.",
        "Nothing; the pod's controller creates a new pod, which queues again. If this must "
        "not happen, use a partition or QoS that is not preempted.",
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
    Reason.GANG_RELEASED: Meaning(
        "Warning",
        "DisruptionTarget",
        "Another pod of the gang cannot come back to its slot, and that pod's "
        "annotation `gang-lost-slot`, or the site's `--gang-lost-slot`, is `release`. "
        f"{_EVICTED}.",
        "Nothing; the pods' controllers make new pods, and one job is submitted for all of them. "
        "The message says what was wrong with the slot.",
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
        "So many pods would end at once because of weak evidence (lost nodes, or records of a"
        " slurmctld that has just started) that it may be a mistake. The scheduler holds each"
        " of them for `--brake-pause`, and ends it only if a later look at Slurm confirms its"
        " end. The Event is written on each such pod, and on the scheduler's own.",
        "If the endings are intended, nothing: the scheduler ends the pods later, or you "
        "delete them at once. Otherwise see [mass endings](operations.md#the-brake).",
    ),
    Reason.BRAKE_RELEASED: Meaning(
        "Normal",
        "",
        "On the scheduler's own pod: the brake holds no pod any more. Each has ended, or stays.",
        "Nothing.",
    ),
    Reason.KILL_WAIT_MISMATCH: Meaning(
        "Warning",
        "",
        "On the scheduler's own pod: Slurm's `KillWait` differs from `--slurm-kill-wait`. "
        "Slurm's value counts for grace periods.",
        "Set `--slurm-kill-wait` to what `scontrol show config` says.",
    ),
    Reason.KILL_WAIT_WITHHELD: Meaning(
        "Warning",
        "",
        "On the scheduler's own pod: slurmrestd refuses the path `/conf`, which shows Slurm's "
        "`KillWait`. Grace periods are judged by the last known value, at first by "
        "`--slurm-kill-wait`.",
        "Make sure that `--slurm-kill-wait` is what `scontrol show config` says, or allow "
        "requests for that path.",
    ),
    Reason.MIN_JOB_AGE_SHORT: Meaning(
        "Warning",
        "",
        "On the scheduler's own pod: Slurm's `MinJobAge` is below 60 s. Slurm may forget how "
        "a job ended before the scheduler has read it; then the pod runs on, and a new job is"
        " submitted for its node.",
        "Set `MinJobAge` in slurm.conf to 60 or more (Slurm's default is 300).",
    ),
}
