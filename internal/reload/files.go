package reload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/koalagate/koalagate/rules"
)

// Files says where a rule set is, and how it is to be read.
type Files struct {
	// Paths are rule files, and folders of which every *.conf is one, in the
	// order of their names.
	Paths []string
	// Stdin is what the path "-" stands for, so that a command can read from a
	// pipe. Nil for nothing: then "-" is a file like any other.
	Stdin io.Reader
	// DictRoot is the folder that the paths of word lists start from; "" for
	// the folder of the rule file that names them.
	DictRoot string
	// Rules are handed to the parser; OpenDict is set here.
	Rules rules.Options
}

// Load reads the files and parses them. The error names every file that
// cannot be read; the findings are those of the parser. The set is nil if
// there is an error, or a finding that is one.
func (f Files) Load() (*rules.Set, rules.Findings, error) { return f.load(newReader(nil)) }

func (f Files) load(r *reader) (*rules.Set, rules.Findings, error) {
	sources, err := f.sources(r)
	if err != nil {
		return nil, nil, err
	}
	o := f.Rules
	o.OpenDict = func(source, path string) (*rules.Dict, error) { return f.openDict(r, source, path) }
	set, findings := rules.Parse(sources, o)
	return set, findings, nil
}

// Sources reads the rule files alone, in their order. The error names every
// one that cannot be read.
func (f Files) Sources() ([]rules.Source, error) { return f.sources(newReader(nil)) }

// sources reads all rule files.
func (f Files) sources(r *reader) ([]rules.Source, error) {
	var sources []rules.Source
	var faults []error
	given := make(map[string]bool)
	for _, path := range f.Paths {
		if path == standardInput && f.Stdin != nil && !given[path] {
			source, err := readStream(stdinName, f.Stdin, maxRuleFile)
			sources, faults, given[path] = append(sources, source), append(faults, err), true
			continue
		}
		names := []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if names, err = r.folder(path); err != nil {
				faults = append(faults, err)
			} else if len(names) == 0 {
				faults = append(faults, fmt.Errorf("%s: no *.conf in this folder", path))
			}
		}
		for _, name := range names {
			if given[filepath.Clean(name)] {
				faults = append(faults, fmt.Errorf("%s: given twice; take one out", name))
				continue
			}
			given[filepath.Clean(name)] = true
			source := rules.Source{Name: name}
			if err := r.file(name, maxRuleFile, func(text io.Reader) (err error) {
				source.Text, err = io.ReadAll(text)
				return err
			}); err != nil {
				faults = append(faults, err)
			}
			sources = append(sources, source)
		}
	}
	if len(f.Paths) == 0 {
		faults = append(faults, errors.New("no rule files are given"))
	}
	return sources, errors.Join(faults...)
}

// The path of the standard input, and its name in findings. Word lists that it
// names are relative to the working directory.
const (
	standardInput = "-"
	stdinName     = "<stdin>"
)

// readStream reads what has no size to look at first, up to limit bytes.
func readStream(name string, from io.Reader, limit int64) (rules.Source, error) {
	text, err := io.ReadAll(io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", name, err)
	case int64(len(text)) > limit:
		err = fmt.Errorf("%s: more than %d bytes; want at most that", name, limit)
	}
	return rules.Source{Name: name, Text: text}, err
}

// openDict loads the word list at path, which a line of source names.
func (f Files) openDict(r *reader, source, path string) (*rules.Dict, error) {
	return r.list(f.dictPath(source, path))
}

// dictPath is where the word list is that a line of source names.
func (f Files) dictPath(source, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	root := f.DictRoot
	if root == "" {
		root = filepath.Dir(source)
	}
	return filepath.Join(root, path)
}
