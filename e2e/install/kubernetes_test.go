package install_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/dropin/environ"
	"github.com/koalagate/koalagate/internal/envoylimits"
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
					Env             []struct{ Name, Value string }
					SecurityContext struct {
						ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
					} `yaml:"securityContext"`
				}
			}
		}
	}
}

// environ returns the variables of a pod: the image sets some, and the pod may replace them.
func (o *object) environ(t *testing.T) (list []string) {
	t.Helper()
	values := map[string]string{}
	for _, entry := range readImage(t).env {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	for _, v := range o.Spec.Template.Spec.Containers[0].Env {
		values[v.Name] = v.Value
	}
	for name, value := range values {
		list = append(list, name+"="+value)
	}
	return list
}

// loadSettings loads the settings of a pod as its program does: from its variables, and from
// the file of its ConfigMap, which is at path here.
func loadSettings(args, environment []string, path string) (*config.Loaded, error) {
	in := config.Input{File: path, Environ: environment}
	if args[0] == "ratelimit" {
		set, err := environ.Read(environment)
		if err != nil {
			return nil, err
		}
		if in.Base, err = set.Base(); err != nil {
			return nil, err
		}
		in.Environ = environ.Own(environment)
	}
	return config.Load(in)
}

// checkManifests checks the objects of a rendered chart, and returns the settings of its pods.
func checkManifests(t *testing.T, text string) *config.Loaded {
	t.Helper()
	dir := t.TempDir()
	secret, settings := filepath.Join(dir, "secret"), filepath.Join(dir, "koalagate.yaml")
	write(t, secret, "a secret of the test")
	found := map[string]int{}
	var loaded *config.Loaded
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
			case path == settings: // the ConfigMap before the pods that read it
				write(t, path, strings.NewReplacer("/etc/koalagate/admin/token", secret, "/etc/koalagate/redis/password", secret).Replace(text))
			case strings.HasSuffix(o.Metadata.Name, "-limits"):
				if _, err := envoylimits.Read(name, []byte(text)); err != nil {
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
		var err error
		if loaded, err = loadSettings(pod.Containers[0].Args, o.environ(t), settings); err != nil {
			t.Errorf("the settings of %s: %v", o.Metadata.Name, err)
		}
	}
	for _, kind := range []string{"Deployment", "Service", "ConfigMap", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget"} {
		if found[kind] == 0 {
			t.Errorf("no %s in %v", kind, found)
		}
	}
	return loaded
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
		"--set", "settings.decision_log=/var/log/koalagate/decisions.jsonl",
		"--set", "settings.hide_decision_headers=true,serviceMonitor.labels.release=prometheus",
	}
	for name, options := range map[string][]string{
		"defaults":                      {},
		"everything":                    everything,
		"secured":                       {"--set", "tls.grpc.secret=grpc,tls.grpc.clientCA=true,tls.http.secret=http"},
		"signed":                        {"--set", "redis.url=redis://redis:6379,published.enabled=true,published.publicKey=key,state.persistent=true,state.storageClass=fast"},
		"limits from files":             {"--set", "mode=ratelimit,redis.url=redis://redis:6379,redis.passwordSecret=redis", "--set-json", `ratelimit.limits={"shop.yaml":"domain: shop\ndescriptors: [ { key: user, rate_limit: { unit: HOUR, requests_per_unit: 3 } } ]"}`},
		"limits and rules":              {"--set", "mode=ratelimit,ratelimit.withRules=true,ratelimit.existingLimitsConfigMap=limits,settings.log_level=warn", "--set-string", "ratelimit.env.SHADOW_MODE=true"},
		"control plane":                 {"--set", "mode=ratelimit,ratelimit.controlPlane.address=plane.example:18000,ratelimit.controlPlane.nodeID=limits,ratelimit.controlPlane.secret=xds"},
		"published rules beside limits": {"--set", "mode=ratelimit,ratelimit.preset=agent-router,ratelimit.withRules=true,published.enabled=true,redis.url=redis://redis:6379"},
		"Envoy Gateway":                 {"--set", "mode=ratelimit,ratelimit.preset=envoy-gateway,redis.url=redis://redis:6379,serviceMonitor.enabled=true"},
		"Agent Router":                  {"--set", "mode=ratelimit,ratelimit.preset=agent-router,redis.url=redis://redis:6379"},
	} {
		text, err := template(t, append([]string{"--set", "admin.tokenSecret=admin"}, options...)...)
		if err != nil {
			t.Fatalf("%s: %s", name, text)
		}
		checkObjects(t, text)
	}
	rendered := t.TempDir()
	run(t, nil, "deploy/kubernetes/render.sh", rendered)
	for _, name := range []string{"koalagate.yaml", "servicemonitor.yaml"} {
		if read(t, filepath.Join(rendered, name)) != read(t, "deploy/kubernetes/"+name) {
			t.Errorf("deploy/kubernetes/%s differs from the chart; run deploy/kubernetes/render.sh deploy/kubernetes", name)
		}
	}
}

// checkObjects compares the objects of a rendered chart with the schemas of the oldest and of the
// newest supported Kubernetes.
func checkObjects(t *testing.T, text string) {
	t.Helper()
	checkManifests(t, text)
	checkServiceMonitors(t, text)
	path := filepath.Join(t.TempDir(), "rendered.yaml")
	write(t, path, text)
	for _, version := range []string{"1.30", "1.37"} {
		// It has no schema of ServiceMonitor, and warns; checkServiceMonitors has.
		t.Log(run(t, nil, "kubernetes-validate", "--strict", "--kubernetes-version", version, path))
	}
}

// prometheusOperator is the module that has the definition of ServiceMonitor.
const prometheusOperator = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

// checkServiceMonitors compares the ServiceMonitors among objects with the definition that
// the Prometheus Operator gives to Kubernetes.
func checkServiceMonitors(t *testing.T, text string) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		if !strings.Contains(part, "\nkind: ServiceMonitor\n") {
			continue
		}
		var module struct{ Dir string }
		if err := json.Unmarshal([]byte(run(t, nil, "go", "mod", "download", "-json", prometheusOperator)), &module); err != nil {
			t.Fatal(err)
		}
		var definition struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema any `yaml:"openAPIV3Schema"`
					}
				}
			}
		}
		text := read(t, filepath.Join(module.Dir, "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"))
		if err := yaml.Unmarshal([]byte(text), &definition); err != nil || len(definition.Spec.Versions) != 1 {
			t.Fatalf("the definition of ServiceMonitor: %v", err)
		}
		schema, err := json.Marshal(closed(definition.Spec.Versions[0].Schema.OpenAPIV3Schema))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "schema.json"), string(schema))
		write(t, filepath.Join(dir, "monitor.yaml"), part)
		run(t, nil, "check-jsonschema", "--schemafile", filepath.Join(dir, "schema.json"), filepath.Join(dir, "monitor.yaml"))
	}
}

// closed returns a schema that has no further fields where it lists some: Kubernetes would drop
// them.
func closed(schema any) any {
	switch s := schema.(type) {
	case map[string]any:
		for name, part := range s {
			s[name] = closed(part)
		}
		_, isSchema := s["type"].(string)
		if fields, hasFields := s["properties"].(map[string]any); isSchema && hasFields && len(fields) > 0 {
			s["additionalProperties"] = false
		}
	case []any:
		for i := range s {
			s[i] = closed(s[i])
		}
	}
	return schema
}
