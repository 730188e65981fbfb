{{/* The scheduler's command line, as a YAML list. */}}
{{- define "slurm-pod-scheduler.arguments" -}}
{{- $values := .Values.scheduler -}}
{{- if not $values.config.slurm.apiBase -}}
  {{- fail "scheduler.config.slurm.apiBase: '': expected where slurmrestd is, such as http://slurmrestd.slurm:6820 or unix:/run/slurm/slurmrestd.sock" -}}
{{- end -}}
{{- $arguments := list
  "run"
  (printf "--scheduler-name=%s" (include "slurm-pod-scheduler.schedulerName" .))
  (printf "--own-namespace=%s" .Release.Namespace)
-}}
{{- with include "slurm-pod-scheduler.namespaces" . | fromJsonArray -}}
  {{- $arguments = append $arguments (printf "--watch-namespace=%s" (join "," .)) -}}
{{- end -}}
{{- $reads := or (eq $values.scope.type "cluster") $values.scope.nodeAccess -}}
{{- $arguments = append $arguments (printf "--node-access=%s" (ternary "read" "none" $reads)) -}}
{{- $counts := or (eq $values.scope.type "cluster") $values.scope.podAccess -}}
{{- $arguments = append $arguments (printf "--pod-access=%s" (ternary "read" "none" $counts)) -}}

{{- $reaches := or (eq $values.scope.type "cluster") $values.scope.volumeAccess -}}
{{- $arguments = append $arguments (printf "--volume-access=%s" (ternary "read" "none" $reaches)) -}}
{{- with $values.ignoredRequirements -}}
  {{- $arguments = append $arguments (printf "--ignored-requirements=%s" (join "," .)) -}}
{{- end -}}
{{- $gangs := include "slurm-pod-scheduler.list" $values.config.scheduler.gangs | fromJsonArray -}}
{{- $arguments = append $arguments (printf "--gangs=%s" (join "," $gangs)) -}}

{{- $mapping := include "slurm-pod-scheduler.list" $values.nodeMapping | fromJsonArray -}}
{{- if include "slurm-pod-scheduler.hasNodeMap" . -}}
  {{- $mapping = prepend $mapping (printf "file:/etc/slurm-pod-scheduler/nodes/%s" $values.nodeMap.key) -}}
{{- end -}}
{{- $arguments = append $arguments (printf "--node-mapping=%s" (join "," $mapping)) -}}

{{- $token := $values.config.slurm.token -}}
{{- $file := default (printf "/var/run/secrets/slurm/%s" $token.key) $token.file -}}
{{- $arguments = append $arguments (printf "--slurm-auth-token-file=%s" $file) -}}
{{- if include "slurm-pod-scheduler.hasPolicy" . -}}
  {{- $arguments = append $arguments (printf "--policy-file=/etc/slurm-pod-scheduler/policy/%s" $values.policy.key) -}}
{{- end -}}

{{- $elects := $values.leaderElection.enabled -}}
{{- if and (not $elects) (gt (int $values.replicas) 1) -}}
  {{- fail (printf "scheduler.replicas: %d: expected scheduler.leaderElection.enabled=true with it: all of them would write" (int $values.replicas)) -}}
{{- end -}}
{{- $arguments = append $arguments (printf "--leader-elect=%t" $elects) -}}
{{- if $elects -}}
  {{- $arguments = append $arguments (printf "--leader-elect-resource-name=%s" (include "slurm-pod-scheduler.fullname" .)) -}}
{{- end -}}

{{- range $flag, $path := .Files.Get "files/flags.yaml" | fromYaml -}}
  {{- $value := $values -}}
  {{- range splitList "." $path -}}
    {{- $value = get $value . -}}
  {{- end -}}
  {{- with include "slurm-pod-scheduler.word" $value -}}
    {{- $arguments = append $arguments (printf "--%s=%s" $flag .) -}}
  {{- end -}}
{{- end -}}

{{- $ports := $values.ports -}}
{{- $arguments = append $arguments (printf "--health-probe-bind-address=:%.0f" $ports.health) -}}
{{- $metrics := ternary (printf ":%.0f" $ports.metrics) "0" $values.metrics.enabled -}}
{{- $arguments = append $arguments (printf "--metrics-bind-address=%s" $metrics) -}}
{{- if $values.page.enabled -}}
  {{- $arguments = append $arguments (printf "--page-bind-address=127.0.0.1:%.0f" $ports.page) -}}
{{- end -}}
{{- if $values.hooks.enabled -}}
  {{- $arguments = concat $arguments (list
    (printf "--hooks-api-bind-address=:%.0f" $ports.hooks)
    (printf "--hooks-api-token-file=/var/run/secrets/hooks/%s" $values.hooks.key)
  ) -}}
  {{- with $values.hooks.url -}}
    {{- $arguments = append $arguments (printf "--hooks-api-url=%s" .) -}}
  {{- end -}}
  {{- if $values.hooks.tls.existingSecret -}}
    {{- $arguments = concat $arguments (list
      "--hooks-api-tls-cert-file=/var/run/secrets/hooks-tls/tls.crt"
      "--hooks-api-tls-key-file=/var/run/secrets/hooks-tls/tls.key"
    ) -}}
    {{- with $values.hooks.tls.caKey -}}
      {{- if not (hasPrefix "https://" $values.hooks.url) -}}
        {{- fail (printf "scheduler.hooks.tls.caKey: %s: expected scheduler.hooks.url=https://HOST with it: who is given it asks there" .) -}}
      {{- end -}}
      {{- $arguments = append $arguments (printf "--hooks-api-ca-file=/var/run/secrets/hooks-tls/%s" .) -}}
    {{- end -}}
  {{- end -}}
{{- else -}}
  {{- $arguments = append $arguments "--hooks-api-bind-address=0" -}}
  {{- if eq $values.config.scheduler.gracePolicy "guarded" -}}
    {{- fail "scheduler.config.scheduler.gracePolicy: guarded: expected scheduler.hooks.enabled=true with it: without the hooks there is no guard" -}}
  {{- end -}}
{{- end -}}
{{- concat $arguments $values.extraArgs | toYaml -}}
{{- end -}}
