package e2e

import (
	"fmt"
	"os"
	"strings"
)

// HAProxy starts HAProxy with deploy/haproxy/haproxy.cfg in front of the
// application at app, using koalagate at the addresses. Pairs are further
// replacements of texts that occur in the sample once.
func (s *Stage) HAProxy(app string, koalagate []string, pairs ...[2]string) (*Gateway, error) {
	path, err := s.Find("haproxy")
	if err != nil {
		return nil, err
	}
	ports := [2]int{} // of the gateway, and of its internal listener for koalagate
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	var servers strings.Builder
	for i, k := range koalagate {
		fmt.Fprintf(&servers, "    server koalagate%d %s\n", i+1, k)
	}
	text, err := s.sample("deploy/haproxy/haproxy.cfg", append(pairs,
		[2]string{"/etc/haproxy/koala.lua", s.Path("deploy/haproxy/koala.lua")},
		[2]string{"bind 127.0.0.1:8080\n", "bind " + address + "\n"},
		[2]string{"server app 127.0.0.1:8000\n", "server app " + app + "\n"},
		[2]string{"    server koalagate1 127.0.0.1:9981\n", servers.String()})...)
	if err != nil {
		return nil, err
	}
	text = strings.ReplaceAll(text, "127.0.0.1:9980", fmt.Sprintf("127.0.0.1:%d", ports[1]))
	file := s.fileName("haproxy-%d.cfg", len(s.programs))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := s.start("haproxy", path, nil, "-db", "-f", file)
	if err != nil {
		return nil, err
	}
	g := s.gateway(p, address)
	return g, eventually(p, g.answers)
}
