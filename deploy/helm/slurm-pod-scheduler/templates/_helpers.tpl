{{/* Names, labels, and values in more than one form. */}}

{{- define "slurm-pod-scheduler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slurm-pod-scheduler.fullname" -}}
{{- $name := include "slurm-pod-scheduler.name" . -}}
{{- $made := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $made .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* Of objects outside the release's namespace, where a release of another namespace may have the same name. */}}
{{- define "slurm-pod-scheduler.clusterName" -}}
{{- $name := include "slurm-pod-scheduler.fullname" . -}}
{{- ternary $name (printf "%s-%s" .Release.Namespace $name) (eq $name .Release.Namespace) -}}
{{- end -}}

{{- define "slurm-pod-scheduler.serviceAccountName" -}}
{{- $given := .Values.scheduler.serviceAccount -}}
{{- default (ternary (include "slurm-pod-scheduler.fullname" .) "default" $given.create) $given.name -}}
{{- end -}}

{{- define "slurm-pod-scheduler.tokenSecret" -}}
{{- default (printf "%s-slurm-token" (include "slurm-pod-scheduler.fullname" .)) .Values.scheduler.config.slurm.token.existingSecret -}}
{{- end -}}

{{- define "slurm-pod-scheduler.hooksSecret" -}}
{{- default (printf "%s-hooks" (include "slurm-pod-scheduler.fullname" .)) .Values.scheduler.hooks.existingSecret -}}
{{- end -}}

{{- define "slurm-pod-scheduler.schedulerName" -}}
{{- tpl .Values.scheduler.name . -}}
{{- end -}}

{{- define "slurm-pod-scheduler.image" -}}
{{- $image := .Values.scheduler.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "slurm-pod-scheduler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "slurm-pod-scheduler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: scheduler
{{- end -}}

{{/*
Labels with those of a value, which must not be ones by which the chart's objects find each other:
(dict "own" YAML "more" MAP "value" PATH).
*/}}
{{- define "slurm-pod-scheduler.withLabels" -}}
{{- $kept := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" -}}
{{- range $name := keys .more | sortAlpha -}}
  {{- if has $name $kept -}}
    {{- fail (printf "%s: %s: expected other labels: the chart sets this one itself" $.value $name) -}}
  {{- end -}}
{{- end -}}
{{- if .more -}}
{{- merge (deepCopy .more) (.own | fromYaml) | toYaml -}}
{{- else -}}
{{- .own -}}
{{- end -}}
{{- end -}}

{{/* Of pods: without the chart's version, which alone is no reason to start another. */}}
{{- define "slurm-pod-scheduler.podLabels" -}}
{{- $own := printf "%s\napp.kubernetes.io/version: %q" (include "slurm-pod-scheduler.selectorLabels" .) .Chart.AppVersion -}}
{{- include "slurm-pod-scheduler.withLabels" (dict "own" $own "more" .Values.commonLabels "value" "commonLabels") -}}
{{- end -}}

{{- define "slurm-pod-scheduler.labels" -}}
{{ include "slurm-pod-scheduler.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The value on its own, of a list, a map or a number too, as the command line takes it. */}}
{{- define "slurm-pod-scheduler.word" -}}
{{- if kindIs "map" . -}}
  {{- $pairs := list -}}
  {{- range $key, $value := . -}}
    {{- $pairs = append $pairs (printf "%s=%s" $key (toString $value)) -}}
  {{- end -}}
  {{- join "," $pairs -}}
{{- else if kindIs "slice" . -}}
  {{- join "," . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
  {{- printf "%.0f" . -}}
{{- else if not (kindIs "invalid" .) -}}
  {{- toString . -}}
{{- end -}}
{{- end -}}

{{/* A duration with its unit, without which the API server would not read it. */}}
{{- define "slurm-pod-scheduler.duration" -}}
{{- $word := include "slurm-pod-scheduler.word" . -}}
{{- ternary (printf "%ss" $word) $word (regexMatch "[0-9]$" $word) -}}
{{- end -}}

{{/* A list, given as one or with commas between, as a JSON list without blanks and repetitions. */}}
{{- define "slurm-pod-scheduler.list" -}}
{{- $found := list -}}
{{- range splitList "," (include "slurm-pod-scheduler.word" .) -}}
  {{- with trim . -}}
    {{- $found = append $found . -}}
  {{- end -}}
{{- end -}}
{{- uniq $found | toJson -}}
{{- end -}}

{{/* The namespaces that are served, as a JSON list; empty with the scope `cluster`. */}}
{{- define "slurm-pod-scheduler.namespaces" -}}
{{- $scope := .Values.scheduler.scope -}}
{{- $given := include "slurm-pod-scheduler.list" $scope.namespaces | fromJsonArray -}}
{{- if and (eq $scope.type "cluster") $given -}}
  {{- fail (printf "scheduler.scope.namespaces: %s: only with scheduler.scope.type=namespace, and the type is cluster" (join "," $given)) -}}
{{- end -}}
{{- if eq $scope.type "cluster" -}}
  {{- list | toJson -}}
{{- else -}}
  {{- default (list .Release.Namespace) $given | toJson -}}
{{- end -}}
{{- end -}}

{{/* "true" where a rule of the policy selects by the labels of Namespaces. */}}
{{- define "slurm-pod-scheduler.selectsNamespaces" -}}
{{- range .Values.scheduler.policy.rules -}}
  {{- if hasKey . "namespaceSelector" -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" where there is a policy file, or a file of nodes. */}}
{{- define "slurm-pod-scheduler.hasPolicy" -}}
{{- with .Values.scheduler.policy -}}
  {{- if or .rules .existingConfigMap -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- define "slurm-pod-scheduler.hasNodeMap" -}}
{{- with .Values.scheduler.nodeMap -}}
  {{- if or .nodes .existingConfigMap -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether there are admission policies: "auto" makes them with the rights that the scope takes anyhow. */}}
{{- define "slurm-pod-scheduler.hasAdmission" -}}
{{- $enabled := toString .Values.scheduler.admission.enabled -}}
{{- $may := and (eq .Values.scheduler.scope.type "cluster") (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") $may) -}}
true
{{- end -}}
{{- end -}}
