// Package ruletest runs unit tests of rule files: case files in YAML state requests,
// times and the answers that are expected. The counters of a case begin empty and are in
// process, and its clock is set by its steps.
package ruletest

import (
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/explain"
)

// File is a case file.
type File struct {
	Path string // as given
	// Rules are the rule files and folders under test, and DictRoot the folder of their
	// word lists, relative to the working directory. An empty DictRoot stands for the
	// folders of the rule files.
	Rules    []string
	DictRoot string
	Timezone string // the service's timezone; "" for its default
	Cases    []Case
}

// Case is a sequence of steps that share counters.
type Case struct {
	Name  string // unique in the file
	Line  int
	Start string // a date and time in the zone of the rule set
	Steps []Step
}

// Step is one call and the expectations about its answer.
type Step struct {
	Line int
	Ask  explain.Options
	// Tokens are sent besides, signed for the step.
	Tokens []Token
	Op     engine.Op
	Times  int           // how often the call is made, from 1
	After  time.Duration // since the previous step; not with At
	At     string        // a date and time in the zone of the rule set; "" for After
	Wants  []Want
	// OnReceipt is settle or renew in a step that ends or renews the request with the
	// receipt of this name, and makes no call; "" otherwise.
	OnReceipt string
	// Receipt is the name under which the receipt of the request is kept.
	Receipt string
	// Ending is how the request ended: of a settlement, or of requests that end at once.
	// Nil for none.
	Ending *Ending
}

// Want is one expectation. Its field is verdict, rule, result, limit, remaining, reset,
// retry, status, shadow or marks, or begins with headerField, paramField or forwardField.
type Want struct {
	Line  int
	Field string
	Value string
}

// The beginnings of fields that have a name.
const (
	headerField  = "header "
	paramField   = "param "
	forwardField = "forward "
)

// The values of fields that an answer does not have.
const (
	none   = "none"   // of rule, shadow, marks, limit, remaining, reset and retry
	absent = "absent" // of headers, forwarded ones too, and parameters
)

// defaultStart is the time at which a case begins that states none, so that its result
// does not depend on the day on which it runs.
const defaultStart = "2026-01-01T12:00"
