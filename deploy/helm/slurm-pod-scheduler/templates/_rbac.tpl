{{/* What is done with pods and told about them, wherever they are served. */}}
{{- define "slurm-pod-scheduler.podRules" -}}
# delete: a pod whose Slurm job has ended
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [pods/binding]
  verbs: [create]
{{- if eq .Values.scheduler.config.scheduler.evictionPolicy "budget" }}
# asks PodDisruptionBudgets first
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- end }}
# conditions, and the annotation that records the job id
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
{{ include "slurm-pod-scheduler.eventRules" . }}
{{- include "slurm-pod-scheduler.gangRules" . }}
{{- end -}}

{{/* How many pods a gang has is in the object behind it, for the sources that are on. A PodGroup says how it stands. */}}
{{- define "slurm-pod-scheduler.gangRules" -}}
{{- $on := include "slurm-pod-scheduler.list" .Values.scheduler.config.scheduler.gangs | fromJsonArray -}}
{{- $objects := list
  (dict "source" "lws" "group" "leaderworkerset.x-k8s.io" "plural" "leaderworkersets")
  (dict "source" "jobset" "group" "jobset.x-k8s.io" "plural" "jobsets")
  (dict "source" "pod-group" "group" "scheduling.k8s.io" "plural" "podgroups" "told" true)
  (dict "source" "scheduler-plugins" "group" "scheduling.x-k8s.io" "plural" "podgroups" "told" true)
  (dict "source" "job" "group" "batch" "plural" "jobs")
-}}
{{- range $objects }}
{{- if has .source $on }}
# how many pods a gang of {{ .source }} has
- apiGroups: [{{ .group }}]
  resources: [{{ .plural }}]
  verbs: [get]
{{- if .told }}
# how such a gang stands
- apiGroups: [{{ .group }}]
  resources: [{{ .plural }}/status]
  verbs: [patch]
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "slurm-pod-scheduler.eventRules" -}}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* A pod is bound only to a Node that is there, ready and not cordoned. */}}
{{- define "slurm-pod-scheduler.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end -}}

{{/* A pod is bound only to a Node from which its volumes can be reached. */}}
{{- define "slurm-pod-scheduler.volumeRules" -}}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [list, watch]
{{- end -}}

{{/* The uid of that namespace tells this cluster from others on the same Slurm. */}}
{{- define "slurm-pod-scheduler.identityRules" -}}
# its uid tells this cluster from others on the same Slurm
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [{{ . }}]
  verbs: [get]
{{- end -}}

{{/* Who leads: the one Lease, which a right to create cannot name. */}}
{{- define "slurm-pod-scheduler.leaseRules" -}}
# who leads
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "slurm-pod-scheduler.fullname" . }}]
  verbs: [get, update]
{{- end -}}

{{/* A binding of a role to the scheduler: (dict "root" $ "kind" "Role" "name" NAME "namespace" NAMESPACE). */}}
{{- define "slurm-pod-scheduler.roleBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "slurm-pod-scheduler.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "slurm-pod-scheduler.serviceAccountName" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
