package rules

import "slices"

// Vocabulary are the words of the language, for editors.
type Vocabulary struct {
	Sections   []string // without brackets
	Methods    []string
	Thresholds []Word   // of the third bracket of a rule
	Outcomes   []Word   // of the fourth bracket
	Policies   []string // the values of fail=
	Sources    []string // the kinds of the sources in [params]
	Derived    []string // parameters that doors derive from every request
}

// Word is a word of a rule's third or fourth bracket.
type Word struct {
	Name     string
	Methods  []string // the methods that use the word; none for all
	Required bool     // every rule with one of the methods has the word
}

// Words returns the words of the language.
func Words() Vocabulary {
	return Vocabulary{
		Sections: slices.Clone(sectionNames[dictsSection:]), Methods: slices.Clone(methodNames),
		Thresholds: wordsOf(thresholds), Outcomes: wordsOf(outcomes), Policies: slices.Clone(failWords),
		Sources: sourceNames(), Derived: slices.Clone(derivedNames),
	}
}

func wordsOf(list []ruleWord) []Word {
	words := make([]Word, len(list))
	for i := range list {
		words[i] = Word{Name: list[i].name, Required: list[i].missing.code != nil}
		for m, name := range methodNames {
			if list[i].methods.has(Method(m)) {
				words[i].Methods = append(words[i].Methods, name)
			}
		}
	}
	return words
}
