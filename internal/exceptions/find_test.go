package exceptions_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/exceptions"
)

// A filter selects by rule, and by words that each occur somewhere in an exception.
func TestFind(t *testing.T) {
	k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler)})
	k.Use(parseRules(t, ruleText))
	list := []exceptions.Exception{exception(1, "ann", exceptions.Allow), exception(2, "ann", exceptions.Count), exception(1, "bob", exceptions.Deny)}
	for i := range list {
		list[i].Until = list[i].Until.Add(time.Duration(i) * time.Second)
	}
	list[1].Note, list[2].Author = "Migration of ann ÄRZTE", "eve@desk"
	added, err := k.Add(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		filter exceptions.Filter
		want   string // the indexes in added
	}{
		{"all, the one that ends next first", exceptions.Filter{}, "012"},
		{"by rule", exceptions.Filter{Rule: 1}, "02"},
		{"by parameter", exceptions.Filter{Words: []string{"uid=ann"}}, "01"},
		{"by note, in any case", exceptions.Filter{Words: []string{"migration"}}, "1"},
		{"by letters beyond ASCII", exceptions.Filter{Words: []string{"ärzTE"}}, "1"},
		{"by author", exceptions.Filter{Words: []string{"EVE@"}}, "2"},
		{"by what it does", exceptions.Filter{Words: []string{"deny"}}, "2"},
		{"by ID", exceptions.Filter{Words: []string{added[1].ID}}, "1"},
		{"by all words", exceptions.Filter{Words: []string{"ann", "act=post"}}, "0"},
		{"by a word across two parameters", exceptions.Filter{Words: []string{"postuid"}}, ""},
		{"the first ones", exceptions.Filter{Most: 2}, "01"},
		{"by everything", exceptions.Filter{Rule: 2, Words: []string{"ann"}, Most: 5}, "1"},
	} {
		var found strings.Builder
		list, err := k.Find(t.Context(), c.filter)
		if err != nil {
			t.Error(err)
		}
		for _, x := range list {
			for i := range added {
				if x.ID == added[i].ID {
					found.WriteByte("012"[i])
				}
			}
		}
		if found.String() != c.want {
			t.Errorf("%s: found %q; want %q", c.name, found.String(), c.want)
		}
	}
}

// A search has 16 different words at most; case and repetitions do not count.
func TestFindRefusesManyWords(t *testing.T) {
	k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler)})
	k.Use(parseRules(t, ruleText))
	var words []string
	for i := range exceptions.MaxWords {
		words = append(words, "w"+strconv.Itoa(i), "W"+strconv.Itoa(i))
	}
	if _, err := k.Find(t.Context(), exceptions.Filter{Words: words}); err != nil {
		t.Errorf("%d words: %v", exceptions.MaxWords, err)
	}
	var invalid exceptions.InvalidError
	if _, err := k.Find(t.Context(), exceptions.Filter{Words: append(words, "one more")}); !errors.As(err, &invalid) || !strings.Contains(err.Error(), "more than 16 different words") {
		t.Errorf("one more: %v; want an InvalidError", err)
	}
}

// during calls do each time somebody asks whether it has ended.
type during struct {
	context.Context
	do func()
}

func (d during) Err() error {
	d.do()
	return d.Context.Err()
}

// New rules and changes do not wait for a search, which answers with the exceptions of its
// beginning, and ends with its caller.
func TestNothingWaitsForASearch(t *testing.T) {
	k := exceptions.New(exceptions.Options{Logger: slog.New(slog.DiscardHandler)})
	set := parseRules(t, ruleText)
	k.Use(set)
	added, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "ann", exceptions.Allow), exception(1, "bob", exceptions.Allow), exception(1, "cid", exceptions.Allow)})
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	change := func() { // each of these would wait until the test is out of time
		if steps++; steps > 1 {
			return
		}
		k.Use(set)
		for _, x := range added {
			if _, err := k.Remove(t.Context(), x.ID); err != nil {
				t.Error(err)
			}
		}
		if _, err := k.Add(t.Context(), []exceptions.Exception{exception(2, "eve", exceptions.Allow)}); err != nil {
			t.Error(err)
		}
	}
	list, err := k.Find(during{t.Context(), change}, exceptions.Filter{})
	if err != nil || len(list) != len(added) || steps < len(added) {
		t.Errorf("%v, %v after %d steps; want the %d exceptions of the beginning", list, err, steps, len(added))
	}
	if list := k.List(); len(list) != 1 || list[0].Identity["uid"] != "eve" {
		t.Errorf("afterwards %v; want that of eve", list)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if list, err := k.Find(left, exceptions.Filter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("without its caller: %v, %v; want %v", list, err, context.Canceled)
	}
}

// BenchmarkFind measures a search in as many exceptions as there may be, which finds the last one.
func BenchmarkFind(b *testing.B) {
	k := exceptions.New(exceptions.Options{Max: 100_000, Logger: slog.New(slog.DiscardHandler)})
	k.Use(parseRules(b, ruleText))
	list := make([]exceptions.Exception, 100_000)
	for i := range list {
		list[i] = exception(1, "user-"+strconv.Itoa(i), exceptions.Allow)
		list[i].Note, list[i].Author = "Bulk", "ann@desk"
	}
	if _, err := k.Add(b.Context(), list); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if found, err := k.Find(b.Context(), exceptions.Filter{Words: []string{"UID=user-99999"}}); err != nil || len(found) != 1 {
			b.Fatal(len(found), err)
		}
	}
}
