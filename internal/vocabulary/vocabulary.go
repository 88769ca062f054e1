// Package vocabulary has the words of the rule language and the codes of its findings, for
// editors and pages. Package rules defines both when a program starts; nothing changes them
// later, so that they are safe for concurrent use.
package vocabulary

// Code is a kind of finding. IDs are stable, so that documents and scripts can
// refer to them. Errors have IDs that begin with E, warnings with W.
type Code struct {
	ID      string
	Meaning string // one line
}

// codes has every code in the order of the definitions.
var codes []*Code

// Define adds a kind of finding. Only variables of package rules call it.
func Define(id, meaning string) *Code {
	c := &Code{id, meaning}
	codes = append(codes, c)
	return c
}

// Codes returns every kind of finding, errors before warnings.
func Codes() []Code {
	list := make([]Code, len(codes))
	for i, c := range codes {
		list[i] = *c
	}
	return list
}

// Words are the words of the language.
type Words struct {
	Sections   []string // without brackets
	Methods    []string
	Thresholds []Word   // of the third bracket of a rule
	Outcomes   []Word   // of the fourth bracket
	Policies   []string // the values of fail=
	Sources    []string // the kinds of the sources in [params]
	Modifiers  []string // the words after a source in [params]
	Derived    []string // parameters that doors derive from every request
	Tokens     Tokens
}

// Tokens are the words of [tokens], and of conditions on its outcomes.
type Tokens struct {
	Words      []string // before = in a line
	Places     []string // the values of from=
	Algorithms []string // the values of algorithms=
	Outcomes   []string // the values of jwt.NAME
}

// Word is a word of a rule's third or fourth bracket.
type Word struct {
	Name     string
	Methods  []string // the methods that use the word; none for all
	Required bool     // every rule with one of the methods has the word
}

var language func() Words

// Publish sets what Language returns. Only the start of package rules calls it.
func Publish(words func() Words) { language = words }

// Language returns the words of the language; none in a program without package rules. The
// caller may change them.
func Language() Words {
	if language == nil {
		return Words{}
	}
	return language()
}
