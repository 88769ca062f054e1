package e2e

import (
	"fmt"
	"os"
	"strings"
)

// Nginx starts nginx with nginx/nginx.conf in front of app, using the instances.
func (s *Stage) Nginx(app *App, instances ...*Koalagate) (*Gateway, error) {
	return s.NginxSample("nginx/nginx.conf", app.Address, addressesOf(instances), reportsTo(instances)...)
}

// Accel starts nginx with nginx/accel.conf in front of app, using the instances.
func (s *Stage) Accel(app *App, instances ...*Koalagate) (*Gateway, error) {
	return s.NginxSample("nginx/accel.conf", app.Address, addressesOf(instances), reportsTo(instances)...)
}

// reportsTo returns the replacement that makes nginx report to the first instance, if that
// reads reports.
func reportsTo(instances []*Koalagate) [][2]string {
	if len(instances) == 0 || instances[0].Report == "" {
		return nil
	}
	return [][2]string{{"syslog:server=127.0.0.1:9983,", "syslog:server=" + instances[0].Report + ","}}
}

// NginxSample starts nginx with a sample of the module in front of the application
// at app, using koalagate at the addresses. Pairs are further replacements of
// texts that occur in the sample once.
func (s *Stage) NginxSample(name, app string, koalagate []string, pairs ...[2]string) (*Gateway, error) {
	const server = "    server %s max_fails=3 fail_timeout=2s;\n"
	var servers strings.Builder
	for _, address := range koalagate {
		fmt.Fprintf(&servers, server, address)
	}
	text, err := s.sample(name, append(pairs,
		[2]string{"server 127.0.0.1:8000;", "server " + app + ";"},
		[2]string{fmt.Sprintf(server, "127.0.0.1:9981"), servers.String()})...)
	if err != nil {
		return nil, err
	}
	return s.NginxWith(text)
}

// NginxWith starts nginx with a configuration that includes nginx's MIME types,
// logs into nginx's folder and listens at 127.0.0.1:8080. It replaces these with
// a free port and files in the stage's folder.
func (s *Stage) NginxWith(text string) (*Gateway, error) {
	path, err := s.Find("nginx")
	if err != nil {
		return nil, err
	}
	port, err := s.choosePort(8080)
	if err != nil {
		return nil, err
	}
	paths, err := s.nginxPaths()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	text = strings.NewReplacer(
		"include /etc/nginx/mime.types;", "include "+paths+";",
		"/var/log/nginx/access.log", s.fileName("nginx-access.log"),
		"listen 127.0.0.1:8080", "listen "+address).Replace(text)
	file := s.fileName("nginx-%d.conf", len(s.programs))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	directives := fmt.Sprintf("daemon off; worker_processes 2; pid %s;", s.fileName("nginx-%d.pid", len(s.programs)))
	if os.Geteuid() == 0 {
		directives += " user root;" // otherwise its workers could not access the folder
	}
	p, err := s.start("nginx", path, nil, "-p", s.dir, "-e", "stderr", "-c", file, "-g", directives)
	if err != nil {
		return nil, err
	}
	g := s.gateway(p, address)
	return g, eventually(p, g.answers)
}

// nginxPaths writes a file with the paths of nginx's buffers, whose default
// folders require root, and returns its name.
func (s *Stage) nginxPaths() (string, error) {
	var text strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&text, "%s_temp_path %s;\n", kind, s.fileName("nginx-%s", kind))
	}
	file := s.fileName("nginx-paths.conf")
	return file, os.WriteFile(file, []byte(text.String()), 0o600)
}

// addressesOf returns the HTTP addresses of instances.
func addressesOf(instances []*Koalagate) []string {
	addresses := make([]string, len(instances))
	for i, k := range instances {
		addresses[i] = k.HTTP
	}
	return addresses
}
