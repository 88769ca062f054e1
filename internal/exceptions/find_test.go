package exceptions_test

import (
	"log/slog"
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
	list[1].Note, list[2].Author = "Migration of ann", "eve@desk"
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
		{"by author", exceptions.Filter{Words: []string{"EVE@"}}, "2"},
		{"by what it does", exceptions.Filter{Words: []string{"deny"}}, "2"},
		{"by ID", exceptions.Filter{Words: []string{added[1].ID}}, "1"},
		{"by all words", exceptions.Filter{Words: []string{"ann", "act=post"}}, "0"},
		{"by a word across two parameters", exceptions.Filter{Words: []string{"postuid"}}, ""},
		{"the first ones", exceptions.Filter{Most: 2}, "01"},
		{"by everything", exceptions.Filter{Rule: 2, Words: []string{"ann"}, Most: 5}, "1"},
	} {
		var found strings.Builder
		for _, x := range k.Find(c.filter) {
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
