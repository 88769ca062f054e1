package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// EnvoyGateway is Envoy Gateway in its standalone mode: it reads its resources from files,
// starts Envoy, and makes certificates of its own. Its ports are fixed, so that it must run in a
// network of its own.
type EnvoyGateway struct {
	*Program        // nil before Start
	Dir      string // of everything it reads and writes
	EnvoyID  string // the version of its Envoy
	stage    *Stage
	path     string
}

// EnvoyGatewayXDS is the address at which Envoy Gateway serves limits.
const EnvoyGatewayXDS = "127.0.0.1:18001"

var versionOfEnvoy = regexp.MustCompile(`/([0-9]+\.[0-9]+\.[0-9]+)[/-]`)

// EnvoyGateway prepares an Envoy Gateway with its certificates and the Envoy of the tests.
// settings is the file of its own configuration, in which DIR is its folder.
func (s *Stage) EnvoyGateway(settings string) (*EnvoyGateway, error) {
	path, err := s.Find("envoy-gateway")
	if err != nil {
		return nil, err
	}
	g := &EnvoyGateway{Dir: filepath.Join(s.dir, "envoy-gateway"), stage: s, path: path}
	if err := g.bringEnvoy(); err != nil {
		return nil, err
	}
	for _, name := range []string{"resources", "home"} {
		if err := os.MkdirAll(filepath.Join(g.Dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, path, "certgen", "--local", "--config-home", filepath.Join(g.Dir, "config"))
	c.Env = append(os.Environ(), "HOME="+filepath.Join(g.Dir, "home"))
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("certificates of Envoy Gateway: %w\n%s", err, out)
	}
	return g, g.write("config.yaml", settings)
}

// bringEnvoy puts the Envoy of the tests where Envoy Gateway would download one to.
func (g *EnvoyGateway) bringEnvoy() error {
	path, err := g.stage.Find("envoy")
	if err != nil {
		return err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return err
	}
	found := versionOfEnvoy.FindSubmatch(out)
	if found == nil {
		return fmt.Errorf("envoy --version prints %q; want a version", out)
	}
	g.EnvoyID = string(found[1])
	bin := filepath.Join(g.Dir, "data", "envoy-versions", g.EnvoyID, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	return os.Symlink(path, filepath.Join(bin, "envoy"))
}

// Certificate returns the path of a file of a certificate that Envoy Gateway has made: of
// envoy, envoy-gateway or envoy-rate-limit; ca.crt, tls.crt or tls.key.
func (g *EnvoyGateway) Certificate(of, file string) string {
	return filepath.Join(g.Dir, "config", "certs", of, file)
}

// Apply writes a file of resources, which a running Envoy Gateway reads. DIR is its folder.
func (g *EnvoyGateway) Apply(name, text string) error {
	return g.write(filepath.Join("resources", name), text)
}

// dir is what stands for the folder in texts.
var dirInText = regexp.MustCompile(`\bDIR\b`)

func (g *EnvoyGateway) write(name, text string) error {
	return os.WriteFile(filepath.Join(g.Dir, name), []byte(dirInText.ReplaceAllLiteralString(text, g.Dir)), 0o600)
}

// Start starts it, or starts it again, without waiting.
func (g *EnvoyGateway) Start() error {
	var err error
	g.Program, err = g.stage.start("envoy-gateway", g.path, []string{
		"HOME=" + filepath.Join(g.Dir, "home"), "KUBERNETES_CLUSTER_DOMAIN=localhost", // Envoy resolves its names by itself
	}, "server", "--config-path", filepath.Join(g.Dir, "config.yaml"))
	return err
}

// Until calls check until it returns nil, while the program runs.
func (p *Program) Until(check func() error) error { return eventually(p, check) }

// InOwnNetwork runs a test of this program once more in a network of its own, whose loopback
// device is up, and returns its output. Variables tell it that it is inside.
func InOwnNetwork(ctx context.Context, wait time.Duration, variables []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	own := []string{"--net", "--pid", "--fork", "--kill-child"}
	if os.Geteuid() != 0 {
		own = append(own, "--user", "--map-root-user")
	}
	script := []string{"sh", "-c", `ip link set lo up && exec "$0" "$@"`, os.Args[0]}
	c := exec.CommandContext(ctx, "unshare", append(append(own, script...), args...)...)
	c.Env = append(os.Environ(), variables...)
	out, err := c.CombinedOutput()
	return string(out), err
}
