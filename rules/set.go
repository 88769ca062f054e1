package rules

import "time"

// Source is the text of one rule file.
type Source struct {
	Name string // as findings name it: the path that the user gave
	Text []byte
}

// DefaultTimezone holds where neither the rule files nor the service state a
// zone: Koala's.
const DefaultTimezone = "Asia/Shanghai"

// Options are what a rule set needs beside its text.
type Options struct {
	// Timezone holds for rule sets that state none; "" means DefaultTimezone.
	Timezone string
	// RequireEnd refuses files without [end].
	RequireEnd bool
	// AllowEmpty accepts a rule set without any rule.
	AllowEmpty bool
	// OpenDict loads the word list at path, which a [dicts] line of the file
	// named source gives. Nil makes every word list an error.
	OpenDict func(source, path string) (*Dict, error)
}

// Set is one generation of rules: everything that the rule files say, checked
// and ready to match. It is immutable and safe for concurrent use.
type Set struct {
	Sources  []Source
	Rules    []*Rule         // highest priority first
	Results  map[int]*Result // always holds 0 and 1
	Params   []*ParamDecl    // [params], in the order of the files
	Routes   *Routes         // [routes]; never nil
	Dicts    map[string]*Dict
	Timezone string         // as the files state it; "" if they do not
	Zone     *time.Location // the zone of this set's days; never nil
	Hash     string         // hex SHA-256 over the sources and the word lists

	index index
}

// Match is one rule that a request meets.
type Match struct {
	Rule *Rule
	// Identity is what the rule's counter belongs to: an injective encoding
	// of the identity's values, beginning with their number in one byte. Nil
	// for a direct rule. It lives in the Matches that holds it.
	Identity []byte
	// Cost is what one hit weighs: the value of the rule's cost parameter,
	// 0 … 999 999 999, and 1 without one.
	Cost int64
}

// Matches receives the rules that a request meets, highest priority first.
// Used again, it allocates nothing. Its zero value is ready.
type Matches struct {
	List   []Match
	arena  []byte
	of     *index  // that the slots are of
	door   int     // its slot, -1 without one
	domain int     // the same
	slots  []value // by slot
	filled []int   // the slots that the request has a value for
	lists  [][]int32
}
