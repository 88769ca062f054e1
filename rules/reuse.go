package rules

import (
	"fmt"
	"io/fs"
)

// place is where a file declares a word list or a table: the name of the file, and the
// path in the declaration.
type place struct{ source, path string }

// OpenDict returns the word list that the set has from path in the file named source. It
// is a function for Options.OpenDict: a changed text of the files is parsed with it
// without reading the list again, or any other file.
func (s *Set) OpenDict(source, path string) (*Dict, error) {
	if d := s.dictAt[place{source, path}]; d != nil {
		return d, nil
	}
	return nil, notInSet(source, path)
}

// OpenTable is OpenDict for tables.
func (s *Set) OpenTable(source, path string) (*Table, error) {
	if t := s.tableAt[place{source, path}]; t != nil {
		return t, nil
	}
	return nil, notInSet(source, path)
}

func notInSet(source, path string) error {
	return fmt.Errorf("the rules in force do not have %s in %s: %w", path, source, fs.ErrNotExist)
}
