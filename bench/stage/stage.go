// Package stage gives a measurement what it starts instances with: a folder, a build of
// koalagate, and a Redis of its own.
package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/koalagate/koalagate/e2e"
)

// Stage starts and stops the programs of a measurement.
type Stage struct {
	*e2e.Stage
	Dir    string // for files of the measurement; Close removes it
	Binary string // of koalagate
	Redis  string // the URL of the server
}

// Open builds koalagate and starts Redis. The caller closes the stage.
func Open() (s *Stage, err error) {
	dir, err := os.MkdirTemp("", "koalagate-bench")
	if err != nil {
		return nil, err
	}
	s = &Stage{Dir: dir, Binary: filepath.Join(dir, "koalagate")}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Stage, err = e2e.NewStage(dir); err != nil {
		return s, err
	}
	if err := s.BuildRelease(s.Binary); err != nil {
		return s, err
	}
	redis, err := s.Stage.Redis()
	if err != nil {
		return s, err
	}
	s.Redis = redis.URL()
	return s, nil
}

// Valgrind returns the path of one of valgrind's programs, which `make tools` does not get.
func Valgrind(s *e2e.Stage, program string) (string, error) {
	path, err := s.Find(program)
	if err != nil {
		return "", fmt.Errorf("%s is neither on PATH nor in .tools/bin; run `e2e/programs.sh valgrind`", program)
	}
	return path, nil
}

// Close stops all programs, and removes their files.
func (s *Stage) Close() error {
	var failed error
	if s.Stage != nil {
		failed = s.Stage.Close()
	}
	return errors.Join(failed, os.RemoveAll(s.Dir))
}
