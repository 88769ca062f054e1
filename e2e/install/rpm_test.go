package install_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The package for rpm lives through what an operator does with it, on systemd, with rpm in the
// place of dnf.
func TestLifeOfTheRPMPackage(t *testing.T) {
	if !*long {
		return
	}
	folder := packages(t, "rpm")
	script, blocks := commandsOf(t, "docs/install/rpm.md")
	if blocks != 1 {
		t.Errorf("%d blocks of commands, want 1", blocks)
	}
	write(t, filepath.Join(folder, "pages.sh"), script)
	path, err := exec.LookPath("rpm")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "rpm"), path)
	boot(t, "e2e/install/rpm.sh", folder)
}
