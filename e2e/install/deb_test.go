package install_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/config"
)

// The settings of the package are valid, and name only what the unit provides.
func TestSettingsOfTheDebianPackage(t *testing.T) {
	loaded, err := config.Load(config.Input{File: "deploy/systemd/koalagate.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	unit := read(t, "deploy/systemd/koalagate.service")
	if loaded.StateDir != "/var/lib/koalagate" || !strings.Contains(unit, "\nStateDirectory=koalagate\n") {
		t.Errorf("state_dir is %s, which the unit does not create", loaded.StateDir)
	}
	packaged := read(t, "deploy/packages/nfpm.yaml")
	for _, path := range append([]string{"/etc/koalagate/koalagate.yaml"}, loaded.Rules...) {
		if !strings.Contains(packaged, "dst: "+path) {
			t.Errorf("the package does not contain %s", path)
		}
	}
	programs := []string{"gin"} // a module of its own, which is copied from the repository
	entries, err := os.ReadDir("examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains(programs, entry.Name()) && !strings.Contains(packaged, fmt.Sprintf("src: %q", "examples/"+entry.Name()+"/*")) {
			t.Errorf("the package does not contain examples/%s, which examples use", entry.Name())
		}
	}
}

// The package lives through everything that an operator does with it, on systemd.
func TestLifeOfTheDebianPackage(t *testing.T) {
	if !*long {
		return
	}
	run(t, nil, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", verified(t))
	folder := packages(t, "deb")
	write(t, filepath.Join(folder, "pages.sh"), pageCommands(t))
	// The page asks about uid=ann and rule 201.
	write(t, filepath.Join(folder, "rules.conf"), strings.NewReplacer("user :", "uid :", "user=+", "uid=+").Replace(read(t, "examples/first-limit/rules.conf")))
	boot(t, "e2e/install/deb.sh", folder)
}

// packages builds the package of a format in two versions, old and new, into a new folder with
// what the scripts about packages share.
func packages(t *testing.T, format string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	write(t, filepath.Join(folder, "steps.sh"), read(t, "e2e/install/steps.sh"))
	for name, version := range map[string]string{"old": "0.1.0", "new": "0.2.0"} {
		dist := t.TempDir()
		run(t, []string{"VERSION=" + version}, "deploy/packages/build.sh", dist, "amd64", format)
		built, err := filepath.Glob(filepath.Join(dist, "*."+format))
		if err != nil || len(built) != 1 {
			t.Fatalf("the packages are %q, %v; want one", built, err)
		}
		if err := os.Rename(built[0], filepath.Join(folder, name+"."+format)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// boot runs a script in a copy of this machine with a systemd of its own, which sees a folder
// as /exchange.
func boot(t *testing.T, script, folder string) {
	t.Helper()
	// The kernel reports the power-off at the end of a namespace as a signal: the status
	// that the script leaves decides.
	out, _ := command(t, "timeout", "-s", "KILL", "300", "unshare", "--mount", "--pid", "--fork", "--cgroup", "--uts", "--ipc", "--net", "--kill-child",
		"e2e/install/boot.sh", script, folder)
	log, _ := os.ReadFile(filepath.Join(folder, "log")) // an absent log is an empty one
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil || strings.TrimSpace(string(status)) != "0" {
		t.Fatalf("the script ended with %s, %v; it wrote:\n%s\nsystemd wrote:\n%s", status, err, log, out)
	}
	t.Logf("%s", log)
}

// pageBlock matches a block of commands for a machine with the package.
var pageBlock = regexp.MustCompile("(?ms)^```sh systemd\n(.*?)^```$")

// pageCommands returns the commands of the page about the package, and of the runbooks, as
// a script.
func pageCommands(t *testing.T) string {
	t.Helper()
	runbooks, err := filepath.Glob("docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	script, blocks := commandsOf(t, append([]string{"docs/install/deb.md"}, runbooks...)...)
	if blocks < 10 {
		t.Errorf("only %d blocks of commands", blocks)
	}
	return script
}

// commandsOf returns the commands of pages for a machine with the package as a script, and in how
// many blocks they are.
func commandsOf(t *testing.T, pages ...string) (text string, blocks int) {
	t.Helper()
	var script strings.Builder
	for _, page := range pages {
		for _, m := range pageBlock.FindAllStringSubmatch(read(t, page), -1) {
			script.WriteString("# " + page + "\n" + m[1])
			blocks++
		}
	}
	return script.String(), blocks
}

// verified returns a copy of the unit that names a program that exists, as
// systemd-analyze requires.
func verified(t *testing.T) string {
	t.Helper()
	unit := strings.Replace(read(t, "deploy/systemd/koalagate.service"), "ExecStart=/usr/bin/koalagate", "ExecStart=/bin/true", 1)
	path := filepath.Join(t.TempDir(), "koalagate.service")
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
