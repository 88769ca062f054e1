package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/reload"
)

// serve accepts the settings and rules in the manifests, and no
// container runs with more rights than it needs.
func TestManifests(t *testing.T) {
	checkManifests(t, read(t, "deploy/kubernetes/koalagate.yaml"))
}

// object is the part of an object of Kubernetes that the tests read.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Template struct {
			Spec struct {
				SecurityContext struct {
					RunAsNonRoot bool  `yaml:"runAsNonRoot"`
					RunAsUser    int64 `yaml:"runAsUser"`
				} `yaml:"securityContext"`
				Containers []struct {
					Args            []string
					SecurityContext struct {
						ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
					} `yaml:"securityContext"`
				}
			}
		}
	}
}

// checkManifests checks the objects of a rendered chart.
func checkManifests(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	write(t, secret, "a secret of the test")
	found := map[string]int{}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var o object
		if decoder.Decode(&o) != nil {
			break
		}
		found[o.Kind]++
		for name, text := range o.Data {
			path := filepath.Join(dir, name)
			switch {
			case o.Kind != "ConfigMap" || name == "publish.pub":
			case name == "koalagate.yaml":
				write(t, path, strings.NewReplacer("/etc/koalagate/admin/token", secret, "/etc/koalagate/redis/password", secret).Replace(text))
				if _, err := config.Load(config.Input{File: path}); err != nil {
					t.Errorf("ConfigMap %s: %v", o.Metadata.Name, err)
				}
			default:
				write(t, path, text)
				if _, findings, err := (reload.Files{Paths: []string{path}}).Load(); err != nil || len(findings) > 0 {
					t.Errorf("ConfigMap %s: %v %v", o.Metadata.Name, err, findings)
				}
			}
		}
		if o.Kind != "Deployment" && o.Kind != "StatefulSet" {
			continue
		}
		found["Deployment"]++ // of either kind
		pod := o.Spec.Template.Spec
		if s := pod.SecurityContext; !s.RunAsNonRoot || s.RunAsUser == 0 || len(pod.Containers) != 1 || !pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
			t.Errorf("the pod runs as %+v in %+v", s, pod.Containers)
		}
	}
	for _, kind := range []string{"Deployment", "Service", "ConfigMap", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget"} {
		if found[kind] == 0 {
			t.Errorf("no %s in %v", kind, found)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The chart renders with its defaults and with every option, and the objects have the
// schemas of the oldest and of the newest supported Kubernetes.
func TestChart(t *testing.T) {
	if !*long {
		return
	}
	t.Log(run(t, nil, "helm", "lint", "--strict", chart))
	everything := []string{
		"--set", "redis.url=rediss://redis:6379,redis.username=koalagate,redis.passwordSecret=redis,serviceMonitor.enabled=true",
		"--set", "autoscaling.enabled=true,priorityClassName=high,image.digest=sha256:" + strings.Repeat("0", 64),
		"--set", "nodeSelector.disk=ssd,podLabels.team=edge,podAnnotations.note=x,imagePullSecrets[0].name=registry",
		"--set", "admin.tokenSecret=admin,settings.decision_log=/var/log/koalagate/decisions.jsonl",
		"--set", "settings.hide_decision_headers=true,serviceMonitor.labels.release=prometheus",
	}
	secured := []string{"--set", "tls.grpc.secret=grpc,tls.grpc.clientCA=true,tls.http.secret=http,admin.tokenSecret=admin"}
	signed := []string{"--set", "redis.url=redis://redis:6379,published.enabled=true,admin.tokenSecret=admin,published.publicKey=key,state.persistent=true,state.storageClass=fast"}
	for name, options := range map[string][]string{"defaults": {"--set", "admin.tokenSecret=admin"}, "everything": everything, "secured": secured, "signed": signed} {
		args := append([]string{"template", "release", chart, "--namespace", "edge", "--kube-version", "1.34.0"}, options...)
		text := run(t, nil, "helm", args...)
		if name != "secured" { // its certificates do not exist here
			checkManifests(t, text)
		}
		path := filepath.Join(t.TempDir(), name+".yaml")
		write(t, path, text)
		for _, version := range []string{"1.30", "1.37"} {
			// It has no schema of ServiceMonitor, and warns.
			t.Log(run(t, nil, "kubernetes-validate", "--strict", "--kubernetes-version", version, path))
		}
	}
	rendered := t.TempDir()
	run(t, nil, "deploy/kubernetes/render.sh", rendered)
	for _, name := range []string{"koalagate.yaml", "servicemonitor.yaml"} {
		if read(t, filepath.Join(rendered, name)) != read(t, "deploy/kubernetes/"+name) {
			t.Errorf("deploy/kubernetes/%s differs from the chart; run deploy/kubernetes/render.sh deploy/kubernetes", name)
		}
	}
	for _, invalid := range []string{"settings.grpc_addr=:1", "published.publicKey=key", "settings.state_dir=/tmp", "image.digest=latest", "replica=3"} {
		if out, err := command(t, "helm", "template", "release", chart, "--kube-version", "1.34.0", "--set", "admin.tokenSecret=admin,"+invalid); err == nil {
			t.Errorf("%s is accepted:\n%s", invalid, out)
		}
	}
}
