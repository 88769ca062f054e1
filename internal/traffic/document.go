package traffic

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
)

// maxRows is the number of rules with numbers of their own in a document and in an
// answer. The others are counted together as rule 0.
const maxRows = 200

// maxName is the maximum length of the name of a rule, or of the path of an imported limit,
// in bytes.
const maxName = 500

// document is the traffic of one minute at one instance, as the instances exchange it.
type document struct {
	Verdicts []int64 `json:"v"` // in the order of Verdicts.fields
	Rules    []row   `json:"r"`
}

type row struct {
	Number int64   `json:"n"`
	Name   string  `json:"l,omitempty"`
	Counts []int64 `json:"c"` // in the order of Counts.fields
}

// encode returns the document of the traffic of a minute.
func encode(t *Totals) []byte {
	d := document{Verdicts: values(t.Verdicts.fields())}
	for _, r := range busiest(t.Rules) {
		c := t.Rules[r]
		d.Rules = append(d.Rules, row{r.Number, r.Name, values(c.fields())})
	}
	if left := rest(t.Rules); left != (Counts{}) {
		d.Rules = append(d.Rules, row{0, "", values(left.fields())})
	}
	text, _ := json.Marshal(d) // numbers and strings can always be encoded
	return text
}

// decode reads a document, which may hold anything.
func decode(text string) (Totals, error) {
	t := Totals{Rules: make(map[Rule]Counts)}
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return t, err
	}
	if !take(t.Verdicts.fields(), d.Verdicts) || len(d.Rules) > maxRows+1 {
		return t, errors.New("the document has an unknown form")
	}
	for _, r := range d.Rules {
		var c Counts
		if len(r.Name) > maxName || r.Number < 0 || !take(c.fields(), r.Counts) {
			return t, errors.New("a rule in the document has an unknown form")
		}
		t.Add(Rule{r.Number, r.Name}, c)
	}
	return t, nil
}

func values(fields []*int64) []int64 {
	list := make([]int64, len(fields))
	for i, f := range fields {
		list[i] = *f
	}
	return list
}

// take sets fields to numbers, and reports whether they are as many and none is negative.
func take(fields []*int64, numbers []int64) bool {
	if len(numbers) != len(fields) {
		return false
	}
	for i, n := range numbers {
		if n < 0 {
			return false
		}
		*fields[i] = n
	}
	return true
}

// busiest returns the rules with the most calls, in order of their numbers.
func busiest(rules map[Rule]Counts) []Rule {
	list := make([]Rule, 0, len(rules))
	for r := range rules {
		if r != (Rule{}) {
			list = append(list, r)
		}
	}
	calls := func(r Rule) int64 { c := rules[r]; return max(c.Admitted, c.Refused, c.Shadow) }
	slices.SortFunc(list, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(calls(b), calls(a)), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	})
	list = list[:min(len(list), maxRows)]
	slices.SortFunc(list, func(a, b Rule) int { return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name)) })
	return list
}

// rest returns the counts of the rules that busiest leaves out.
func rest(rules map[Rule]Counts) Counts {
	shown := make(map[Rule]bool)
	for _, r := range busiest(rules) {
		shown[r] = true
	}
	var left Counts
	for r, c := range rules {
		if !shown[r] {
			sum(left.fields(), c.fields())
		}
	}
	return left
}
