package apikey

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var long = flag.Bool("long", false, "a thousand changes at once")

// add is the change that adds a key.
func add(hash string) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		t, err := Parse("keys.csv", text)
		if err != nil {
			return nil, err
		}
		return t.Add(hash, nil, time.Now())
	}
}

func writeTable(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestChangesAtOnceLoseNone(t *testing.T) {
	path := writeTable(t, "key,tenant\n")
	n := 60
	if *long {
		n = 1000
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := Edit(t.Context(), path, add(Hash(strconv.Itoa(i)))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Parse("keys.csv", text)
	if err != nil || table.Len() != n {
		t.Fatalf("%v; want %d rows of\n%s", err, n, text)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("files are left: %q", left)
	}
}

func TestFailedChangesChangeNothing(t *testing.T) {
	path := writeTable(t, "key,tenant\n")
	wrong := errors.New("wrong")
	if err := Edit(t.Context(), path, func([]byte) ([]byte, error) { return nil, wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	err := Edit(t.Context(), path, func([]byte) ([]byte, error) {
		return []byte("key\n"), os.WriteFile(path, []byte("key,tenant,edited\n"), 0o600)
	})
	if err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("an editor's change: %v", err)
	}
	second := path + ".second"
	if err := os.Link(path, second); err != nil {
		t.Fatal(err)
	}
	if err := Edit(t.Context(), path, add(hash1)); err == nil || !strings.Contains(err.Error(), "hard links") {
		t.Errorf("a hard link: %v", err)
	}
	if text, err := ReadFile(path); err != nil || string(text) != "key,tenant,edited\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestLockedTableEndsWithTheContext(t *testing.T) {
	path := writeTable(t, "key,tenant\n")
	held, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := Edit(ctx, path, add(hash1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the end of the context", err)
	}
}

// A table of a million rows is changed in seconds.
func TestLargeTable(t *testing.T) {
	n := 20_000
	if *long {
		n = 1_000_000
	}
	var b strings.Builder
	b.WriteString("key,tenant\n")
	for i := range n {
		fmt.Fprintf(&b, "%032x,tenant %d\n", i, i)
	}
	path := writeTable(t, b.String())
	began := time.Now()
	if err := Edit(t.Context(), path, add(hash1)); err != nil {
		t.Fatal(err)
	}
	t.Logf("a key in a table of %d rows: %s", n, time.Since(began))
	text, err := ReadFile(path)
	if err != nil || string(text) != b.String()+hash1+",\n" {
		t.Errorf("%v, %d bytes; want the former bytes and a row", err, len(text))
	}
}
