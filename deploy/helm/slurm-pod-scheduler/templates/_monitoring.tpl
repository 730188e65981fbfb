{{- define "slurm-pod-scheduler.metricsService" -}}
{{- with .Values.scheduler -}}
  {{- if and .metrics.enabled (or .metrics.service.enabled .serviceMonitor.enabled) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is scraped, from the values of a monitor. */}}
{{- define "slurm-pod-scheduler.endpoint" -}}
- port: metrics
  path: /metrics
  {{- with .interval }}
  interval: {{ . }}
  {{- end }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  {{- with .relabelings }}
  relabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Metadata of an object for monitoring: (dict "root" $ "labels" LABELS "value" PATH). */}}
{{- define "slurm-pod-scheduler.monitorMetadata" -}}
name: {{ include "slurm-pod-scheduler.fullname" .root }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- $own := include "slurm-pod-scheduler.labels" .root }}
  {{- include "slurm-pod-scheduler.withLabels" (dict "own" $own "more" .labels "value" .value) | nindent 2 }}
{{- end -}}
