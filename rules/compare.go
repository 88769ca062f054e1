package rules

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Changes are the differences between two rule sets.
type Changes struct {
	Added   []*Rule      // rules whose numbers are new, in the order of the new set
	Removed []*Rule      // rules whose numbers are gone, in the order of the old set
	Changed []RuleChange // rules with another meaning or answer, in the order of the new set
	Results []int        // the numbers of entries of [result] that are new, gone or changed, sorted
	Lists   []ListChange // word lists whose entries changed, sorted by name
	Tables  []string     // tables with other content, sorted
	Tokens  []string     // tokens with other terms or keys in files, sorted
	// Reordered reports that rules of both sets changed their order.
	Reordered bool
	Params    bool // [params] changed
	Routes    bool // [routes] changed
	Forwards  bool // [forward] changed
	Zone      bool // the time zone of calendar days changed
}

// RuleChange is a rule whose number is in both sets.
type RuleChange struct {
	Before, After *Rule
	// Parts are the changed parts of the rule, such as "count 5 → 10".
	Parts []string
}

// ListChange is a word list that has other entries.
type ListChange struct {
	Name           string // in [dicts]
	Added, Removed int    // entries
}

// Empty reports whether there are no changes.
func (c *Changes) Empty() bool {
	return len(c.Added)+len(c.Removed)+len(c.Changed)+len(c.Results)+len(c.Lists)+len(c.Tables)+len(c.Tokens) == 0 && !c.Reordered && !c.Params && !c.Routes && !c.Forwards && !c.Zone
}

// Compare returns the changes from one rule set to another, neither of which may be
// nil. Rules are compared by their numbers. It takes a few microseconds per rule, and
// about 100 ns per entry of each word list that changed.
func Compare(before, now *Set) *Changes { return ComparePausing(before, now, nil) }

// ComparePausing is Compare with pauses between pieces of work, as by Options.Pause. It
// returns nil if it has stopped. For koalagate's own programs, may change.
func ComparePausing(before, now *Set, pause func() bool) *Changes {
	c, p := new(Changes), pauses{pause: pause}
	last := -1
	for i, r := range now.Rules {
		if !p.at(i) {
			return nil
		}
		place, known := before.index.numbers[r.Return]
		if !known {
			c.Added = append(c.Added, r)
			continue
		}
		c.Reordered = c.Reordered || int(place) < last
		last = max(last, int(place))
		if what := changedParts(before.Rules[place], r); len(what) > 0 {
			c.Changed = append(c.Changed, RuleChange{before.Rules[place], r, what})
		}
	}
	for i, r := range before.Rules {
		if !p.at(i) {
			return nil
		}
		if _, known := now.index.numbers[r.Return]; !known {
			c.Removed = append(c.Removed, r)
		}
	}
	c.Results = changedResults(before.Results, now.Results)
	c.Lists = changedLists(before.Dicts, now.Dicts)
	c.Tables = changedTables(before.Tables, now.Tables)
	c.Tokens = changedTokens(before.Tokens, now.Tokens)
	c.Params = !slices.EqualFunc(before.Params, now.Params, sameParam)
	c.Routes = !slices.Equal(before.routeTexts(), now.routeTexts())
	c.Forwards = !slices.EqualFunc(before.Forwards, now.Forwards, sameForward)
	c.Zone = before.Zone.String() != now.Zone.String()
	return c
}

// comparedFields are the fields of Rule that Compare reads as plain values. Conditions,
// Thresholds and Result are compared by their meaning, and the position is none.
var comparedFields = func() (fields []reflect.StructField) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Rule]()) {
		switch f.Name {
		case "Conditions", "Thresholds", "Result", "Return", "Pos":
		default:
			if f.IsExported() && !f.Anonymous {
				fields = append(fields, f)
			}
		}
	}
	return fields
}()

// changedParts returns the parts of a rule that differ.
func changedParts(before, now *Rule) (what []string) {
	if was, is := subject(before), subject(now); was != is {
		what = append(what, fmt.Sprintf("conditions [%s] → [%s]", was, is))
	}
	a, b := reflect.ValueOf(before).Elem(), reflect.ValueOf(now).Elem()
	for i := range comparedFields {
		f := &comparedFields[i]
		if was, is := a.FieldByIndex(f.Index), b.FieldByIndex(f.Index); !sameValue(was, is) {
			what = append(what, fmt.Sprintf("%s %s → %s", strings.ToLower(f.Name), plain(f.Name, was), plain(f.Name, is)))
		}
	}
	if was, is := thresholdTexts(before), thresholdTexts(now); was != is {
		what = append(what, fmt.Sprintf("thresholds [%s] → [%s]", was, is))
	}
	if before.Result.Number != now.Result.Number {
		what = append(what, fmt.Sprintf("result %d → %d", before.Result.Number, now.Result.Number))
	}
	return what
}

// thresholdTexts returns the thresholds of a rule that depend on the request.
func thresholdTexts(r *Rule) string {
	texts := make([]string, len(r.Thresholds))
	for i := range r.Thresholds {
		texts[i] = r.Thresholds[i].String()
	}
	return strings.Join(texts, "; ")
}

func sameValue(a, b reflect.Value) bool {
	if a.Comparable() && b.Comparable() {
		return a.Equal(b)
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// plain returns the text of a field's value.
func plain(field string, v reflect.Value) string {
	if ms, ok := v.Interface().(int64); ok && (field == "Since" || field == "Until") {
		if ms == 0 {
			return "none"
		}
		return time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	if text := fmt.Sprint(v.Interface()); text != "" {
		return text
	}
	return "none"
}

// changedResults returns the numbers of entries that differ.
func changedResults(before, now map[int]*Result) []int {
	var numbers []int
	for number, is := range now {
		if was := before[number]; was == nil || !sameResult(was, is) {
			numbers = append(numbers, number)
		}
	}
	for number := range before {
		if now[number] == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers
}

func sameResult(a, b *Result) bool {
	was, is := *a, *b
	was.Pos, is.Pos = Position{}, Position{}
	return reflect.DeepEqual(was, is)
}

func sameParam(a, b *ParamDecl) bool {
	return a.Name == b.Name && a.GatewayHeader == b.GatewayHeader && slices.EqualFunc(a.Sources, b.Sources, func(a, b ParamSource) bool { return a.String() == b.String() })
}

// sameForward reports whether two lines forward a parameter in the same header, whose case has no meaning.
func sameForward(a, b *Forward) bool {
	return strings.EqualFold(a.Header, b.Header) && a.Param == b.Param
}

// changedLists returns the word lists that have other entries.
func changedLists(before, now map[string]*Dict) []ListChange {
	names := maps.Clone(before)
	if names == nil {
		names = make(map[string]*Dict)
	}
	maps.Copy(names, now)
	var changed []ListChange
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := before[name], now[name]
		switch {
		case was == nil:
			was = new(Dict)
		case is == nil:
			is = new(Dict)
		}
		if was == is || was.hash == is.hash {
			continue
		}
		change := ListChange{Name: name, Added: is.entries.Missing(&was.entries), Removed: was.entries.Missing(&is.entries)}
		if change.Added+change.Removed > 0 {
			changed = append(changed, change)
		}
	}
	return changed
}

// changedTables returns the names of tables that have another content.
func changedTables(before, now map[string]*Table) []string {
	var names []string
	for name, is := range now {
		if was := before[name]; was == nil || was.hash != is.hash {
			names = append(names, name)
		}
	}
	for name := range before {
		if now[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// DerivesOtherwise reports whether a rule set derives other parameters from requests than the one
// before: by [params] and the tables that they read, by [routes], or by [tokens] with other terms
// or keys, or with a token that only the later one uses. For koalagate's own programs, may change.
func DerivesOtherwise(before, now *Set) bool {
	if before == now {
		return false
	}
	used := make(map[string]string)
	for _, t := range before.Tokens {
		if t.isUsed {
			used[t.Name] = t.Terms()
		}
	}
	return !slices.EqualFunc(before.Params, now.Params, sameParam) || !slices.Equal(before.routeTexts(), now.routeTexts()) ||
		len(changedTables(before.Tables, now.Tables)) > 0 ||
		slices.ContainsFunc(now.Tokens, func(t *JWT) bool { return t.isUsed && used[t.Name] != t.Terms() })
}

// changedTokens returns the names of tokens with other terms or other keys in their files.
func changedTokens(before, now []*JWT) []string {
	texts := make(map[string]string, len(before))
	for _, was := range before {
		texts[was.Name] = was.Terms()
	}
	var names []string
	for _, is := range now {
		if was, known := texts[is.Name]; !known || was != is.Terms() {
			names = append(names, is.Name)
		}
		delete(texts, is.Name)
	}
	names = slices.AppendSeq(names, maps.Keys(texts))
	slices.Sort(names)
	return names
}

// Terms returns the terms of a token and the hash of the keys in its file as a text, without the
// claims that are read. For koalagate's own programs, may change.
func (j *JWT) Terms() string {
	return fmt.Sprintf("%d %q %q %q %q %v %s %s %q %x", j.From, j.Keys, j.Issuer, j.Audiences, j.Algorithms, j.Places, j.Leeway, j.Refresh, j.Type, j.keysHash)
}
