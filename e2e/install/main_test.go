// Package install_test installs koalagate as operators do: the static programs, the
// Debian package, the image, the files for compose and Kubernetes. The short form
// checks what needs no further program; the long form, `make package`, builds, installs
// and starts the packages.
package install_test

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var long = flag.Bool("long", false, "build, install and start the packages; needs root and the programs of `make package`")

// TestMain runs in the root of the repository, where all paths begin.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	bin, err := filepath.Abs(".tools/bin")
	if err == nil {
		err = os.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// run runs a program, and returns what it writes to both outputs.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// command runs a program that may fail, and returns what it writes to both outputs.
func command(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	return string(out), err
}
