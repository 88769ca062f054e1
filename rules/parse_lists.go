package rules

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // a rule set means the same days on every machine
)

// dictDecl is a line of [dicts].
type dictDecl struct {
	name, path span
	used       bool
}

// parseDict reads `name : path`.
func (p *parser) parseDict(s span) {
	name, path, found := s.cut(':')
	switch {
	case !found || path.empty():
		p.reportf(s, errDictName, "want name : path", "the path of the word list is missing")
	case name.empty() || strings.ContainsAny(name.text(), " \t[]{}()<>=!@,;\"'#"):
		p.reportf(name, errDictName, "want a name without blanks and punctuation", "%q is not the name of a word list", name.mention())
	default:
		if first, twice := p.declare("word list", name.text(), name); twice {
			p.reportf(name, errDictTwice, "take one out", "the word list %s is declared at %s already", name.text(), first)
			return
		}
		p.dicts = append(p.dicts, &dictDecl{name: name, path: path})
	}
}

// parseSetting reads `name : value` of [settings].
func (p *parser) parseSetting(s span) {
	name, value, found := s.cut(':')
	switch {
	case !found && s.name().text() == "timezone":
		p.reportf(s.name().end(), errZone, "want timezone : Asia/Shanghai", "a colon is missing behind timezone")
	case name.text() != "timezone":
		p.unknown(name, errSetting, "setting", []string{"timezone"})
	case !found || value.empty():
		p.reportf(s.end(), errZone, "want timezone : Asia/Shanghai", "the time zone is missing")
	default:
		if first, twice := p.declare("setting", name.text(), name); twice {
			p.reportf(name, errSettingTwo, "take one out", "timezone stands at %s already", first)
			return
		}
		p.timezone = value.text()
		if _, err := loadZone(p.timezone); err != nil {
			p.reportf(value, errZone, "want a name as Asia/Shanghai, Europe/Berlin or UTC", "there is no time zone %q", value.mention())
		}
	}
}

var errNamelessZone = errors.New("the zone has no name")

// loadZone is time.LoadLocation without the names that mean something else on
// every machine.
func loadZone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "local") {
		return nil, errNamelessZone
	}
	return time.LoadLocation(name)
}
