package reload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/rules"
)

// Files specifies the files of a rule set and how to read them.
type Files struct {
	// Paths are rule files, and folders in which every *.conf is a rule file,
	// in order of name.
	Paths []string
	// Own are rules of the program itself, which precede the rules of the files.
	Own []rules.Source
	// Stdin is read for the path "-", so that a command can read from a pipe. If
	// it is nil, "-" is a file name.
	Stdin io.Reader
	// DictRoot is the folder to which paths of word lists, tables and keys are relative;
	// "" for the folder of the rule file that names them.
	DictRoot string
	// Rules are the options of the parser. OpenDict, OpenTable and OpenKeys are set by this
	// package, and OpenToken if it is nil: tokens are then verified by keys of files alone.
	Rules rules.Options
}

// Load reads and parses the files. The error names every file that cannot be
// read; the findings come from the parser. The set is nil if there is an error
// or a finding with severity error. It reads all without a pause, as commands do.
func (f Files) Load() (*rules.Set, rules.Findings, error) {
	return f.load(context.Background(), newReader(nil))
}

// load reads and parses the files with the pauses of ctx. If ctx ends meanwhile, there may be
// neither a set nor findings nor an error.
func (f Files) load(ctx context.Context, r *reader) (*rules.Set, rules.Findings, error) {
	sources, err := f.sources(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	o := f.Rules
	o.Pause = pace.Pauses(ctx)
	o.OpenDict = func(source, path string) (*rules.Dict, error) { return r.list(ctx, f.ListPath(source, path)) }
	o.OpenTable = func(source, path string) (*rules.Table, error) { return r.table(ctx, f.ListPath(source, path)) }
	o.OpenKeys = func(source, path string) ([]byte, error) { return r.keyText(ctx, f.ListPath(source, path)) }
	if o.OpenToken == nil {
		o.OpenToken = tokens.Offline
	}
	set, findings := rules.Parse(sources, o)
	return set, findings, nil
}

// Sources reads the rule files, without word lists and tables, in order. The error names
// every file that cannot be read.
func (f Files) Sources() ([]rules.Source, error) {
	return f.sources(context.Background(), newReader(nil))
}

// sources reads all rule files.
func (f Files) sources(ctx context.Context, r *reader) ([]rules.Source, error) {
	sources := append([]rules.Source(nil), f.Own...)
	var problems []error
	seen := make(map[string]bool)
	for _, path := range f.Paths {
		if path == standardInput && f.Stdin != nil && !seen[path] {
			source, err := readStream(stdinName, f.Stdin, maxRuleFile)
			sources, problems, seen[path] = append(sources, source), append(problems, err), true
			continue
		}
		names := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if names, err = r.folder(path); err != nil {
				problems = append(problems, err)
			} else if len(names) == 0 {
				problems = append(problems, fmt.Errorf("%s: the folder contains no *.conf file; name rule files so, or state their paths", path))
			}
		}
		for _, name := range names {
			clean := filepath.Clean(name)
			if seen[clean] {
				problems = append(problems, fmt.Errorf("%s: listed twice; remove one", name))
				continue
			}
			seen[clean] = true
			text, err := r.ruleText(ctx, name)
			if err != nil {
				problems = append(problems, withRemedy(err))
			}
			sources = append(sources, rules.Source{Name: name, Text: text})
		}
	}
	if len(f.Paths) == 0 && len(f.Own) == 0 {
		problems = append(problems, errors.New("no rule files"))
	}
	return sources, errors.Join(problems...)
}

// withRemedy adds to the error of a rule file what to do about it.
func withRemedy(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; let the user that runs koalagate read it", err)
	}
	return err
}

// The path of the standard input, and its name in findings. Word lists named in
// it are relative to the working directory.
const (
	standardInput = "-"
	stdinName     = "<stdin>"
)

// readStream reads a stream of unknown size, up to limit bytes.
func readStream(name string, from io.Reader, limit int64) (rules.Source, error) {
	text, err := io.ReadAll(io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", name, err)
	case int64(len(text)) > limit:
		err = fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return rules.Source{Name: name, Text: text}, err
}

// ListPath returns the location of a word list, a table or keys named in the rule file source.
func (f Files) ListPath(source, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	root := f.DictRoot
	if root == "" {
		root = filepath.Dir(source)
	}
	return filepath.Join(root, path)
}
