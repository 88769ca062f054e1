{{- /* Milliseconds of a duration like 8s or 1m30s. */ -}}
{{- define "koalagate.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" . -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (get $units $unit)) -}}
{{- end -}}
{{- $sum | int64 -}}
{{- end -}}

{{- /* Fails, and names every value that contradicts another one. */ -}}
{{- define "koalagate.contradictions" -}}
{{- $found := list -}}
{{- $v := .Values -}}
{{- $limits := $v.ratelimit -}}

{{- if not $v.redis.url -}}
{{- if $v.published.enabled -}}
{{- $found = append $found "published.enabled is true without redis.url, where the published rules are: set redis.url" -}}
{{- end -}}
{{- range $name := list "username" "passwordSecret" -}}
{{- if get $v.redis $name -}}
{{- $found = append $found (printf "redis.%s is set without redis.url: set redis.url, or remove redis.%s" $name $name) -}}
{{- end -}}
{{- end -}}
{{- else if contains "@" $v.redis.url -}}
{{- $found = append $found "redis.url has a user or a password, which everybody who reads the ConfigMap would see: set redis.username and redis.passwordSecret" -}}
{{- end -}}

{{- if and $v.published.enabled $v.existingRulesConfigMap -}}
{{- $found = append $found "published.enabled is true, and existingRulesConfigMap is set: rules come from one of them; remove the other" -}}
{{- end -}}
{{- if and $v.published.publicKey (not $v.state.persistent) -}}
{{- $found = append $found "published.publicKey requires state.persistent: a pod that forgets which versions it has seen could be given an older one" -}}
{{- end -}}
{{- if and (include "koalagate.hasRuleFiles" .) (not $v.rules) (not $v.existingRulesConfigMap) -}}
{{- $found = append $found "rules is empty: set rules, existingRulesConfigMap or published.enabled" -}}
{{- end -}}
{{- with $v.settings.decision_log -}}
{{- if not (hasPrefix "/var/log/koalagate/" .) -}}
{{- $found = append $found (printf "settings.decision_log is %s; want a file in /var/log/koalagate, the only folder for logs that the pod can write to" .) -}}
{{- end -}}
{{- end -}}

{{- range $address, $tls := $v.tls -}}
{{- if and $tls.clientCA (not $tls.secret) -}}
{{- $found = append $found (printf "tls.%s.clientCA is true without tls.%s.secret, which has the authorities: set tls.%s.secret" $address $address $address) -}}
{{- end -}}
{{- end -}}

{{- if gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas) -}}
{{- $found = append $found (printf "autoscaling.minReplicas is %d, above autoscaling.maxReplicas, which is %d" (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) -}}
{{- end -}}
{{- $drain := $v.settings.drain_timeout | default "8s" -}}
{{- $needed := add (mul 1000 (int $v.preStopSeconds)) (include "koalagate.milliseconds" $drain | int64) -}}
{{- if le (mul 1000 (int64 $v.terminationGracePeriodSeconds)) $needed -}}
{{- $found = append $found (printf "terminationGracePeriodSeconds is %d: want more than preStopSeconds (%d) and settings.drain_timeout (%s) together, or Kubernetes ends pods in the middle of calls" (int $v.terminationGracePeriodSeconds) (int $v.preStopSeconds) $drain) -}}
{{- end -}}

{{- /* Variables of envoyproxy/ratelimit for what other values of the chart say. */ -}}
{{- $decided := "^((GRPC_|DEBUG_)?(HOST|PORT)|GRPC_UDS|GRPC_SERVER_.*|GRPC_CLIENT_TLS_CACERT|CONFIG_GRPC_XDS_(SERVER_URL|NODE_ID|SERVER_USE_TLS|.*_(CERT|KEY|CACERT))|RUNTIME_APPDIRECTORY|REDIS_(URL|TYPE|SOCKET_TYPE|AUTH|SENTINEL_AUTH)|KOALAGATE_REDIS.*)$" -}}
{{- $own := include "koalagate.ownEnv" . | fromYaml -}}
{{- range $name, $_ := $v.env -}}
{{- if or (hasKey $own $name) (hasPrefix "KOALAGATE_" $name) (and (eq $v.mode "ratelimit") (regexMatch $decided $name)) -}}
{{- $found = append $found (printf "env has %s: use settings, or the value of the chart for it" $name) -}}
{{- end -}}
{{- end -}}

{{- $files := or $limits.limits $limits.existingLimitsConfigMap -}}
{{- $plane := or $limits.preset $limits.controlPlane.address -}}
{{- if eq $v.mode "service" -}}
{{- if or $files $plane $limits.controlPlane.nodeID $limits.controlPlane.secret $limits.withRules $limits.env -}}
{{- $found = append $found "ratelimit has values, and mode is service, which does not use them: set mode to ratelimit" -}}
{{- end -}}
{{- else -}}
{{- if not (or $files $plane) -}}
{{- $found = append $found "mode is ratelimit without limits: set ratelimit.preset, ratelimit.controlPlane.address, ratelimit.limits or ratelimit.existingLimitsConfigMap" -}}
{{- end -}}
{{- if and $files $plane -}}
{{- $found = append $found "ratelimit has files of limits and a control plane: limits come from one of them; remove the other" -}}
{{- end -}}
{{- if and $limits.limits $limits.existingLimitsConfigMap -}}
{{- $found = append $found "ratelimit.limits and ratelimit.existingLimitsConfigMap are set: limits come from one of them; remove the other" -}}
{{- end -}}
{{- if and (or $limits.controlPlane.nodeID $limits.controlPlane.secret) (not $plane) -}}
{{- $found = append $found "ratelimit.controlPlane has no address: set ratelimit.controlPlane.address or ratelimit.preset" -}}
{{- end -}}
{{- if and (or $v.published.enabled $v.existingRulesConfigMap) (not $limits.withRules) -}}
{{- $found = append $found "published.enabled or existingRulesConfigMap is set, and the limits alone decide: set ratelimit.withRules, or remove them" -}}
{{- end -}}
{{- $wired := omit $own "USE_STATSD" "USE_PROMETHEUS" "FORCE_START_WITHOUT_INITIAL_CONFIG" "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED" -}}
{{- range $name, $_ := $limits.env -}}
{{- if or (hasKey $wired $name) (regexMatch $decided $name) -}}
{{- $found = append $found (printf "ratelimit.env has %s, which the chart decides: use ratelimit, tls, redis and settings" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- if $found -}}
{{- fail (printf "values contradict each other:\n* %s" (join "\n* " $found)) -}}
{{- end -}}
{{- end -}}
