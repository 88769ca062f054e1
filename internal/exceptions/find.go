package exceptions

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Filter selects exceptions; the zero value selects all.
type Filter struct {
	Rule int64 // the number of a rule; 0 for all rules
	// Words are texts that must each occur in the ID, the rule, the parameters (NAME=VALUE), the
	// effect, the author or the note of an exception. Case is ignored.
	Words []string
	Most  int // the maximum number; 0 for all
}

// List returns the exceptions in force, the one that ends next first.
func (k *Keeper) List() []Exception { return k.Find(Filter{}) }

// Find returns the exceptions in force that a filter selects, the one that ends next first.
func (k *Keeper) Find(f Filter) []Exception {
	words := make([]string, len(f.Words))
	for i, word := range f.Words {
		words[i] = strings.ToLower(word)
	}
	k.mu.Lock()
	now := k.Now()
	list := make([]Exception, 0, 1)
	for _, x := range k.all {
		if x.Until.After(now) && (f.Rule == 0 || x.Rule == f.Rule) && x.has(words) {
			list = append(list, x)
		}
	}
	k.mu.Unlock()
	slices.SortFunc(list, func(a, b Exception) int { return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.ID, b.ID)) })
	if f.Most > 0 && len(list) > f.Most {
		list = slices.Clone(list[:f.Most]) // the others are not kept alive
	}
	return list
}

// has reports whether each word, in lower case, occurs in a text of the exception.
func (x *Exception) has(words []string) bool {
	if len(words) == 0 {
		return true
	}
	var text strings.Builder
	for _, part := range []string{x.ID, strconv.FormatInt(x.Rule, 10), x.What, x.Author, x.Note} {
		text.WriteString(part)
		text.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(x.Identity)) {
		text.WriteString(name + "=" + x.Identity[name] + "\n")
	}
	whole := strings.ToLower(text.String())
	for _, word := range words {
		if !strings.Contains(whole, word) {
			return false
		}
	}
	return true
}
