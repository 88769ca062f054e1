package explain

import (
	"io"

	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/mapping"
)

// Report explains a decision. It is also the document that `explain --format
// json` writes: docs/formats.md describes it, and programs depend on it, so
// fields may be added but never changed.
type Report struct {
	Request  *Request  `json:"request,omitempty"` // nil for a question about rule parameters
	Params   []Param   `json:"params"`
	Tokens   []Token   `json:"tokens,omitempty"`   // of the lines of [tokens] that the rules use
	Imported *Imported `json:"imported,omitempty"` // the imported limit of a descriptor, which comes before the rules; nil without imported limits
	Rules    []Rule    `json:"rules"`              // all rules, in the order in which they are tried
	Refused  *Refusal  `json:"refused,omitempty"`  // set if the request is refused before any rule
	Decision *Decision `json:"decision,omitempty"` // nil if refused

	// Forward has the headers of [forward] that the application receives of an allowed
	// request. One with the value "" is removed from the request.
	Forward []Forward `json:"forward,omitempty"`

	// Absent lists the parameters that [params] declares and the request lacks;
	// From has the sources that were tried.
	Absent []Param `json:"-"`

	// Counted reports that the request was counted before it was explained.
	Counted bool `json:"-"`
}

// Request identifies the explained request.
type Request struct {
	Door   string `json:"door"`
	Method string `json:"method,omitempty"`
	Target string `json:"target,omitempty"`
}

// Param is a parameter and its origin. From is empty for a parameter that was
// given as such.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from,omitempty"`
}

// Token is the verification of a token, which the report does not have.
type Token struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	From    string `json:"from"`             // the place where the request has it, or the places that were searched
	Reason  string `json:"reason,omitempty"` // why it is not valid
}

// Forward is a header for the application.
type Forward struct {
	Header string `json:"header"`
	Value  string `json:"value"`
	Param  string `json:"param"`            // whose value it has
	Unsent string `json:"unsent,omitempty"` // why the value that the request has is not forwarded
}

// Refusal is an answer that does not depend on rules.
type Refusal struct {
	Status int    `json:"status"` // of HTTP
	Reason string `json:"reason"`
}

// The outcomes of a rule.
const (
	NotMet     = "not met"     // a condition fails, or the rule is not active; or no imported limit applies
	Decides    = "decides"     // its result is the answer
	Passes     = "passes"      // within its limit
	Shadow     = "shadow"      // it never decides
	Marks      = "marks"       // beyond its limit, it lets the request pass with its mark
	NotReached = "not reached" // an earlier rule or an imported limit decides
)

// Rule explains one rule.
type Rule struct {
	Return     int64       `json:"return"`         // its number
	Name       string      `json:"name,omitempty"` // "" for a rule without one
	File       string      `json:"file"`
	Line       int         `json:"line"`
	Method     string      `json:"method"`
	Limit      string      `json:"limit"` // in words
	Outcome    string      `json:"outcome"`
	Thresholds []Threshold `json:"thresholds,omitempty"`  // thresholds that depend on the request
	Failed     []Condition `json:"failed,omitempty"`      // the conditions that fail
	Inactive   string      `json:"inactive,omitempty"`    // when the rule is active, if it is not at the time of the request
	CountedFor []Param     `json:"counted_for,omitempty"` // the identity that it counts; none if all requests share one counter
	Cost       int64       `json:"cost"`                  // the weight of a hit; 0 for a rule that is not met
	Result     int         `json:"result"`
	Would      string      `json:"would,omitempty"`    // the verdict of a shadow rule that would decide
	Mark       string      `json:"mark,omitempty"`     // that the request carries because of the rule
	Unshared   string      `json:"unshared,omitempty"` // the word that the rule has or lacks, so that a gateway that decides by itself gets no share of its limit

	// For a rule that is not met: the number of conditions that hold, and
	// how many of them hold for few requests only.
	holding, selecting int
}

// Threshold is a threshold that depends on the request, with its value for this one.
type Threshold struct {
	Word      string `json:"word"`                // time, count, base or burst
	Value     int64  `json:"value"`               // 0 if it is unlimited
	Unlimited bool   `json:"unlimited,omitempty"` // the rule does not match the request
	Given     bool   `json:"given"`               // the table or the parameter has the value; otherwise the value after else applies
	Param     string `json:"param"`               // the name of the parameter
	Key       string `json:"key,omitempty"`       // the value of the parameter; absent without one
	Table     string `json:"table,omitempty"`     // absent for the value of the parameter itself
	Column    string `json:"column,omitempty"`
	Line      int    `json:"line,omitempty"` // of the row in the file of the table; absent without a row
}

// Condition is a condition that fails.
type Condition struct {
	Condition string `json:"condition"`
	Name      string `json:"name"`  // of its parameter
	Value     string `json:"value"` // of its parameter; "" if absent
}

// Decision is the outcome of all rules.
type Decision struct {
	Verdict  string   `json:"verdict"`
	Result   int      `json:"result"`             // -1 if an imported limit decides
	Reason   string   `json:"reason,omitempty"`   // Str_reason of the result
	Decider  int64    `json:"decider,omitempty"`  // the number of the rule that decides
	Name     string   `json:"name,omitempty"`     // of the rule that decides
	Imported string   `json:"imported,omitempty"` // the path of the imported limit that decides
	Marks    []string `json:"marks,omitempty"`    // that the request carries
	Matched  bool     `json:"matched"`            // whether any rule is met, or an imported limit decides
	Status   int      `json:"status,omitempty"`   // the HTTP status of a refusal
	Nearest  *Quota   `json:"nearest,omitempty"`  // of the rules that pass, the one nearest to its limit
}

// Quota is the state of a rule before the request, or after it if Ask counted it.
type Quota struct {
	Return    int64  `json:"return"`
	Name      string `json:"name,omitempty"` // of the rule
	Remaining int64  `json:"remaining"`
	Limit     int64  `json:"limit"`
}

// hide masks the values of parameters.
func (r *Report) hide(names map[string]bool) {
	if len(names) == 0 {
		return
	}
	mask := func(name string, value *string) {
		if names[name] && *value != "" {
			*value = mapping.TokenMark
		}
	}
	params := func(list []Param) {
		for i := range list {
			mask(list[i].Name, &list[i].Value)
		}
	}
	params(r.Params)
	for i := range r.Forward {
		mask(r.Forward[i].Param, &r.Forward[i].Value)
	}
	for i := range r.Rules {
		x := &r.Rules[i]
		params(x.CountedFor)
		for i := range x.Failed {
			mask(x.Failed[i].Name, &x.Failed[i].Value)
		}
		for i := range x.Thresholds {
			mask(x.Thresholds[i].Param, &x.Thresholds[i].Key)
		}
	}
}

// WriteJSON writes the report as an indented JSON document. The error comes from
// w.
func (r *Report) WriteJSON(w io.Writer) error { return display.JSON(w, r) }
