package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// acceptTime is the time that a program has to read its configuration.
const acceptTime = 2 * time.Minute

// Accepts has the program of a kind of gateway check the files that `koalagate gateway` has
// written into a folder. Only paths of the machine are replaced. The error has what the program
// says.
func (s *Stage) Accepts(kind, dir string) error {
	var name, program string
	var args []string
	switch kind {
	case "nginx", "accel":
		name, program = "nginx.conf", "nginx"
		args = []string{"-t", "-p", dir, "-e", "stderr", "-g", "pid " + filepath.Join(dir, "nginx.pid") + ";", "-c"}
	case "caddy":
		name, program, args = "Caddyfile", "caddy", []string{"validate", "--adapter", "caddyfile", "--config"}
	case "haproxy":
		name, program, args = "haproxy.cfg", "haproxy", []string{"-c", "-f"}
	case "envoy", "envoy-http":
		name, program, args = "envoy.yaml", "envoy", []string{"--mode", "validate", "--log-level", "warn", "-c"}
	default:
		return fmt.Errorf("%s has no check of its configuration", kind)
	}
	path, err := s.Find(program)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, name)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	paths, err := s.nginxPaths()
	if err != nil {
		return err
	}
	own := strings.NewReplacer("include /etc/nginx/mime.types;", "include "+paths+";", "/var/log/nginx/", dir+"/", "/etc/haproxy/", dir+"/").Replace(string(text))
	if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), acceptTime)
	defer cancel()
	c := exec.CommandContext(ctx, path, append(args, file)...)
	c.Env = append(os.Environ(), "HOME="+s.dir)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}
