package adminapi

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// RuleRef is how a request refers to a rule: by its number or its name, as JSON 201, "201" or
// "comments"; "" is no rule.
type RuleRef string

// RefTo returns the reference to the rule with a number; 0 is no rule.
func RefTo(number int64) RuleRef {
	if number == 0 {
		return ""
	}
	return RuleRef(strconv.FormatInt(number, 10))
}

// Number returns the number of the rule, 0 for no rule, and reports whether the reference has it: a
// name has none.
func (r RuleRef) Number() (number int64, known bool) {
	if r == "" {
		return 0, true
	}
	number, err := strconv.ParseInt(string(r), 10, 64)
	return number, err == nil
}

// MarshalJSON returns a number, or a name as a text.
func (r RuleRef) MarshalJSON() ([]byte, error) {
	if number, known := r.Number(); known {
		return strconv.AppendInt(nil, number, 10), nil
	}
	return json.Marshal(string(r))
}

// UnmarshalJSON reads a number or a text.
func (r *RuleRef) UnmarshalJSON(text []byte) error {
	if string(text) == "null" { // changes nothing
		return nil
	}
	if number, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*r = RefTo(number)
		return nil
	}
	var name string
	if json.Unmarshal(text, &name) != nil {
		return fmt.Errorf("a rule is %.40s; want its number or its name", text)
	}
	*r = RuleRef(name)
	return nil
}

// numberOf returns the number of the rule that a reference is to, 0 for none. A number may be one of
// an earlier rule.
func (s *server) numberOf(r RuleRef) (int64, error) {
	if number, known := r.Number(); known {
		return number, nil
	}
	row, err := s.Desk.Rule(string(r))
	if err != nil {
		return 0, err
	}
	return row.Rule, nil
}
