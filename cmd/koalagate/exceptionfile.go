package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/printable"
)

const (
	// batchLength is the maximum number of exceptions in one request, so that each is answered
	// within seconds, beside decisions.
	batchLength = 1000
	// batchBytes is the size of entries, in bytes, from which on a request takes no more of
	// them.
	batchBytes = 1 << 20
	// maxList is the maximum size of a --file, in bytes: 100,000 exceptions fit.
	maxList = 256 << 20
)

// listEntry is an entry of a list of exceptions.
type listEntry struct {
	adminapi.Addition
	number, line int // from 1
	size         int // bytes
}

// place names an entry in errors.
func (e *listEntry) place() string { return fmt.Sprintf("entry %d (line %d)", e.number, e.line) }

// addFile carries out `koalagate exception add --file`.
func (p *program) addFile(ctx context.Context, o *exceptionFlags, args []string) error {
	if o.isGiven() || len(args) > 0 {
		return errors.New("--file excludes the other flags of an exception")
	}
	list, err := readList(o.file)
	if err != nil {
		return err
	}
	batches := batchesOf(list)
	for _, batch := range batches {
		what := &adminapi.Additions{Exceptions: additionsOf(batch)}
		if err := o.instance.call(ctx, p.environ, http.MethodPost, "exceptions/prepare", what, nil); err != nil {
			return fmt.Errorf("%s: %w; nothing was added", o.file, ofEntry(err, batch))
		}
	}
	all := make([]exceptions.Exception, 0, len(list))
	for _, batch := range batches {
		added, err := o.add(ctx, p.environ, &adminapi.Additions{Exceptions: additionsOf(batch)})
		switch {
		case err != nil && len(all) == 0:
			return fmt.Errorf("%s: %w; nothing was added", o.file, ofEntry(err, batch))
		case err != nil:
			return fmt.Errorf("%s: %w; the entries 1 to %d are in force, and none after them: remove those from the file, and repeat the command", o.file, ofEntry(err, batch), len(all))
		}
		all = append(all, added...)
		if o.format.value == "text" {
			if err := writeExceptions(p.stdout, &added); err != nil {
				return err
			}
		}
	}
	if o.format.value == "json" {
		return display.JSON(p.stdout, all)
	}
	fmt.Fprintf(p.stderr, "added %s\n", printable.Count(len(all), "exception"))
	return nil
}

// isGiven reports whether a flag of a single exception is set.
func (o *exceptionFlags) isGiven() bool {
	return o.rule != "" || o.limit != "" || o.count != 0 || o.allow || o.deny || o.span != 0 || o.note != ""
}

// ofEntry names the entry of a batch that an error of the API is about.
func ofEntry(err error, batch []listEntry) error {
	var p *adminapi.Problem
	if errors.As(err, &p) && p.Entry > 0 && p.Entry <= len(batch) {
		return fmt.Errorf("%s: %w", batch[p.Entry-1].place(), err)
	}
	return fmt.Errorf("entries %d to %d: %w", batch[0].number, batch[len(batch)-1].number, err)
}

// readList reads a list of exceptions.
func readList(path string) ([]listEntry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, failure{fmt.Errorf("--file: %w", err)}
	}
	if info.Size() > maxList {
		return nil, trouble{fmt.Errorf("--file %s has %d bytes; want at most %d", path, info.Size(), maxList)}
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, failure{fmt.Errorf("--file: %w", err)}
	}
	list, err := parseList(text)
	if err != nil {
		return nil, trouble{fmt.Errorf("--file %s is not a JSON list of exceptions, as `exception list --format json` writes it: %w", path, err)}
	}
	if len(list) == 0 {
		return nil, trouble{fmt.Errorf("--file %s has no exceptions", path)}
	}
	return list, nil
}

// parseList parses a list of exceptions. Its error names the line.
func parseList(text []byte) ([]listEntry, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	line, counted := 1, 0
	// lineAt returns the line of an offset, which never decreases.
	lineAt := func(offset int) int {
		line += bytes.Count(text[counted:offset], []byte{'\n'})
		counted = offset
		return line
	}
	begin, err := d.Token()
	if err != nil {
		return nil, err
	}
	if begin != json.Delim('[') {
		return nil, errors.New("want a list in [ ]")
	}
	var list []listEntry
	for d.More() {
		from := int(d.InputOffset())
		from += len(text[from:]) - len(bytes.TrimLeft(text[from:], ", \t\r\n"))
		e := listEntry{number: len(list) + 1, line: lineAt(from)}
		if err := d.Decode(&e.Addition); err != nil {
			return nil, fmt.Errorf("%s: %w", e.place(), err)
		}
		e.size = int(d.InputOffset()) - from
		list = append(list, e)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("after entry %d: %w", len(list), err)
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return nil, fmt.Errorf("line %d: unexpected text after the list", lineAt(len(text)-len(rest)))
	}
	return list, nil
}

// batchesOf divides a list into the entries of single requests.
func batchesOf(list []listEntry) [][]listEntry {
	var batches [][]listEntry
	begin, size := 0, 0
	for i := range list {
		if size += list[i].size; i+1-begin == batchLength || size >= batchBytes || i+1 == len(list) {
			batches = append(batches, list[begin:i+1])
			begin, size = i+1, 0
		}
	}
	return batches
}

// additionsOf returns the additions of entries.
func additionsOf(batch []listEntry) []adminapi.Addition {
	list := make([]adminapi.Addition, len(batch))
	for i := range batch {
		list[i] = batch[i].Addition
	}
	return list
}
