package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// long selects the long form of the tests, as in `make verify`.
var long = flag.Bool("long", false, "run the long form of the tests")

// binary is the koalagate that the tests run, built with the race detector.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withBinary(m.Run))
}

// withBinary builds the service once for all tests.
func withBinary(run func() int) int {
	dir, err := os.MkdirTemp("", "koalagate-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "koalagate")
	s, err := e2e.NewStage(dir)
	if err == nil {
		err = s.Build(binary, true)
	}
	if err == nil {
		err = openSources(s.Path("."))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

// released returns the path of the service without the race detector, which multiplies
// time and memory. It is built once.
func (h *fixture) released() string {
	h.Helper()
	return must(buildReleased())(h.T)
}

var buildReleased = sync.OnceValues(func() (string, error) {
	s, err := e2e.NewStage(filepath.Dir(binary))
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(binary), "released")
	return path, s.Build(path, false)
})

// openSources opens every file from which the service is built. The go command caches
// test results until a file changes that the test has opened, and does not track
// the files read by the nested build.
func openSources(root string) error {
	return filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		_, err = os.Stat(path)
		return err
	})
}
