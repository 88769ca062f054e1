package e2e

import (
	"os"
)

// Traefik starts Traefik with deploy/traefik/traefik.yaml in front of the application at app,
// using koalagate at an address. Pairs are further replacements of texts that occur in the
// sample once.
func (s *Stage) Traefik(app, koalagate string, pairs ...[2]string) (*Gateway, error) {
	text, err := s.sample("deploy/traefik/traefik.yaml", append(pairs,
		[2]string{"http://127.0.0.1:9981/", "http://" + koalagate + "/"},
		[2]string{"- url: \"http://127.0.0.1:8000\"", "- url: \"http://" + app + "\""})...)
	if err != nil {
		return nil, err
	}
	return s.TraefikWith(text)
}

// TraefikWith starts Traefik with a file of its dynamic configuration.
func (s *Stage) TraefikWith(text string) (*Gateway, error) {
	path, err := s.Find("traefik")
	if err != nil {
		return nil, err
	}
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	file := s.fileName("traefik-%d.yaml", len(s.programs))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	args := []string{
		"--entryPoints.web.address=" + address, "--entryPoints.web.http.aliasHeadersStrategy=delete", "--providers.file.filename=" + file,
		"--log.level=WARN", "--global.checkNewVersion=false", "--global.sendAnonymousUsage=false",
	}
	if s.tls != nil {
		args = append(args, "--entryPoints.web.http.tls=true")
	}
	p, err := s.start("traefik", path, []string{"HOME=" + s.dir}, args...)
	if err != nil {
		return nil, err
	}
	g := s.gateway(p, address)
	return g, eventually(p, g.serves) // it answers 404 before it has read the file
}
