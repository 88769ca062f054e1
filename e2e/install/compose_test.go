package install_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/koalagate/koalagate/internal/config"
)

// derived are the files of compose that are samples with other addresses. UPDATE=1 go
// test ./e2e/install writes them.
var derived = []struct {
	sample, file string
	pairs        [][2]string
}{
	{"envoy/envoy.yaml", "deploy/compose/envoy.yaml", [][2]string{
		{"# Envoy checks every request", "# Derived from envoy/envoy.yaml for compose.yaml; change it there.\n#\n# Envoy checks every request"},
		{"address: 127.0.0.1, port_value: 10000", "address: 0.0.0.0, port_value: 10000"},
		{"  - name: koalagate\n    type: STATIC\n", "  - name: koalagate\n    type: STRICT_DNS\n"},
		{"  - name: app\n    type: STATIC\n", "  - name: app\n    type: STRICT_DNS\n"},
		{
			"        - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 9191 } } }\n",
			"        - endpoint: { address: { socket_address: { address: koalagate-1, port_value: 9191 } } }\n" +
				"        - endpoint: { address: { socket_address: { address: koalagate-2, port_value: 9191 } } }\n",
		},
		{"address: 127.0.0.1, port_value: 8000", "address: app, port_value: 8000"},
	}},
	{"nginx/nginx.conf", "deploy/compose/nginx.conf", [][2]string{
		{"# nginx checks every request", "# Derived from nginx/nginx.conf for compose.yaml; change it there.\n#\n# nginx checks every request"},
		{"listen 127.0.0.1:8080;", "listen 8080;"},
		{
			"    server 127.0.0.1:9981 max_fails=3 fail_timeout=2s;\n",
			"    server koalagate-1:9981 max_fails=3 fail_timeout=2s;\n    server koalagate-2:9981 max_fails=3 fail_timeout=2s;\n",
		},
		{"server 127.0.0.1:8000;", "server app:8000;"},
		{"syslog:server=127.0.0.1:9983,", "syslog:server=koalagate-1:9983,"},
	}},
}

func TestFilesOfComposeAreTheSamples(t *testing.T) {
	for _, d := range derived {
		text := read(t, d.sample)
		for _, pair := range d.pairs {
			if n := strings.Count(text, pair[0]); n != 1 {
				t.Fatalf("%s has %q %d times, want once", d.sample, pair[0], n)
			}
			text = strings.Replace(text, pair[0], pair[1], 1)
		}
		if os.Getenv("UPDATE") != "" {
			write(t, d.file, text)
			continue
		}
		if diff := cmp.Diff(text, read(t, d.file)); diff != "" {
			t.Errorf("%s differs from %s; run UPDATE=1 go test ./e2e/install:\n%s", d.file, d.sample, diff)
		}
	}
}

// The settings of the instances in the compose file are valid, and Prometheus presents
// their token.
func TestSettingsOfCompose(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Environment map[string]string
			Volumes     []string
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "deploy/compose/compose.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	instances := 0
	for name, service := range file.Services {
		for _, volume := range service.Volumes {
			path, _, _ := strings.Cut(volume, ":")
			if path == name {
				continue // its own volume, for state_dir
			}
			if _, err := os.Stat(filepath.Join("deploy/compose", path)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !strings.HasPrefix(name, "koalagate-") {
			continue
		}
		instances++
		if !slices.Contains(service.Volumes, name+":"+stateDir) {
			t.Errorf("%s has the volumes %q; want one of its own for state_dir, %s", name, service.Volumes, stateDir)
		}
		var environ []string
		for key, value := range service.Environment {
			// ${NAME:-default} without NAME
			if _, standard, found := strings.Cut(value, ":-"); found {
				value = strings.TrimSuffix(standard, "}")
			}
			environ = append(environ, key+"="+value)
		}
		loaded, err := config.Load(config.Input{Environ: environ})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(read(t, "deploy/compose/prometheus.yaml"), "credentials: "+loaded.AdminToken.Reveal()+"\n") {
			t.Errorf("Prometheus presents another token than that of %s", name)
		}
	}
	if instances != 2 {
		t.Errorf("%d instances, want 2", instances)
	}
}

// The compose file has the schema of compose, and Envoy and nginx accept their files.
func TestCompose(t *testing.T) {
	if !*long {
		return
	}
	run(t, nil, "check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose/compose.yaml")
	run(t, nil, "envoy", "--mode", "validate", "--log-level", "error", "-c", "deploy/compose/envoy.yaml")
	// nginx resolves the names when it starts: hosts has them, in a namespace of its own.
	dir := t.TempDir()
	hosts, types, conf := filepath.Join(dir, "hosts"), filepath.Join(dir, "mime.types"), filepath.Join(dir, "nginx.conf")
	write(t, hosts, "127.0.0.1 localhost koalagate-1 koalagate-2 app\n")
	write(t, types, "types {}\n")
	var temporary strings.Builder
	temporary.WriteString("http {\n")
	for _, part := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temporary, "%s_temp_path %s/%s;\n", part, dir, part)
	}
	write(t, conf, strings.NewReplacer("http {\n", temporary.String(), "/etc/nginx/mime.types", types, "/var/log/nginx/", dir+"/").Replace(read(t, "deploy/compose/nginx.conf")))
	nginx := "mount --bind " + hosts + " /etc/hosts && exec nginx -t -q -c " + conf + " -g 'pid " + dir + "/pid; error_log stderr;'"
	run(t, nil, "unshare", "--mount", "sh", "-c", nginx)
}
