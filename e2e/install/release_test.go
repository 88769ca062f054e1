package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A tagged commit builds the files of a release, for both architectures, and builds them
// equally again.
func TestRelease(t *testing.T) {
	if !*long {
		return
	}
	clone := filepath.Join(t.TempDir(), "clone")
	run(t, nil, "git", "clone", "--quiet", ".", clone)
	path := filepath.Join(clone, "CHANGELOG.md")
	write(t, path, strings.Replace(read(t, path), "\n## [", "\n## [0.9.9] - 2026-01-02\n\n## [", 1))
	git := []string{"-C", clone, "-c", "user.name=test", "-c", "user.email=test@example.org"}
	run(t, nil, "git", append(git, "commit", "--quiet", "--all", "--message", "Name the version")...)
	run(t, nil, "git", append(git, "tag", "v0.9.9")...)

	first, again := t.TempDir(), t.TempDir()
	for _, folder := range []string{first, again} {
		run(t, nil, filepath.Join(clone, "deploy/release.sh"), folder)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		archive, deb := "koalagate_0.9.9_linux_"+architecture+".tar.gz", "koalagate_0.9.9_"+architecture+".deb"
		if fields := run(t, nil, "dpkg-deb", "--field", filepath.Join(first, deb), "Version", "Architecture"); fields != "Version: 0.9.9\nArchitecture: "+architecture+"\n" {
			t.Errorf("%s: %s", deb, fields)
		}
		contents := run(t, nil, "tar", "-tzf", filepath.Join(first, archive))
		for _, name := range []string{"koalagate", "koalagate.example.yaml", "examples/gateway.conf", "LICENSE", "NOTICE"} {
			if !strings.Contains(contents, "/"+name+"\n") {
				t.Errorf("%s has no %s", archive, name)
			}
		}
		for _, name := range []string{archive, deb} {
			if read(t, filepath.Join(first, name)) != read(t, filepath.Join(again, name)) {
				t.Errorf("%s differs when it is built again", name)
			}
		}
	}
	entries, err := os.ReadDir(first)
	if err != nil || len(entries) != 4 {
		t.Errorf("the release has %d files, %v; want 4", len(entries), err)
	}
}
