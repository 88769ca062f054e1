// Package single starts one instance of koalagate, with counters in a Redis of its own, for a
// measurement.
package single

import (
	"os"
	"path/filepath"

	"github.com/koalagate/koalagate/e2e"
)

// Instance is the instance and its Redis.
type Instance struct {
	*e2e.Koalagate
	stage *e2e.Stage
	dir   string
}

// Start builds and starts an instance with rules and settings. Its decision log is in a
// temporary folder if logs is set.
func Start(rules string, logs bool, env ...string) (i *Instance, err error) {
	dir, err := os.MkdirTemp("", "koalagate-bench")
	if err != nil {
		return nil, err
	}
	i = &Instance{dir: dir}
	defer func() {
		if err != nil {
			i.Close()
		}
	}()
	if i.stage, err = e2e.NewStage(dir); err != nil {
		return nil, err
	}
	binary, file := filepath.Join(dir, "koalagate"), filepath.Join(dir, "rules.conf")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	if err := i.stage.Build(binary, false); err != nil {
		return nil, err
	}
	redis, err := i.stage.Redis()
	if err != nil {
		return nil, err
	}
	if logs {
		env = append(env, "KOALAGATE_DECISION_LOG="+filepath.Join(dir, "decisions.jsonl"))
	}
	i.Koalagate, err = i.stage.Koalagate(binary, env, "--rules", file, "--redis", redis.URL())
	return i, err
}

// Close stops the instance and Redis, and removes their files.
func (i *Instance) Close() {
	if i.stage != nil {
		_ = i.stage.Close() // the programs end in any case
	}
	_ = os.RemoveAll(i.dir) // temporary files
}
