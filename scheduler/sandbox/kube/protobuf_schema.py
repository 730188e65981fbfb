"""Field numbers of the Kubernetes messages that `kubectl create ...` sends.

Each message lists its fields as `name=number:type`. The type is one of these:

* `s` (string), `i` (integer), `b` (boolean) or `y` (bytes)
* `n` (number) or `f` (flag), which are absent when zero
* the name of a message
* `-` for a field that is skipped

`*` before the type marks a repeated field, and `{}` around it a map with string keys.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message."""

    name: str
    type: str
    repeated: bool
    is_map: bool


_TEXT = """
ObjectMeta: name=1:s generateName=2:s namespace=3:s selfLink=4:s uid=5:s resourceVersion=6:s
  generation=7:n creationTimestamp=8:- deletionTimestamp=9:- deletionGracePeriodSeconds=10:i
  labels=11:{s} annotations=12:{s} ownerReferences=13:*OwnerReference finalizers=14:*s
  managedFields=17:-
OwnerReference: kind=1:s name=3:s uid=4:s apiVersion=5:s controller=6:b blockOwnerDeletion=7:b
LabelSelector: matchLabels=1:{s} matchExpressions=2:*LabelSelectorRequirement
LabelSelectorRequirement: key=1:s operator=2:s values=3:*s
Namespace: metadata=1:ObjectMeta spec=2:NamespaceSpec status=3:-
NamespaceSpec: finalizers=1:*s
ConfigMap: metadata=1:ObjectMeta data=2:{s} binaryData=3:{y} immutable=4:b
Secret: metadata=1:ObjectMeta data=2:{y} type=3:s stringData=4:{s} immutable=5:b
ServiceAccount: metadata=1:ObjectMeta imagePullSecrets=3:*LocalObjectReference
  automountServiceAccountToken=4:b
LocalObjectReference: name=1:s
PodTemplateSpec: metadata=1:ObjectMeta spec=2:PodSpec
Pod: metadata=1:ObjectMeta spec=2:PodSpec status=3:-
PodSpec: containers=2:*Container restartPolicy=3:s terminationGracePeriodSeconds=4:i
  activeDeadlineSeconds=5:i dnsPolicy=6:s nodeSelector=7:{s} serviceAccountName=8:s
  serviceAccount=9:s nodeName=10:s hostNetwork=11:f hostPID=12:f hostIPC=13:f
  imagePullSecrets=15:*LocalObjectReference hostname=16:s subdomain=17:s schedulerName=19:s
  initContainers=20:*Container automountServiceAccountToken=21:b tolerations=22:*Toleration
  priorityClassName=24:s priority=25:i shareProcessNamespace=27:b runtimeClassName=29:s
  enableServiceLinks=30:b preemptionPolicy=31:s overhead=32:{Quantity} setHostnameAsFQDN=35:b
  hostUsers=37:b schedulingGates=38:*PodSchedulingGate resources=40:ResourceRequirements
Container: name=1:s image=2:s command=3:*s args=4:*s workingDir=5:s ports=6:*ContainerPort
  env=7:*EnvVar resources=8:ResourceRequirements terminationMessagePath=13:s imagePullPolicy=14:s
  stdin=16:f stdinOnce=17:f tty=18:f terminationMessagePolicy=20:s restartPolicy=24:s
ContainerPort: name=1:s hostPort=2:n containerPort=3:i protocol=4:s hostIP=5:s
EnvVar: name=1:s value=2:s
ResourceRequirements: limits=1:{Quantity} requests=2:{Quantity}
PodSchedulingGate: name=1:s
Toleration: key=1:s operator=2:s value=3:s effect=4:s tolerationSeconds=5:i
Deployment: metadata=1:ObjectMeta spec=2:DeploymentSpec status=3:-
DeploymentSpec: replicas=1:i selector=2:LabelSelector template=3:PodTemplateSpec
  strategy=4:DeploymentStrategy minReadySeconds=5:n revisionHistoryLimit=6:i paused=7:f
  progressDeadlineSeconds=9:i
DeploymentStrategy: type=1:s rollingUpdate=2:RollingUpdateDeployment
RollingUpdateDeployment: maxUnavailable=1:IntOrString maxSurge=2:IntOrString
Job: metadata=1:ObjectMeta spec=2:JobSpec status=3:-
JobSpec: parallelism=1:i completions=2:i activeDeadlineSeconds=3:i selector=4:LabelSelector
  manualSelector=5:b template=6:PodTemplateSpec backoffLimit=7:i ttlSecondsAfterFinished=8:i
  completionMode=9:s suspend=10:b backoffLimitPerIndex=12:i maxFailedIndexes=13:i
  podReplacementPolicy=14:s managedBy=15:s
PodDisruptionBudget: metadata=1:ObjectMeta spec=2:PodDisruptionBudgetSpec status=3:-
PodDisruptionBudgetSpec: minAvailable=1:IntOrString selector=2:LabelSelector
  maxUnavailable=3:IntOrString unhealthyPodEvictionPolicy=4:s
Eviction: metadata=1:ObjectMeta deleteOptions=2:DeleteOptions
DeleteOptions: gracePeriodSeconds=1:i preconditions=2:Preconditions orphanDependents=3:b
  propagationPolicy=4:s dryRun=5:*s
Preconditions: uid=1:s resourceVersion=2:s
SelfSubjectAccessReview: metadata=1:ObjectMeta spec=2:SelfSubjectAccessReviewSpec status=3:-
SelfSubjectAccessReviewSpec: resourceAttributes=1:ResourceAttributes
  nonResourceAttributes=2:NonResourceAttributes
ResourceAttributes: namespace=1:s verb=2:s group=3:s version=4:s resource=5:s subresource=6:s
  name=7:s
NonResourceAttributes: path=1:s verb=2:s
SelfSubjectReview: metadata=1:ObjectMeta status=2:-
SelfSubjectRulesReview: metadata=1:ObjectMeta spec=2:SelfSubjectRulesReviewSpec status=3:-
SelfSubjectRulesReviewSpec: namespace=1:s
"""


def _parsed(text: str) -> dict[str, dict[int, Field]]:
    messages: dict[str, dict[int, Field]] = {}
    current: dict[int, Field] = {}
    for word in text.split():
        if word.endswith(":"):
            current = messages.setdefault(word[:-1], {})
            continue
        name, _, rest = word.partition("=")
        number, _, kind = rest.partition(":")
        is_map, repeated = kind.startswith("{"), kind.startswith("*")
        current[int(number)] = Field(name, kind.strip("{}*"), repeated, is_map)
    return messages


SCHEMA = _parsed(_TEXT)
