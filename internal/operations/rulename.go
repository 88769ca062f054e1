package operations

import (
	"fmt"
	"strconv"

	"github.com/koalagate/koalagate/internal/spelling"
	"github.com/koalagate/koalagate/rules"
)

// maxRuleText is the maximum length of the text that names a rule, in bytes.
const maxRuleText = 100

// Rule returns the rule in force with a number or, if the text is no number, a name. The error is
// an InputError.
func (d *Desk) Rule(text string) (*BookRule, error) {
	set := d.inForce()
	if set == nil {
		return nil, errNoRules
	}
	r, err := ruleOf(set, text)
	if err != nil {
		return nil, err
	}
	row := bookRule(r, d.engine.Now())
	return &row, nil
}

// ruleOf returns the rule of a set that a text names.
func ruleOf(set *rules.Set, text string) (*rules.Rule, error) {
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		if r := set.Rule(number); r != nil {
			return r, nil
		}
		return nil, noRule(number)
	}
	var names []string
	for _, r := range set.Rules {
		switch r.Name {
		case "":
		case text:
			return r, nil
		default:
			names = append(names, r.Name)
		}
	}
	if len(text) > maxRuleText {
		return nil, invalid("the name of a rule has %d bytes; want at most %d", len(text), maxRuleText)
	}
	near := ""
	if name := spelling.Suggest(text, names); name != "" {
		near = fmt.Sprintf("; did you mean %s?", name)
	}
	return nil, invalid("there is no rule with the name %q%s; want a name after name= or a number after return= in the rule files", text, near)
}

func noRule(number int64) error {
	return invalid("there is no rule %d; want a number after return= or a name after name= in the rule files", number)
}
