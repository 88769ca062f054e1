package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// severalInstances are the lines of Caddy's sample for several instances, which are
// comments there.
var severalInstances = []string{"#lb_retries 6\n", "#fail_duration 2s\n", "#max_fails 3\n"}

// opensEach is the line of Caddy's sample for Caddy 2.6, which the tests run.
const opensEach = "#keepalive off\n"

// KeepsConnections leaves a line of Caddy's sample that is for Caddy 2.6 a comment.
var KeepsConnections = [2]string{opensEach, opensEach}

// Caddy starts Caddy with deploy/caddy/Caddyfile in front of the application at
// app, using koalagate at the addresses. Pairs are further replacements of texts
// that occur in the sample once.
func (s *Stage) Caddy(app string, koalagate []string, pairs ...[2]string) (*Gateway, error) {
	path, err := s.Find("caddy")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for _, line := range severalInstances {
		used := ""
		if len(koalagate) > 1 {
			used = strings.TrimPrefix(line, "#")
		}
		pairs = append(pairs, [2]string{line, used})
	}
	if !slices.Contains(pairs, KeepsConnections) {
		pairs = append(pairs, [2]string{opensEach, strings.TrimPrefix(opensEach, "#")})
	}
	text, err := s.sample("deploy/caddy/Caddyfile", append(pairs,
		[2]string{"http://:8080 {", fmt.Sprintf("http://:%d {", port)},
		[2]string{"forward_auth 127.0.0.1:9981 {", "forward_auth " + strings.Join(koalagate, " ") + " {"})...)
	if err != nil {
		return nil, err
	}
	file := s.fileName("caddy-%d", len(s.programs))
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "127.0.0.1:8000", app)), 0o600); err != nil {
		return nil, err
	}
	// Caddy writes its files under HOME.
	p, err := s.start("caddy", path, []string{"HOME=" + s.dir, "XDG_DATA_HOME=" + s.dir, "XDG_CONFIG_HOME=" + s.dir},
		"run", "--config", file, "--adapter", "caddyfile")
	if err != nil {
		return nil, err
	}
	g := s.gateway(p, address)
	return g, eventually(p, g.answers)
}
