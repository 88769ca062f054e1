package install_test

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The programs of a release are static, equal when they are built again elsewhere, and
// name their build.
func TestStaticPrograms(t *testing.T) {
	if !*long {
		return
	}
	named := []string{"VERSION=v1.2.3", "REVISION=abc", "DATE=2026-01-02T03:04:05Z"}
	for _, architecture := range []string{"amd64", "arm64"} {
		path := filepath.Join(t.TempDir(), "koalagate")
		run(t, named, "deploy/build.sh", path, architecture)
		built, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range built.Progs {
			if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
				t.Errorf("%s: the program is not static", architecture)
			}
		}
		built.Close()
		text := []byte(read(t, path))
		t.Logf("%s: %d bytes", architecture, len(text))
		if !bytes.Contains(text, []byte("Asia/Shanghai")) {
			t.Errorf("%s: the program has no time zones", architecture)
		}
		command := []string{path, "--version"}
		if architecture == "arm64" {
			command = append([]string{"qemu-aarch64-static"}, command...)
		}
		want := regexp.MustCompile(`^koalagate v1\.2\.3 \(revision abc of 2026-01-02T03:04:05Z, go1\.\S+, linux/` + architecture + `\)\n$`)
		if out := run(t, nil, command[0], command[1:]...); !want.MatchString(out) {
			t.Errorf("%s: --version: %s", architecture, out)
		}
		if run(t, nil, "git", "status", "--porcelain", "--", "*.go", "go.mod", "deploy/build.sh") != "" {
			t.Log("the tree has changes: the program is not built again from the commit")
			continue
		}
		elsewhere := t.TempDir()
		run(t, nil, "sh", "-c", "git archive HEAD | tar -x -C "+elsewhere)
		again := filepath.Join(t.TempDir(), "again")
		run(t, named, filepath.Join(elsewhere, "deploy/build.sh"), again, architecture)
		second, err := os.ReadFile(again)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, second) {
			t.Error("a build in another folder differs")
		}
	}
}
