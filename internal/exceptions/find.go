package exceptions

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/pace"
)

// Filter selects exceptions; the zero value selects all.
type Filter struct {
	Rule int64 // the number of a rule; 0 for all rules
	// Words are texts that must each occur in the ID, the rule, the parameters (NAME=VALUE), the
	// effect, the author or the note of an exception. Case is ignored.
	Words []string
	Most  int // the maximum number; 0 for all
}

// MaxWords is the maximum number of different words of a Filter.
const MaxWords = 16

// inForce returns the exceptions in force, the one that ends next first. They never change.
func (k *Keeper) inForce() []*Exception {
	return after(k.list(), k.Now())
}

// list returns all exceptions, the one that ends next first.
func (k *Keeper) list() []*Exception {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ordered
}

// List returns the exceptions in force as they are shown, the one that ends next first.
func (k *Keeper) List() []Exception {
	list, _ := k.Find(context.Background(), Filter{}) // neither the context nor the filter fails
	return list
}

// Find returns the exceptions in force that a filter selects, as they are shown, the one that ends
// next first. Words are looked for in what is shown.
// Changes and new rules do not wait for it. The error is an InvalidError, or comes from ctx.
func (k *Keeper) Find(ctx context.Context, f Filter) ([]Exception, error) {
	words := make([]string, 0, MaxWords)
	for _, word := range f.Words {
		switch word = strings.ToLower(word); {
		case slices.Contains(words, word):
		case len(words) == MaxWords:
			return nil, invalid("the search has more than %d different words; remove some", MaxWords)
		default:
			words = append(words, word)
		}
	}
	list := []Exception{}
	var memory []byte
	for _, x := range k.inForce() {
		if err := pace.Step(ctx); err != nil {
			return nil, err
		}
		if f.Rule != 0 && x.Rule != f.Rule {
			continue
		}
		if len(x.Masked) > 0 {
			shown := k.Shown(x)
			x = &shown
		}
		if x.has(words, &memory) {
			if list = append(list, *x); len(list) == f.Most {
				break
			}
		}
	}
	return list, nil
}

// Shown returns an exception as lists show it: with masks instead of its masked values.
func (k *Keeper) Shown(x *Exception) Exception {
	shown := *x
	shown.Identity = k.hide(x.Identity, x.Masked)
	return shown
}

// has reports whether each word, in lower case and without blanks, occurs in a text of the exception.
// It writes the texts to memory that later calls reuse.
func (x *Exception) has(words []string, memory *[]byte) bool {
	if len(words) == 0 {
		return true
	}
	b := strconv.AppendInt((*memory)[:0], x.Rule, 10)
	for _, part := range [...]string{x.ID, x.Limit, x.What, x.Author, x.Note} {
		b = appendLower(append(b, '\n'), part)
	}
	for name, value := range x.Identity {
		b = appendLower(append(appendLower(append(b, '\n'), name), '='), value)
	}
	*memory = b
	for _, word := range words {
		if !bytes.Contains(b, []byte(word)) {
			return false
		}
	}
	return true
}

// appendLower appends a text in lower case.
func appendLower(b []byte, text string) []byte {
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			return append(b, strings.ToLower(text[i:])...)
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}
