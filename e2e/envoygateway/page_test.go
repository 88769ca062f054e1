package envoygateway_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

var (
	// pageBlock matches the commands of the page, and the output that it shows below them.
	pageBlock = regexp.MustCompile("(?ms)^```sh untested: another test runs it[^\n]*\n(.*?)^```\n(?:\n```text\n(.*?)^```)?")
	// pageServer matches a command that has a terminal of its own.
	pageServer = regexp.MustCompile(`(?m)^(?:koalagate serve|caddy respond|envoy-gateway server) [^#\n]*`)
	// envoyVersion is the version of Envoy that Envoy Gateway would download.
	envoyVersion = regexp.MustCompile(`envoyVersion: "([0-9.]+)"`)
)

// Whoever follows the page on one machine comes from nothing to the first 429.
func TestPageOfEnvoyGateway(t *testing.T) {
	if !*long || !isInOwnNetwork(t) {
		return
	}
	h := rig.NewFixture(t)
	page := string(rig.Must(os.ReadFile(h.Stage.Path("docs/gateways/envoy-gateway.md")))(t))
	blocks := pageBlock.FindAllStringSubmatch(page, -1)
	if len(blocks) != 2 || blocks[1][2] == "" {
		t.Fatalf("%d blocks of commands; want two: one starts the programs, the other asks them and shows the answers", len(blocks))
	}
	dir := t.TempDir()
	rig.Must(0, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(h.Stage.Path("examples"))))(t)
	const resources = "examples/envoy-gateway/resources.yaml"
	text := rig.Must(e2e.WithLongTimeouts(resources, string(rig.Must(os.ReadFile(h.Stage.Path(resources)))(t))))(t)
	rig.Must(0, os.WriteFile(filepath.Join(dir, resources), []byte(text), 0o600))(t)
	link(t, rig.Binary, filepath.Join(dir, "bin/koalagate"))
	version := envoyVersion.FindStringSubmatch(text)
	if version == nil {
		t.Fatalf("%s names no version of Envoy", resources)
	}
	// The Envoy of the other tests, in the place of the download.
	envoy := rig.Must(filepath.EvalSymlinks(rig.Must(h.Stage.Find("envoy"))(t)))(t)
	link(t, envoy, filepath.Join(dir, "eg/data/envoy-versions", version[1], "bin/envoy"))

	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	script := "trap 'kill $(jobs -p); wait' EXIT\n" + pageServer.ReplaceAllString(blocks[0][1], "$0 >>servers.log 2>&1 &") + blocks[1][1]
	c := exec.CommandContext(ctx, "bash", "-euc", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "HOME="+dir, "PATH="+filepath.Join(dir, "bin")+":"+h.Stage.Path(".tools/bin")+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.Output()
	if err != nil || !strings.Contains(string(out), strings.TrimSpace(blocks[1][2])) {
		log, _ := os.ReadFile(filepath.Join(dir, "servers.log")) // an absent log is an empty one
		t.Errorf("the page ends with %v, and %q; want %q. The servers wrote\n%s", err, out, blocks[1][2], log)
	}
}

// link makes a symbolic link, and its folder.
func link(t *testing.T, to, path string) {
	t.Helper()
	rig.Must(0, os.MkdirAll(filepath.Dir(path), 0o700))(t)
	rig.Must(0, os.Symlink(to, path))(t)
}
