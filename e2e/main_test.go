package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
)

// long asks for the stories in many rounds, as `make verify` tells them.
var long = flag.Bool("long", false, "tell the stories in many rounds")

// binary is the koalagate that the stories run: it finds data races.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(withBinary(m.Run))
}

// withBinary builds the service once for all stories.
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
		err = seeSources(s.Path("."))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

// seeSources looks at every file that the service is built from. The go
// command keeps results of tests until a file changes that the test has seen,
// and it does not know what the compiler saw for us.
func seeSources(root string) error {
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
