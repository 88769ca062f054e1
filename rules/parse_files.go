package rules

import (
	"errors"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/koalagate/koalagate/internal/vocabulary"
)

// dictDecl is a line of [dicts].
type dictDecl struct {
	name, path span
	used       bool
}

// parseDict reads `name : path`.
func (p *parser) parseDict(s span) {
	if name, path, ok := p.parseFile(s, "word list", errDictName, errDictTwice); ok {
		p.dicts = append(p.dicts, &dictDecl{name: name, path: path})
	}
}

// parseTable reads `name : path`.
func (p *parser) parseTable(s span) {
	if name, path, ok := p.parseFile(s, "table", errTableName, errTableTwice); ok {
		p.tables = append(p.tables, &tableDecl{name: name, path: path})
	}
}

// parseFile reads the name and the path of a file. It reports an invalid line with the
// code invalid, and a repeated name with the code repeated.
func (p *parser) parseFile(s span, kind string, invalid, repeated *vocabulary.Code) (name, path span, ok bool) {
	name, path, found := s.cut(':')
	switch {
	case !found || path.empty():
		p.reportf(s, invalid, "want name : path", "the path of the %s is missing", kind)
	case name.empty() || strings.ContainsAny(name.text(), " \t[]{}()<>=!@,;\"'#"):
		p.reportf(name, invalid, "want a name without blanks or punctuation", "invalid %s name %q", kind, name.mention())
	default:
		first, isRepeated := p.declare(kind, name.text(), name)
		if isRepeated {
			p.reportf(name, repeated, "remove one of them", "the %s %s is already declared at %s", kind, name.text(), first)
		}
		return name, path, !isRepeated
	}
	return name, path, false
}

// parseSetting reads `name : value` of [settings].
func (p *parser) parseSetting(s span) {
	name, value, found := s.cut(':')
	switch {
	case !found && s.name().text() == "timezone":
		p.reportf(s.name().end(), errZone, "want timezone : Asia/Shanghai", "missing colon after timezone")
	case name.text() != "timezone":
		p.unknown(name, errSetting, "setting", []string{"timezone"})
	case !found || value.empty():
		p.reportf(s.end(), errZone, "want timezone : Asia/Shanghai", "missing time zone")
	default:
		if first, repeated := p.declare("setting", name.text(), name); repeated {
			p.reportf(name, errSettingTwice, "remove one of them", "timezone is already set at %s", first)
			return
		}
		p.timezone = value.text()
		if _, err := loadZone(p.timezone); err != nil {
			p.reportf(value, errZone, "want an IANA name such as Asia/Shanghai, Europe/Berlin or UTC", "unknown time zone %q", value.mention())
		}
	}
}

var errNamelessZone = errors.New("the zone has no name")

// loadZone is time.LoadLocation without "" and "local", whose meaning depends on
// the machine.
func loadZone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "local") {
		return nil, errNamelessZone
	}
	return time.LoadLocation(name)
}

// tableDecl is a line of [tables].
type tableDecl struct {
	name, path span
	used       bool
}
