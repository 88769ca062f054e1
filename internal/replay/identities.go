package replay

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/topk"
	"github.com/koalagate/koalagate/rules"
)

const (
	// trackedIdentities bounds the memory that topIdentities needs.
	trackedIdentities = 10_000
	// reportedIdentities is the length of the list in a report.
	reportedIdentities = 10
	// maxKey is the length of an identity, and of a value in a report, in bytes.
	maxKey = 256
)

// topIdentities finds the identities with the most hits of a trace of any length in bounded
// memory.
type topIdentities struct {
	*topk.Top[string, IdentityTotals]

	key []byte // scratch memory of add
}

func newTopIdentities(capacity int) *topIdentities {
	return &topIdentities{Top: topk.New[string, IdentityTotals](capacity)}
}

// add counts hits of the identity that a rule matched.
func (t *topIdentities) add(m *rules.Match, hits int64, refused bool) {
	t.key = append(strconv.AppendInt(t.key[:0], m.Rule.Return, 10), ' ')
	if len(m.Identity) > maxKey {
		sum := sha256.Sum256(m.Identity)
		t.key = append(t.key, sum[:]...)
	} else {
		t.key = append(t.key, m.Identity...)
	}
	c, isNew := t.Take(string(t.key))
	if isNew {
		c.Value = IdentityTotals{Rule: m.Rule.Return, Name: m.Rule.Name, Identity: shortened(m.Values())}
	}
	if refused {
		c.Value.Refused++
	}
	t.Raise(c, hits)
}

// shortened returns values of which the longer ones are cut: a line of a trace may have a
// megabyte.
func shortened(values []rules.Param) []rules.Param {
	for i := range values {
		if v := &values[i]; len(v.Value) > maxKey {
			v.Value = strings.Clone(strings.ToValidUTF8(v.Value[:maxKey], "")) + "…"
		} else {
			v.Value = strings.Clone(v.Value) // which is a part of its line
		}
	}
	return values
}

// top returns up to n identities with the most hits, most hits first.
func (t *topIdentities) top(n int) []IdentityTotals {
	sorted := t.Sorted()
	list := make([]IdentityTotals, min(n, len(sorted)))
	for i := range list {
		list[i] = sorted[i].Value
		list[i].Hits, list[i].Excess = sorted[i].Count, sorted[i].Excess
	}
	return list
}
