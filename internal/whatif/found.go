package whatif

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/printable"
)

// Differences count calls about which the rules in force and new ones differ.
type Differences struct {
	NewlyRefused int64 `json:"newly_refused"` // by the new rules alone
	NewlyAllowed int64 `json:"newly_allowed"` // refused by the rules in force alone
}

func (d *Differences) add(other *Differences) {
	d.NewlyRefused = sum(d.NewlyRefused, other.NewlyRefused)
	d.NewlyAllowed = sum(d.NewlyAllowed, other.NewlyAllowed)
}

// Sum returns the number of calls.
func (d *Differences) Sum() int64 { return sum(d.NewlyRefused, d.NewlyAllowed) }

// sum returns the sum of two counts, at most the largest number: reports may be forged.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Totals count calls.
type Totals struct {
	// Requests is the number of calls that both decided, and Dropped the number of calls that
	// a trial left out because it was slower than the traffic or had no answer.
	Requests       int64 `json:"requests"`
	Dropped        int64 `json:"dropped"`
	RefusedInForce int64 `json:"refused_in_force"`
	RefusedOnTrial int64 `json:"refused_on_trial"`
	Differences
}

// Add adds other counts.
func (t *Totals) Add(other *Totals) {
	t.Requests = sum(t.Requests, other.Requests)
	t.Dropped = sum(t.Dropped, other.Dropped)
	t.RefusedInForce = sum(t.RefusedInForce, other.RefusedInForce)
	t.RefusedOnTrial = sum(t.RefusedOnTrial, other.RefusedOnTrial)
	t.add(&other.Differences)
}

// Found are the differences between the decisions of two rule sets.
type Found struct {
	Totals
	// Rules are sorted by their differences, most first: new rules that newly refuse calls,
	// and rules in force whose refusals are newly allowed.
	Rules []Rule `json:"rules"`
}

// Rule has the differences of one rule.
type Rule struct {
	Rule int64  `json:"rule"` // its number; 0 for refusals without a rule
	Name string `json:"name"`
	Differences
	Identities []Identity `json:"identities"` // those with the most differences
}

// Identity is an identity that would notice a rule.
type Identity struct {
	Identity string `json:"identity"` // as decision_log_params shows it
	Differences
}

// ShownIdentities is the number of identities of a rule in a report.
const ShownIdentities = 10

// An instance shares this number of rules, and identities of the first of them, with the
// fleet, in less than 256 kB.
const sharedRules, sharedNamed, sharedIdentities = 100, 20, 20

// The bounds of the reports of other instances, ten times what Tally.Shared returns.
const (
	maxCount          = 1 << 53
	maxReadRules      = 10 * sharedRules
	maxReadIdentities = 10 * sharedNamed * sharedIdentities
)

// Encode returns the findings as text, for ParseFound at other instances.
func (f *Found) Encode() []byte {
	text, _ := json.Marshal(f) // numbers and strings can always be encoded
	return text
}

// ParseFound reads the findings of another instance. The text may be hostile. Fields of newer
// programs are ignored.
func ParseFound(text []byte) (Found, error) {
	var f Found
	if err := json.Unmarshal(text, &f); err != nil {
		return Found{}, err
	}
	identities := 0
	isValid := isCount(f.Requests, f.Dropped, f.RefusedInForce, f.RefusedOnTrial, f.NewlyRefused, f.NewlyAllowed) && len(f.Rules) <= maxReadRules
	for i := range f.Rules {
		r := &f.Rules[i]
		identities += len(r.Identities)
		isValid = isValid && r.Rule >= 0 && isCount(r.NewlyRefused, r.NewlyAllowed) && identities <= maxReadIdentities
		for j := range r.Identities {
			d := &r.Identities[j]
			isValid = isValid && isCount(d.NewlyRefused, d.NewlyAllowed)
		}
	}
	if !isValid {
		return Found{}, errors.New("the report of a trial has an unknown form")
	}
	return f, nil
}

func isCount(list ...int64) bool {
	for _, n := range list {
		if n < 0 || n > maxCount {
			return false
		}
	}
	return true
}

// sort sorts rules and identities, those with the most differences first, and drops
// identities beyond a number.
func (f *Found) sort(shown int) {
	for i := range f.Rules {
		r := &f.Rules[i]
		slices.SortFunc(r.Identities, func(a, b Identity) int {
			return cmp.Or(cmp.Compare(b.Sum(), a.Sum()), cmp.Compare(a.Identity, b.Identity))
		})
		r.Identities = r.Identities[:min(len(r.Identities), shown)]
	}
	slices.SortFunc(f.Rules, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Sum(), a.Sum()), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Name, b.Name))
	})
}

// maxText is the length up to which reports show a text, in bytes.
const maxText = 200

// Printable returns a text as terminals may show it, shortened to maxText.
func Printable(text string) string {
	end := ""
	if len(text) > maxText {
		text, end = strings.ToValidUTF8(text[:maxText], ""), "…"
	}
	return strings.ReplaceAll(printable.Text(text), string(utf8.RuneError), "?") + end
}
