package install_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const chart = "deploy/helm/koalagate"

// template renders the chart with options, as GitOps does: without a cluster.
func template(t *testing.T, options ...string) (string, error) {
	t.Helper()
	return command(t, "helm", append([]string{"template", "release", chart, "--namespace", "edge", "--kube-version", "1.34.0"}, options...)...)
}

// Without a cluster the chart makes no token, which would be another one at each rendering; with a
// Secret of the user's it renders the same each time.
func TestChartRendersTheSameEachTime(t *testing.T) {
	if !*long {
		return
	}
	if out, err := template(t); err == nil || !strings.Contains(out, "create a Secret with the key token, and set admin.tokenSecret") {
		t.Errorf("without a token: %v, %s", err, out)
	}
	first, err := template(t, "--set", "admin.tokenSecret=mine")
	if err != nil {
		t.Fatal(first)
	}
	second, _ := template(t, "--set", "admin.tokenSecret=mine")
	if first != second || strings.Contains(first, "kind: Secret") {
		t.Errorf("the chart renders differently, or with a token:\n%s\n%s", first, second)
	}
}

// Whoever follows the page without a cluster gets objects that are valid.
func TestPageOfTheChart(t *testing.T) {
	if !*long {
		return
	}
	block := regexp.MustCompile("(?s)```sh untested: another test runs it, with helm\n(helm template .*?)\n```").FindStringSubmatch(read(t, "docs/install/kubernetes.md"))
	if block == nil {
		t.Fatal("docs/install/kubernetes.md does not render the chart")
	}
	// A helm that the go command has built takes every cluster for an old one.
	checkObjects(t, run(t, nil, "bash", "-c", block[1]+" --kube-version 1.34.0"))
}

// With a cluster the chart makes a token when there is none, and keeps the one that there is.
func TestChartKeepsItsToken(t *testing.T) {
	if !*long {
		return
	}
	existing := ""
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const secrets = "/api/v1/namespaces/edge/secrets"
		reply := map[string]map[string]any{
			"/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
			"/api":     {"kind": "APIVersions", "versions": []string{"v1"}},
			"/apis":    {"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}},
			"/api/v1":  {"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{map[string]any{"name": "secrets", "namespaced": true, "kind": "Secret", "verbs": []string{"get", "list"}}}},
			secrets:    {"kind": "SecretList", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{}},
		}[r.URL.Path]
		if existing != "" && r.URL.Path == secrets+"/release-koalagate-admin" {
			reply = map[string]any{"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"name": "release-koalagate-admin", "namespace": "edge"}, "data": map[string]any{"token": existing}}
		}
		w.Header().Set("Content-Type", "application/json")
		if reply == nil {
			w.WriteHeader(http.StatusNotFound)
			reply = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
		}
		_ = json.NewEncoder(w).Encode(reply) // fails only if helm has disconnected
	}))
	defer cluster.Close()
	access := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, access, fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: "%s"}}]}`, cluster.URL))
	token := func() string {
		t.Helper()
		out := run(t, []string{"KUBECONFIG=" + access}, "helm", "template", "release", chart, "--namespace", "edge", "--kube-version", "1.34.0", "--dry-run=server")
		found := regexp.MustCompile(`(?m)^  token: (.*)$`).FindStringSubmatch(out)
		if found == nil {
			t.Fatalf("no token in\n%s", out)
		}
		return found[1]
	}
	made := token()
	if text, err := base64.StdEncoding.DecodeString(made); err != nil || len(text) != 40 {
		t.Errorf("the token is %q, %v", text, err)
	}
	existing = made
	if kept := token(); kept != made {
		t.Errorf("the token became %s; want %s", kept, made)
	}
}

// A pod has a folder for its decision log, and one that waits for the first publish is not
// restarted.
func TestChartHasWhatPodsNeed(t *testing.T) {
	if !*long {
		return
	}
	const mount = "{ name: logs, mountPath: /var/log/koalagate }"
	for options, want := range map[string]struct{ has, not string }{
		"": {"path: /readyz, port: admin }\n            periodSeconds: 1", mount},
		",published.enabled=true,redis.url=redis://redis:6379":      {"path: /healthz, port: admin }\n            periodSeconds: 1", "rules.d"},
		",settings.decision_log=/var/log/koalagate/decisions.jsonl": {mount, "/tmp"},
		",networkPolicy.egress[0].ports[0].port=443":                {"    - ports:\n      - port: 443\n", mount},
		",env.HTTPS_PROXY=http://proxy:3128":                        {`{ name: HTTPS_PROXY, value: "http://proxy:3128" }`, mount},
	} {
		out, err := template(t, "--set", "admin.tokenSecret=mine"+options)
		if err != nil || !strings.Contains(out, want.has) || strings.Contains(out, want.not) || !strings.Contains(out, "{ name: state, mountPath: /var/lib/koalagate }") {
			t.Errorf("%s: %v; want %q and no %q in\n%s", options, err, want.has, want.not, out)
		}
	}
}

// The pods of a preset are what its control plane looks for: by a Service of the chart, or by
// labels that a Service of the control plane selects. No object has these labels, since
// Envoy Gateway removes Deployments that do.
func TestChartHasWhatControlPlanesExpect(t *testing.T) {
	if !*long {
		return
	}
	for _, c := range []struct {
		preset   string
		has, not []string
	}{
		{
			"envoy-gateway",
			[]string{
				"\n        app.kubernetes.io/component: ratelimit\n", "\n        app.kubernetes.io/managed-by: envoy-gateway\n", "\n        app.kubernetes.io/name: envoy-ratelimit\n",
				`{ name: CONFIG_GRPC_XDS_NODE_ID, value: "envoy-ratelimit" }`, `{ name: CONFIG_GRPC_XDS_SERVER_URL, value: "envoy-gateway:18001" }`,
				"name: tls-xds\n          secret: { secretName: envoy-rate-limit,", "name: tls-grpc\n          secret: { secretName: envoy-rate-limit,",
				"grpc_tls_client_ca: /etc/koalagate/tls/grpc/ca.crt", "port: 18001", "containerPort: 8081", "containerPort: 19001",
			},
			[]string{"\n    app.kubernetes.io/managed-by: envoy-gateway\n", "\n    app.kubernetes.io/component: ratelimit\n", "\n  name: envoy-ratelimit\n"},
		},
		{
			"agent-router",
			[]string{
				"kind: Service\nmetadata:\n  name: envoy-ai-gateway-ratelimit\n", "port: 8081, targetPort: grpc, appProtocol: kubernetes.io/h2c", "port: 18002",
				`{ name: CONFIG_GRPC_XDS_NODE_ID, value: "envoy-ai-gateway-ratelimit" }`, `value: "ai-gateway-controller.envoy-ai-gateway-system.svc:18002" }`,
			},
			[]string{"TLS_CERT", "component: ratelimit"},
		},
	} {
		out, err := template(t, "--set", "admin.tokenSecret=mine,mode=ratelimit,redis.url=redis://redis:6379,ratelimit.preset="+c.preset)
		if err != nil {
			t.Fatal(out)
		}
		for _, part := range c.has {
			if !strings.Contains(out, part) {
				t.Errorf("%s: %q is missing in\n%s", c.preset, part, out)
			}
		}
		for _, part := range c.not {
			if strings.Contains(out, part) {
				t.Errorf("%s: %q is in\n%s", c.preset, part, out)
			}
		}
	}
}

// Values that contradict each other are refused, with what to do.
func TestChartRefusesContradictions(t *testing.T) {
	if !*long {
		return
	}
	const files, plane = "ratelimit.existingLimitsConfigMap=limits", "ratelimit.controlPlane.address=plane:18000"
	for values, want := range map[string]string{
		"published.enabled=true":                  "published.enabled is true without redis.url",
		"redis.username=ann":                      "redis.username is set without redis.url",
		"redis.passwordSecret=redis":              "redis.passwordSecret is set without redis.url",
		"redis.url=redis://ann:secret@redis:6379": "redis.url has a user or a password",
		"existingRulesConfigMap=mine,published.enabled=true,redis.url=redis://redis:6379": "published.enabled is true, and existingRulesConfigMap is set",
		"published.publicKey=key": "published.publicKey requires state.persistent",
		"rules=null":              "rules is empty",
		"settings.decision_log=/tmp/decisions.jsonl":                   "want a file in /var/log/koalagate",
		"tls.grpc.clientCA=true":                                       "tls.grpc.clientCA is true without tls.grpc.secret",
		"tls.http.clientCA=true":                                       "tls.http.clientCA is true without tls.http.secret",
		"autoscaling.minReplicas=11":                                   "autoscaling.minReplicas is 11, above autoscaling.maxReplicas, which is 10",
		"terminationGracePeriodSeconds=13":                             "terminationGracePeriodSeconds is 13: want more than preStopSeconds (5) and settings.drain_timeout (8s)",
		"settings.drain_timeout=1m30s":                                 "settings.drain_timeout (1m30s)",
		"ratelimit.preset=agent-router":                                "mode is service, which does not use them",
		"ratelimit.env.SHADOW_MODE=yes":                                "mode is service, which does not use them",
		"env.KOALAGATE_TIMEZONE=UTC":                                   "env has KOALAGATE_TIMEZONE: use settings",
		"mode=ratelimit,env.CONFIG_TYPE=FILE," + files:                 "env has CONFIG_TYPE: use settings",
		"mode=ratelimit":                                               "mode is ratelimit without limits",
		"mode=ratelimit," + files + "," + plane:                        "ratelimit has files of limits and a control plane",
		"mode=ratelimit,ratelimit.limits.a=domain," + files:            "ratelimit.limits and ratelimit.existingLimitsConfigMap are set",
		"mode=ratelimit,ratelimit.controlPlane.nodeID=a," + files:      "ratelimit.controlPlane has no address",
		"mode=ratelimit,existingRulesConfigMap=mine," + files:          "the limits alone decide",
		"mode=ratelimit,ratelimit.env.GRPC_PORT=one," + files:          "ratelimit.env has GRPC_PORT, which the chart decides",
		"mode=ratelimit,ratelimit.env.KOALAGATE_RULES=/rules," + files: "ratelimit.env has KOALAGATE_RULES, which the chart decides",
		"mode=ratelimit,ratelimit.env.CONFIG_TYPE=FILE," + plane:       "ratelimit.env has CONFIG_TYPE, which the chart decides",
	} {
		if out, err := template(t, "--set", "admin.tokenSecret=mine,"+values); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v; want %q in\n%s", values, err, want, out)
		}
	}
	// All of them at once, and none for values at their bounds.
	if out, err := template(t, "--set", "admin.tokenSecret=mine,redis.username=ann,tls.grpc.clientCA=true"); err == nil || strings.Count(out, "\n* ") != 2 {
		t.Errorf("two contradictions: %v\n%s", err, out)
	}
	if out, err := template(t, "--set", "admin.tokenSecret=mine,terminationGracePeriodSeconds=14,autoscaling.minReplicas=10"); err != nil {
		t.Errorf("values at their bounds: %s", out)
	}
}

// A value of another type is refused, each under its name, and so are values that the objects
// of Kubernetes would not accept.
func TestChartRefusesOtherTypes(t *testing.T) {
	if !*long {
		return
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	delete(values, "settings") // koalagate checks them
	var paths []string
	wrong := mistyped(values, "", &paths)
	text, err := yaml.Marshal(wrong)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	write(t, file, string(text))
	out, err := template(t, "--values", file)
	if err == nil || len(paths) < 60 {
		t.Fatalf("%d values of other types: %v", len(paths), err)
	}
	for _, path := range paths {
		if !strings.Contains(out, "'"+path+"'") {
			t.Errorf("%s is not named in\n%s", path, out)
		}
	}
	for _, invalid := range []string{
		"settings.grpc_addr=:1", "settings.state_dir=/tmp", "image.digest=latest", "replica=3", "podLabels.a=1", "nodeSelector.a=true",
		"tolerations[0].effect=Never", "imagePullSecrets[0]=registry", "resources.limits.memory=much", "resources.cpu=1", "affinity.node=a",
		"networkPolicy.gateways[0].pods=a", "networkPolicy.redisPorts[0]=0", "networkPolicy.egress[0].port=443", "env.A=1", "podDisruptionBudget.maxUnavailable=half", "serviceMonitor.interval=often",
		"redis.url=redis:6379", "ratelimit.preset=istio", "ratelimit.controlPlane.address=plane", "state.size=big", "mode=both", "ratelimit.env.A=1",
		"topologySpreadConstraints[0].maxSkew=0",
	} {
		if out, err := template(t, "--set", "admin.tokenSecret=mine,"+invalid); err == nil {
			t.Errorf("%s is accepted:\n%s", invalid, out)
		}
	}
}

// mistyped returns a value with every leaf replaced by one of another type, whose paths it
// appends.
func mistyped(value any, path string, paths *[]string) any {
	if fields, isMap := value.(map[string]any); isMap && len(fields) > 0 {
		for name := range fields {
			fields[name] = mistyped(fields[name], path+"/"+name, paths)
		}
		return fields
	}
	*paths = append(*paths, path)
	if _, isText := value.(string); isText {
		return []any{}
	}
	return "another type"
}
