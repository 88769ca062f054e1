{{- define "koalagate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* The name of all objects: the release's, with the chart's unless it is part of it. */ -}}
{{- define "koalagate.fullname" -}}
{{- $name := include "koalagate.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "koalagate.selector" -}}
app.kubernetes.io/name: {{ include "koalagate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "koalagate.labels" -}}
{{ include "koalagate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "koalagate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default (printf "v%s" .Chart.AppVersion) .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "koalagate.tokenSecret" -}}
{{- default (printf "%s-admin" (include "koalagate.fullname" .)) .Values.admin.tokenSecret -}}
{{- end -}}

{{- define "koalagate.rulesConfigMap" -}}
{{- default (printf "%s-rules" (include "koalagate.fullname" .)) .Values.existingRulesConfigMap -}}
{{- end -}}

{{- define "koalagate.kind" -}}
{{- ternary "StatefulSet" "Deployment" .Values.state.persistent -}}
{{- end -}}

{{- /* The settings of the chart, which values.settings extends. */ -}}
{{- define "koalagate.settings" -}}
{{- $settings := dict
  "rules" (list (ternary "redis:" "/etc/koalagate/rules.d" .Values.published.enabled))
  "state_dir" "/var/lib/koalagate"
  "grpc_addr" ":9191" "http_addr" ":9981" "admin_addr" ":9982"
  "admin_token_file" (printf "/etc/koalagate/admin/%s" .Values.admin.tokenKey) -}}
{{- if .Values.redis.url -}}
{{- $_ := set $settings "redis" .Values.redis.url -}}
{{- if .Values.redis.username -}}
{{- $_ := set $settings "redis_username" .Values.redis.username -}}
{{- end -}}
{{- if .Values.redis.passwordSecret -}}
{{- $_ := set $settings "redis_password_file" (printf "/etc/koalagate/redis/%s" .Values.redis.passwordKey) -}}
{{- end -}}
{{- end -}}
{{- with .Values.settings.decision_log -}}
{{- if not (hasPrefix "/var/log/koalagate/" .) -}}
{{- fail (printf "settings.decision_log is %s; want a file in /var/log/koalagate, the only folder for logs that the pod can write to" .) -}}
{{- end -}}
{{- end -}}
{{- if .Values.published.publicKey -}}
{{- if not .Values.state.persistent -}}
{{- fail "published.publicKey requires state.persistent: a pod that forgets which versions it has seen could be given an older one" -}}
{{- end -}}
{{- $_ := set $settings "publish_public_key" "/etc/koalagate/settings/publish.pub" -}}
{{- end -}}
{{- range $address, $tls := .Values.tls -}}
{{- if $tls.secret -}}
{{- $_ := set $settings (printf "%s_tls_cert" $address) (printf "/etc/koalagate/tls/%s/tls.crt" $address) -}}
{{- $_ := set $settings (printf "%s_tls_key" $address) (printf "/etc/koalagate/tls/%s/tls.key" $address) -}}
{{- if $tls.clientCA -}}
{{- $_ := set $settings (printf "%s_tls_client_ca" $address) (printf "/etc/koalagate/tls/%s/ca.crt" $address) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml (merge $settings .Values.settings) -}}
{{- end -}}
