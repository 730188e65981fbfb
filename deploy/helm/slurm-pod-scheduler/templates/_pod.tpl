{{/* Volumes and their mounts: files of Secrets and ConfigMaps, as folders, so that changes arrive. */}}
{{- define "slurm-pod-scheduler.volumes" -}}
{{- $values := .Values.scheduler -}}
{{- $name := include "slurm-pod-scheduler.fullname" . -}}
{{- $volumes := list -}}
{{- if not $values.config.slurm.token.file -}}
  {{- $secret := dict "secretName" (include "slurm-pod-scheduler.tokenSecret" .) "defaultMode" 288 -}}
  {{- $volumes = append $volumes (dict "name" "slurm-token" "secret" $secret) -}}
{{- end -}}
{{- with $values.config.slurm.ca -}}
  {{- if .existingConfigMap -}}
    {{- $volumes = append $volumes (dict "name" "slurm-ca" "configMap" (dict "name" .existingConfigMap)) -}}
  {{- else if .existingSecret -}}
    {{- $volumes = append $volumes (dict "name" "slurm-ca" "secret" (dict "secretName" .existingSecret "defaultMode" 288)) -}}
  {{- end -}}
{{- end -}}
{{- if $values.hooks.enabled -}}
  {{- $secret := dict "secretName" (include "slurm-pod-scheduler.hooksSecret" .) "defaultMode" 288 -}}
  {{- $volumes = append $volumes (dict "name" "hooks" "secret" $secret) -}}
  {{- with $values.hooks.tls.existingSecret -}}
    {{- $volumes = append $volumes (dict "name" "hooks-tls" "secret" (dict "secretName" . "defaultMode" 288)) -}}
  {{- end -}}
{{- end -}}
{{- if include "slurm-pod-scheduler.hasPolicy" . -}}
  {{- $map := default (printf "%s-policy" $name) $values.policy.existingConfigMap -}}
  {{- $volumes = append $volumes (dict "name" "policy" "configMap" (dict "name" $map)) -}}
{{- end -}}
{{- if include "slurm-pod-scheduler.hasNodeMap" . -}}
  {{- $map := default (printf "%s-nodes" $name) $values.nodeMap.existingConfigMap -}}
  {{- $volumes = append $volumes (dict "name" "nodes" "configMap" (dict "name" $map)) -}}
{{- end -}}
{{- with concat $volumes $values.extraVolumes -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "slurm-pod-scheduler.mounts" -}}
{{- $values := .Values.scheduler -}}
{{- $mounts := list -}}
{{- if not $values.config.slurm.token.file -}}
  {{- $mounts = append $mounts (dict "name" "slurm-token" "mountPath" "/var/run/secrets/slurm" "readOnly" true) -}}
{{- end -}}
{{- if include "slurm-pod-scheduler.hasAuthority" . -}}
  {{- $mounts = append $mounts (dict "name" "slurm-ca" "mountPath" "/etc/slurm-pod-scheduler/ca" "readOnly" true) -}}
{{- end -}}
{{- if $values.hooks.enabled -}}
  {{- $mounts = append $mounts (dict "name" "hooks" "mountPath" "/var/run/secrets/hooks" "readOnly" true) -}}
  {{- if $values.hooks.tls.existingSecret -}}
    {{- $mounts = append $mounts (dict "name" "hooks-tls" "mountPath" "/var/run/secrets/hooks-tls" "readOnly" true) -}}
  {{- end -}}
{{- end -}}
{{- if include "slurm-pod-scheduler.hasPolicy" . -}}
  {{- $mounts = append $mounts (dict "name" "policy" "mountPath" "/etc/slurm-pod-scheduler/policy" "readOnly" true) -}}
{{- end -}}
{{- if include "slurm-pod-scheduler.hasNodeMap" . -}}
  {{- $mounts = append $mounts (dict "name" "nodes" "mountPath" "/etc/slurm-pod-scheduler/nodes" "readOnly" true) -}}
{{- end -}}
{{- with concat $mounts $values.extraVolumeMounts -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "slurm-pod-scheduler.hasAuthority" -}}
{{- with .Values.scheduler.config.slurm.ca -}}
  {{- if or .existingConfigMap .existingSecret -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Constraints that name no pods are about the scheduler's own. */}}
{{- define "slurm-pod-scheduler.wishes" -}}
{{- $given := .Values.scheduler.topologySpreadConstraints -}}
{{- if and (not $given) (not .Values.scheduler.affinity) (gt (int .Values.scheduler.replicas) 1) -}}
  {{- $given = list (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway") -}}
{{- end -}}
{{- toJson $given -}}
{{- end -}}

{{- define "slurm-pod-scheduler.spread" -}}
{{- $own := dict "matchLabels" (include "slurm-pod-scheduler.selectorLabels" . | fromYaml) -}}
{{- $constraints := list -}}
{{- range include "slurm-pod-scheduler.wishes" . | fromJsonArray -}}
  {{- $constraints = append $constraints (merge (deepCopy .) (dict "labelSelector" $own)) -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}
