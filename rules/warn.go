package rules

import "strconv"

// warn looks for what a set without errors says in vain, or perhaps does not
// mean.
func (p *parser) warn(set *Set) {
	for _, d := range p.dicts {
		if !d.used {
			p.reportf(d.name, warnDictUnused, "take it out", "no rule uses the word list %s", d.name.text())
		}
	}
}

func quote(text string) string { return strconv.Quote(text) }
