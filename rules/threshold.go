package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/koalagate/koalagate/internal/method"
)

// Limits are the thresholds of a counting rule.
type Limits struct {
	Time  int64 // seconds, 1 … 31,622,400
	Count int64 // hits per window (count, leak; base after the free hits), or tokens refilled per Time (token)
	Base  int64 // free hits per day; base only
	Burst int64 // capacity of the bucket; token only, defaults to Count
}

// Unlimited is the value of a threshold that does not limit a request. The rule then
// does not match the request.
const Unlimited = -1

// Threshold is a threshold of a rule that depends on the request.
type Threshold struct {
	Word   string // time, count, base or burst
	Table  string // the name of the table that has the values; "" for the value of Param
	Column string // of the table
	Param  string // the parameter whose value is the key of the row, or the threshold
	Else   int64  // the value for all other requests; may be Unlimited

	least, most int64 // of a number in the table or the parameter
	table       *Table
	cell        int
}

// The words of thresholds that depend on the request.
const (
	tableWord     = "table"
	paramWord     = "param"
	byWord        = "by"
	unlimitedWord = "unlimited"
)

// String returns the threshold in the syntax of rule files.
func (t *Threshold) String() string {
	text := paramWord + " " + t.Param
	if t.Table != "" {
		text = tableWord + " " + t.Table + "." + t.Column + " " + byWord + " " + t.Param
	}
	return text + " " + elseWord + " " + limitName(t.Else)
}

// limitName returns the spelling of a threshold in rule files.
func limitName(n int64) string {
	if n == Unlimited {
		return unlimitedWord
	}
	return strconv.FormatInt(n, 10)
}

// of returns the field of a threshold.
func (l *Limits) of(word string) *int64 {
	switch word {
	case "time":
		return &l.Time
	case "base":
		return &l.Base
	case "burst":
		return &l.Burst
	}
	return &l.Count
}

// isUnlimited reports whether any threshold is unlimited.
func (l *Limits) isUnlimited() bool {
	return l.Time == Unlimited || l.Count == Unlimited || l.Base == Unlimited || l.Burst == Unlimited
}

// value returns the threshold for a value of its parameter, and reports whether the
// table or the parameter has it.
func (t *Threshold) value(v *value) (n int64, given bool) {
	if t.Table == "" {
		if v.isInteger && v.integer >= t.least && v.integer <= t.most {
			return v.integer, true
		}
		return t.Else, false
	}
	if v.text == "" {
		return t.Else, false
	}
	cell, _ := t.table.lookUp(v.text, t.cell)
	if n, given, _ = t.parseCell(cell); given {
		return n, true
	}
	return t.Else, false
}

// parseCell reads a cell of the table. An empty one has no value; ok is false for a
// cell that is not a value of the threshold.
func (t *Threshold) parseCell(cell string) (n int64, given, ok bool) {
	switch cell {
	case "":
		return 0, false, true
	case unlimitedWord:
		return Unlimited, true, true
	}
	n, ok = parseInteger(cell)
	ok = ok && n >= t.least && n <= t.most
	return n, ok, ok
}

// complete completes limits whose thresholds have been resolved: it derives the burst
// of a bucket, and replaces thresholds from parameters whose bucket cannot be counted
// exactly. It reports whether the limits limit the request.
func (r *Rule) complete(l *Limits) bool {
	if !method.Of(r.Method).Refills {
		return !l.isUnlimited()
	}
	if !r.statesBurst {
		l.Burst = l.Count
	}
	if l.isUnlimited() {
		return false
	}
	if r.isExact(l) {
		return true
	}
	if l.Burst > maxExact/(l.Time*1000) && r.statesBurst {
		r.replace(l, "burst")
	} else {
		r.replace(l, "")
	}
	if !l.isUnlimited() && !r.isExact(l) {
		r.replace(l, "")
	}
	return !l.isUnlimited()
}

// replace replaces the thresholds that come from parameters by their Else: the Else of one
// word, or all for "".
func (r *Rule) replace(l *Limits, word string) {
	for i := range r.Thresholds {
		if t := &r.Thresholds[i]; t.Table == "" && (word == "" || word == t.Word) {
			*l.of(t.Word) = t.Else
		}
	}
	if !r.statesBurst {
		l.Burst = l.Count
	}
}

// isExact reports whether a bucket with these limits can be counted exactly: whether
// its burst × time plus count × wait, in token-milliseconds, does not exceed 2^53.
func (r *Rule) isExact(l *Limits) bool {
	perToken := l.Time * 1000
	return l.Burst <= maxExact/perToken && (r.Wait == 0 || l.Count <= (maxExact-l.Burst*perToken)/r.Wait)
}

// Resolved is the value of a Threshold for one request.
type Resolved struct {
	Threshold *Threshold
	Value     int64 // may be Unlimited
	// Given is true if the table or the parameter has the value; otherwise it is
	// the Threshold's Else.
	Given bool
	Key   string // the trimmed value of the parameter; "" if it is absent
	Line  int    // of the row in the table's file; 0 without a row
}

// Resolve returns the thresholds of the rule that depend on the request, with their
// values for a request.
func (r *Rule) Resolve(p *Params) []Resolved {
	l := r.Limits
	list := make([]Resolved, len(r.Thresholds))
	for i := range r.Thresholds {
		t, x := &r.Thresholds[i], &list[i]
		raw, _ := p.Get(t.Param)
		var v value
		v.read(raw, true, false)
		x.Threshold, x.Key = t, v.text
		x.Value, x.Given = t.value(&v)
		if t.Table != "" {
			_, x.Line = t.table.lookUp(v.text, t.cell)
		}
		*l.of(t.Word) = x.Value
	}
	r.complete(&l)
	for i := range list {
		x := &list[i]
		if n := *l.of(x.Threshold.Word); n != x.Value {
			x.Value, x.Given = n, false
		}
	}
	return list
}

// varying is a threshold of a rule and the slot of its parameter.
type varying struct {
	threshold *Threshold
	slot      int
}

// isVarying reports whether the value of a threshold begins as one that depends on the
// request.
func isVarying(text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return first == tableWord || first == paramWord || first == unlimitedWord
}

// The limits of the numbers.
const (
	maxTime   = 31_622_400 // 366 days in seconds
	maxWait   = 60_000     // milliseconds
	maxSettle = 7 * Day    // seconds
	maxCount  = 9_000_000_000_000_000
	maxReturn = 1<<31 - 1 // of the numbers of rules and entries
	maxExact  = 1 << 53   // a double is exact up to this integer
)

// excess returns the message and the hint about a bucket that cannot be counted exactly.
func (r *Rule) excess(l *Limits) (message, hint string) {
	if r.Wait > 0 {
		return fmt.Sprintf("burst × time + count × wait is %d tokens × %d ms + %d tokens × %d ms, which exceeds 2^53", l.Burst, l.Time*1000, l.Count, r.Wait),
			"want a smaller burst, count, time or wait"
	}
	return fmt.Sprintf("burst × time is %d tokens × %d ms, which exceeds 2^53", l.Burst, l.Time*1000),
		fmt.Sprintf("with time=%d want a burst of at most %d", l.Time, maxExact/(l.Time*1000))
}
