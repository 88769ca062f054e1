package rules

import (
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/method"
)

// DefaultTimezone is the time zone if neither the rule files nor Options name one. Koala
// counts in Asia/Shanghai.
const DefaultTimezone = "UTC"

// Options are the settings of Parse.
type Options struct {
	// Timezone applies to rule sets that name none; "" means DefaultTimezone.
	Timezone string
	// RequireEnd rejects files without [end].
	RequireEnd bool
	// AllowEmpty accepts a rule set without rules.
	AllowEmpty bool
	// Now is the clock for the warning about rules that are over; nil omits it.
	Now func() time.Time
	// OpenDict loads the word list at path, which a [dicts] line of the file
	// named source declares. If it is nil, every word list is an error.
	OpenDict func(source, path string) (*Dict, error)
	// OpenTable loads the table at path, which a [tables] line of the file named
	// source declares. If it is nil, every table is an error.
	OpenTable func(source, path string) (*Table, error)
	// OpenKeys reads the file of keys at path, which a [tokens] line of the file named
	// source declares. If it is nil, every file of keys is an error.
	OpenKeys func(source, path string) ([]byte, error)
	// OpenToken returns a verifier for the tokens of a line. The text keys is that of the
	// line's file, nil for keys by address. The errors skipped say why single keys of the
	// file are not in use. If it is nil, every line of [tokens] is an error.
	OpenToken func(token *JWT, keys []byte) (v JWTVerifier, skipped []error, err error)
	// Pause is called between pieces of work: lines, and rules in later steps. It may wait, so
	// that parsing leaves the processor to others. If it returns false, parsing stops. If it is
	// nil, parsing yields to other goroutines that are ready. A piece takes some microseconds
	// if its line is short, and up to about 100 ms if it is a line of 128 kB, the longest that
	// is read.
	Pause func() bool
}

// Set is one generation of rules: the checked content of all rule files, with an
// index for Match. It is immutable and safe for concurrent use.
type Set struct {
	Sources  []Source
	Rules    []*Rule         // highest priority first
	Results  map[int]*Result // has at least 0 and 1
	Params   []*ParamDecl    // [params], in the order of the files
	Forwards []*Forward      // [forward], in the order of the files
	Dicts    map[string]*Dict
	Tables   map[string]*Table
	Tokens   []*JWT         // [tokens], in the order of the files
	Timezone string         // the zone that the files state; "" if they state none
	Zone     *time.Location // the zone of this set's days; never nil
	Hash     string         // hex SHA-256 over the sources, the word lists, the tables and the keys

	parsed  bool // Parse made the set
	timed   bool // a rule has since or until
	isQueue bool // a rule has a wait
	routes  routeTree
	index   index
	dictAt  map[place]*Dict
	tableAt map[place]*Table
	keysAt  map[place][]byte
}

// IsParsed reports whether the set was made by Parse, without errors. Other sets have no
// index, so they would match nothing; an engine returns an error for them. For koalagate's
// own programs, may change.
func (s *Set) IsParsed() bool { return s != nil && s.parsed }

// ReceiptTime returns the longest time for which a receipt is valid, 0 if no rule gives
// one. For koalagate's own programs, may change.
func (s *Set) ReceiptTime() time.Duration {
	longest := int64(0)
	for _, r := range s.Rules {
		if method.Of(r.Method).Holds {
			longest = max(longest, r.Time)
		}
		longest = max(longest, r.Settle)
	}
	return time.Duration(longest) * time.Second
}

// HasWaits reports whether a rule of the set can make a request wait for its turn. For
// koalagate's own programs, may change.
func (s *Set) HasWaits() bool { return s != nil && s.isQueue }

// Match is a rule that matches a request.
type Match struct {
	Rule *Rule
	// Place is the index of Rule in Set.Rules.
	Place int
	// Identity is the identity of the rule's counter: an injective encoding of
	// its values that begins with their number in one byte. It is nil for a
	// direct rule. It is valid until the Matches that owns it is used again.
	Identity []byte
	// Limits are the thresholds of the rule for the request.
	Limits Limits
	// Cost is the weight of one hit: the value of the rule's cost parameter,
	// 0 … 10^15, or 1 without such a value.
	Cost int64
	// Stated is true for a limit that a call states itself: exceptions of the engine, which are for
	// limits that are configured, do not apply to it. Set.Match does not set it.
	Stated bool
}

// Matches receives the rules that match a request, highest priority first. The zero
// value is ready to use. Reuse avoids allocations.
type Matches struct {
	List []Match
	// Now is the time of the request in ms since the epoch, which Match needs if
	// the set is Timed. The caller sets it.
	Now int64

	arena  []byte
	of     *index  // the index of the slots
	door   int     // the slot of the parameter door, -1 without one
	domain int     // the slot of the parameter domain, -1 without one
	slots  []value // by slot
	filled []int   // the slots that the request fills
	lists  [][]int32
}

// place is where a file declares a word list, a table or keys: the name of the file, and the
// path in the declaration.
type place struct{ source, path string }

// OpenDict returns the word list that the set has from path in the file named source. It is
// a function for Options.OpenDict: a changed text of the files is parsed with it without
// reading the list again, or any other file. For koalagate's own programs, may change.
func (s *Set) OpenDict(source, path string) (*Dict, error) {
	if d := s.dictAt[place{source, path}]; d != nil {
		return d, nil
	}
	return nil, notInSet(source, path)
}

// OpenTable is OpenDict for tables. For koalagate's own programs, may change.
func (s *Set) OpenTable(source, path string) (*Table, error) {
	if t := s.tableAt[place{source, path}]; t != nil {
		return t, nil
	}
	return nil, notInSet(source, path)
}

// OpenKeys is OpenDict for files of keys. For koalagate's own programs, may change.
func (s *Set) OpenKeys(source, path string) ([]byte, error) {
	if text, known := s.keysAt[place{source, path}]; known {
		return text, nil
	}
	return nil, notInSet(source, path)
}

func notInSet(source, path string) error {
	return fmt.Errorf("the rules in force do not have %s in %s: %w", path, source, fs.ErrNotExist)
}

// yieldAt lets decisions that wait for a processor run first, at every 64th
// step. A rule set is built while an older one decides. Without the pauses the
// 99th percentile of decisions more than triples on a machine of two processors
// while 10,000 rules load.
func yieldAt(step int) {
	if step%64 == 0 {
		runtime.Gosched()
	}
}

// pauses calls Options.Pause between pieces of work. Without it, it yields.
type pauses struct {
	pause   func() bool
	stopped bool // pause has stopped the work, whose result is incomplete
}

// at is called at each step of a loop, and returns false if the work must stop.
func (p *pauses) at(step int) bool {
	switch {
	case p.pause == nil:
		yieldAt(step)
	case !p.stopped:
		p.stopped = !p.pause()
	}
	return !p.stopped
}

// Renumbered returns warnings about rules whose numbers belonged to different rules in
// the previous generation: counters and reports are kept by number, and would be
// attributed to the wrong rule. A changed limit, result or value is not a change of
// meaning. A nil before means that there is no previous generation. For koalagate's own
// programs, may change.
func Renumbered(before, now *Set) Findings {
	if before == nil {
		return nil
	}
	homes := make(map[string]int64, len(now.Rules)) // numbers by subject
	for _, r := range now.Rules {
		if about := subject(r); homes[about] == 0 {
			homes[about] = r.Return
		}
	}
	var found collector
	for _, r := range now.Rules {
		was := before.Rule(r.Return)
		if was == nil {
			continue
		}
		if message, hint := changedMeaning(was, r, homes); message != "" {
			found.add(warnRenumbered, span{}, Finding{Position: r.Pos, Message: message, Hint: hint})
		}
	}
	return found.sorted(now.Sources)
}

// changedMeaning returns the message and the hint for a number that changed its
// meaning, "" if it did not.
func changedMeaning(was, is *Rule, homes map[string]int64) (message, hint string) {
	const another = "give the rule another number, unless this is intended"
	former := subject(was)
	if moved := homes[former]; moved != 0 && former != subject(is) {
		return fmt.Sprintf("return=%d was the number of the rule that is now %d", is.Return, moved), "keep the number of a rule, because counters and reports are kept by number"
	}
	if was.Method != is.Method {
		return fmt.Sprintf("return=%d was a %s rule and is now a %s rule", is.Return, was.Method, is.Method), another
	}
	if a, b := countedBy(was), countedBy(is); is.Counts() && !slices.Equal(a, b) {
		return fmt.Sprintf("return=%d counted by %s and now counts by %s", is.Return, listNames(a), listNames(b)), another
	}
	return "", ""
}

// subject returns the conditions of a rule in a canonical order.
func subject(r *Rule) string {
	conditions := make([]string, len(r.Conditions))
	for i, c := range r.Conditions {
		conditions[i] = c.String()
	}
	slices.Sort(conditions)
	return strings.Join(conditions, ";")
}

// countedBy returns the names of the parameters in a rule's identity, sorted.
func countedBy(r *Rule) []string {
	var names []string
	for _, c := range r.Conditions {
		if c.identifies() {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

func listNames(names []string) string {
	if len(names) == 0 {
		return "no parameter"
	}
	return strings.Join(names, ", ")
}

// pieceSize is the size of the pieces of a text between two pauses, in bytes: one copy or
// hash of all of it could not be preempted.
const pieceSize = 64 << 10

// copied returns a text as a string, "" if the work must stop.
func (p *pauses) copied(text []byte) string {
	var b strings.Builder
	b.Grow(len(text))
	for piece := range slices.Chunk(text, pieceSize) {
		if b.Write(piece); !p.at(0) {
			return ""
		}
	}
	return b.String()
}

// sortPausing sorts as slices.SortFunc does.
func sortPausing[T any](list []T, compare func(a, b T) int, p *pauses) {
	step := 0
	slices.SortFunc(list, func(a, b T) int {
		if step++; step%64 == 0 {
			p.at(step)
		}
		return compare(a, b)
	})
}
