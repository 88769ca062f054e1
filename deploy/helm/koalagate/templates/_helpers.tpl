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

{{- /* The labels by which the objects find the pods. */ -}}
{{- define "koalagate.selector" -}}
app.kubernetes.io/name: {{ get (include "koalagate.ratelimit" . | fromYaml) "podName" | default (include "koalagate.name" .) }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* The labels of the pods: those of the objects, unless a control plane finds pods by others. */ -}}
{{- define "koalagate.podLabels" -}}
{{- $labels := include "koalagate.labels" . | fromYaml -}}
{{- $found := get (include "koalagate.ratelimit" . | fromYaml) "podLabels" | default dict -}}
{{- toYaml (mergeOverwrite $labels .Values.podLabels (include "koalagate.selector" . | fromYaml) $found) -}}
{{- end -}}

{{- define "koalagate.labels" -}}
app.kubernetes.io/name: {{ include "koalagate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
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

{{- /* The ConfigMap with the files of limits; empty if a control plane sends them. */ -}}
{{- define "koalagate.limitsConfigMap" -}}
{{- with .Values.ratelimit -}}
{{- if .existingLimitsConfigMap -}}
{{- .existingLimitsConfigMap -}}
{{- else if .limits -}}
{{- printf "%s-limits" (include "koalagate.fullname" $) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "koalagate.kind" -}}
{{- ternary "StatefulSet" "Deployment" .Values.state.persistent -}}
{{- end -}}

{{- define "koalagate.serviceName" -}}
{{- .Values.service.name | default (get (include "koalagate.ratelimit" . | fromYaml) "service") | default (include "koalagate.fullname" .) -}}
{{- end -}}

{{- define "koalagate.isRatelimit" -}}
{{- if eq .Values.mode "ratelimit" }}yes{{ end -}}
{{- end -}}

{{- /* "yes" if rules decide. */ -}}
{{- define "koalagate.hasRules" -}}
{{- if or (eq .Values.mode "service") .Values.ratelimit.withRules }}yes{{ end -}}
{{- end -}}

{{- /* "yes" if rules from a ConfigMap decide. */ -}}
{{- define "koalagate.hasRuleFiles" -}}
{{- if and (include "koalagate.hasRules" .) (not .Values.published.enabled) }}yes{{ end -}}
{{- end -}}

{{- /* What a control plane expects, with what the values say instead; empty in mode: service. */ -}}
{{- define "koalagate.ratelimit" -}}
{{- if include "koalagate.isRatelimit" . -}}
{{- $presets := dict
  "envoy-gateway" (dict
    "address" "envoy-gateway:18001" "nodeID" "envoy-ratelimit" "secret" "envoy-rate-limit" "grpcSecret" "envoy-rate-limit"
    "podName" "envoy-ratelimit" "podLabels" (dict "app.kubernetes.io/component" "ratelimit" "app.kubernetes.io/managed-by" "envoy-gateway"))
  "agent-router" (dict
    "address" "ai-gateway-controller.envoy-ai-gateway-system.svc:18002" "nodeID" "envoy-ai-gateway-ratelimit" "service" "envoy-ai-gateway-ratelimit") -}}
{{- $plane := get $presets .Values.ratelimit.preset | default dict -}}
{{- range $name, $value := .Values.ratelimit.controlPlane -}}
{{- if $value }}{{ $_ := set $plane $name $value }}{{ end -}}
{{- end -}}
{{- toYaml $plane -}}
{{- end -}}
{{- end -}}

{{- /* The tls of each address: the values, or what the control plane expects. */ -}}
{{- define "koalagate.tls" -}}
{{- $tls := deepCopy .Values.tls -}}
{{- $expected := get (include "koalagate.ratelimit" . | fromYaml) "grpcSecret" -}}
{{- if and $expected (not $tls.grpc.secret) -}}
{{- $_ := set $tls "grpc" (dict "secret" $expected "clientCA" true) -}}
{{- end -}}
{{- toYaml $tls -}}
{{- end -}}

{{- /* The variables of the container that the chart decides. The image sets five of them, and a
variable overrides the file of settings. */ -}}
{{- define "koalagate.ownEnv" -}}
{{- $env := dict
  "KOALAGATE_RULES" (ternary (ternary "redis:" "/etc/koalagate/rules.d" .Values.published.enabled) "" (eq (include "koalagate.hasRules" .) "yes"))
  "KOALAGATE_STATE_DIR" "/var/lib/koalagate"
  "KOALAGATE_GRPC_ADDR" ":9191" "KOALAGATE_HTTP_ADDR" ":9981" "KOALAGATE_ADMIN_ADDR" ":9982" -}}
{{- if include "koalagate.isRatelimit" . -}}
{{- $plane := include "koalagate.ratelimit" . | fromYaml -}}
{{- $env = mergeOverwrite $env (dict
  "KOALAGATE_CONFIG" "/etc/koalagate/settings/koalagate.yaml"
  "KOALAGATE_GRPC_ADDR" ":8081" "KOALAGATE_HTTP_ADDR" ":8080"
  "USE_STATSD" "false" "USE_PROMETHEUS" "true" "PROMETHEUS_ADDR" ":19001"
  "FORCE_START_WITHOUT_INITIAL_CONFIG" "true" "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" "true") -}}
{{- if $plane.address -}}
{{- $env = mergeOverwrite $env (dict "CONFIG_TYPE" "GRPC_XDS_SOTW" "CONFIG_GRPC_XDS_SERVER_URL" $plane.address) -}}
{{- with $plane.nodeID }}{{ $_ := set $env "CONFIG_GRPC_XDS_NODE_ID" . }}{{ end -}}
{{- if $plane.secret -}}
{{- $env = mergeOverwrite $env (dict
  "CONFIG_GRPC_XDS_SERVER_USE_TLS" "true"
  "CONFIG_GRPC_XDS_CLIENT_TLS_CERT" "/etc/koalagate/tls/xds/tls.crt" "CONFIG_GRPC_XDS_CLIENT_TLS_KEY" "/etc/koalagate/tls/xds/tls.key"
  "CONFIG_GRPC_XDS_SERVER_TLS_CACERT" "/etc/koalagate/tls/xds/ca.crt") -}}
{{- end -}}
{{- else -}}
{{- $env = mergeOverwrite $env (dict
  "CONFIG_TYPE" "FILE" "RUNTIME_ROOT" "/etc/koalagate" "RUNTIME_SUBDIRECTORY" "limits"
  "RUNTIME_WATCH_ROOT" "false" "RUNTIME_IGNOREDOTFILES" "true") -}}
{{- end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{- define "koalagate.env" -}}
{{- range $name, $value := mergeOverwrite (include "koalagate.ownEnv" . | fromYaml) .Values.env .Values.ratelimit.env }}
- { name: {{ $name }}, value: {{ $value | quote }} }
{{- end -}}
{{- end -}}

{{- /* The Secrets with certificates, by the folder that each has. */ -}}
{{- define "koalagate.certificates" -}}
{{- $folders := dict -}}
{{- range $address, $tls := include "koalagate.tls" . | fromYaml -}}
{{- if $tls.secret }}{{ $_ := set $folders $address $tls.secret }}{{ end -}}
{{- end -}}
{{- with get (include "koalagate.ratelimit" . | fromYaml) "secret" }}{{ $_ := set $folders "xds" . }}{{ end -}}
{{- toYaml $folders -}}
{{- end -}}

{{- /* The settings of the chart, which values.settings extends. */ -}}
{{- define "koalagate.settings" -}}
{{- $settings := dict "admin_token_file" (printf "/etc/koalagate/admin/%s" .Values.admin.tokenKey) -}}
{{- if .Values.redis.url -}}
{{- $_ := set $settings "redis" .Values.redis.url -}}
{{- if .Values.redis.username -}}
{{- $_ := set $settings "redis_username" .Values.redis.username -}}
{{- end -}}
{{- if .Values.redis.passwordSecret -}}
{{- $_ := set $settings "redis_password_file" (printf "/etc/koalagate/redis/%s" .Values.redis.passwordKey) -}}
{{- end -}}
{{- else if include "koalagate.isRatelimit" . -}}
{{- /* Otherwise the variables of envoyproxy/ratelimit name a Redis of the machine. */ -}}
{{- $_ := set $settings "redis" "" -}}
{{- end -}}
{{- if .Values.published.publicKey -}}
{{- $_ := set $settings "publish_public_key" "/etc/koalagate/settings/publish.pub" -}}
{{- end -}}
{{- range $address, $tls := include "koalagate.tls" . | fromYaml -}}
{{- if $tls.secret -}}
{{- $_ := set $settings (printf "%s_tls_cert" $address) (printf "/etc/koalagate/tls/%s/tls.crt" $address) -}}
{{- $_ := set $settings (printf "%s_tls_key" $address) (printf "/etc/koalagate/tls/%s/tls.key" $address) -}}
{{- if $tls.clientCA -}}
{{- $_ := set $settings (printf "%s_tls_client_ca" $address) (printf "/etc/koalagate/tls/%s/ca.crt" $address) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $defaults := dict -}}
{{- if include "koalagate.isRatelimit" . }}{{ $defaults = dict "log_level" "info" "log_format" "json" }}{{ end -}}
{{- toYaml (merge $settings .Values.settings $defaults) -}}
{{- end -}}
