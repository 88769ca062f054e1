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
	} {
		out, err := template(t, "--set", "admin.tokenSecret=mine"+options)
		if err != nil || !strings.Contains(out, want.has) || strings.Contains(out, want.not) || !strings.Contains(out, "{ name: state, mountPath: /var/lib/koalagate }") {
			t.Errorf("%s: %v; want %q and no %q in\n%s", options, err, want.has, want.not, out)
		}
	}
	if out, err := template(t, "--set", "admin.tokenSecret=mine,settings.decision_log=/tmp/decisions.jsonl"); err == nil || !strings.Contains(out, "want a file in /var/log/koalagate") {
		t.Errorf("a decision log outside of its folder: %v, %s", err, out)
	}
}
