package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/koalagate/koalagate/e2e"
)

// Binary is the koalagate that the tests run, built with the race detector.
var Binary string

// WithBinary builds the service once for all tests.
func WithBinary(run func() int) int {
	dir, err := os.MkdirTemp("", "koalagate-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=20") // instead of a second at the end of each command
	}
	Binary = filepath.Join(dir, "koalagate")
	s, err := e2e.NewStage(dir)
	if err == nil {
		err = s.Build(Binary, true)
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

// Released returns the path of the service without the race detector, which multiplies
// time and memory. It is built once.
func (h *Fixture) Released() string {
	h.Helper()
	return Must(buildReleased())(h.T)
}

var buildReleased = sync.OnceValues(func() (string, error) {
	s, err := e2e.NewStage(filepath.Dir(Binary))
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(Binary), "released")
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
