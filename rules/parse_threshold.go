package rules

import (
	"slices"
	"strings"
)

// thresholdDecl is a threshold that depends on the request, with the spans that later
// checks point at.
type thresholdDecl struct {
	index int  // in Rule.Thresholds
	value span // the whole value of the word
	table span // TABLE.COLUMN; without a line for param
	param span
}

// limitWord describes a threshold that may depend on the request.
type limitWord struct {
	name        string
	units       *units
	least, most int64
	// zero is the least value in tables, parameters and after else.
	zero int64
	// varies are the methods whose rules may have it depend on the request.
	varies methods
}

// The thresholds that may depend on the request.
var (
	timeLimit  = limitWord{"time", &spanUnits, 1, maxTime, 1, windowed}
	countLimit = limitWord{"count", &countUnits, 1, maxCount, 0, counting}
	baseLimit  = limitWord{"base", &countUnits, 1, maxCount, 1, counting}
	burstLimit = limitWord{"burst", &countUnits, 1, maxCount, 1, counting}
)

// parse reads the value of a threshold.
func (lw *limitWord) parse(p *parser, d *ruleDecl, w word, used bool) {
	switch {
	case isVarying(w.value.text()):
		p.parseVarying(d, lw, w, used)
	case used:
		*d.of(lw.name) = p.limit(w, lw.units, lw.least, lw.most)
	default:
		p.quantity(w.name.text(), w.value, lw.units, 0, mostInt64)
	}
}

const (
	wantTable = "want table TABLE.COLUMN by PARAM else VALUE"
	wantParam = "want param NAME else VALUE"
)

// parseVarying reads `table T.C by P else V` and `param P else V`.
func (p *parser) parseVarying(d *ruleDecl, lw *limitWord, w word, used bool) {
	t := Threshold{Word: lw.name, least: lw.zero, most: lw.most}
	td := thresholdDecl{index: len(d.Thresholds), value: w.value}
	fields := w.value.fields()
	var at int // of VALUE
	switch fields[0].text() {
	case unlimitedWord:
		p.reportf(w.value, errVarying, "remove the rule if nothing limits it; unlimited is a value in tables and after else", "%s=unlimited limits nothing", lw.name)
		return
	case tableWord:
		if len(fields) < 6 || fields[2].text() != byWord || fields[4].text() != elseWord {
			p.reportVarying(w, fields, wantTable)
			return
		}
		at, td.table, td.param = 5, fields[1], fields[3]
	default:
		if len(fields) < 4 || fields[2].text() != elseWord {
			p.reportVarying(w, fields, wantParam)
			return
		}
		at, td.param = 3, fields[1]
		t.least = lw.least
	}
	ok := p.splitColumn(td.table, &t)
	if !td.param.isName() {
		p.reportf(td.param, errName, wantName, "invalid parameter name %q", td.param.mention())
		ok = false
	}
	t.Param = td.param.text()
	rest := span{w.value.line, fields[at].from, w.value.to}
	if t.Else = Unlimited; rest.text() != unlimitedWord {
		faults := p.found.count[Error]
		t.Else = p.quantity(lw.name, rest, lw.units, lw.zero, lw.most)
		ok = ok && p.found.count[Error] == faults
	}
	switch {
	case !used || !ok:
	case !lw.varies.has(d.Method):
		p.reportf(w.value, errVarying, "want a number of seconds, or use a [count] rule", "%s depends on the request in a %s rule", lw.name, d.Method)
	default:
		*d.of(lw.name) = max(t.Else, 0)
		d.Thresholds, d.varying = append(d.Thresholds, t), append(d.varying, td)
	}
}

// splitColumn sets the table and the column of a threshold to TABLE.COLUMN, or
// to none if there is no such span.
func (p *parser) splitColumn(s span, t *Threshold) bool {
	if s.line == nil {
		return true
	}
	var ok bool
	t.Table, t.Column, ok = cutColumn(s.text())
	if !ok {
		p.reportf(s, errVarying, wantTable, "%q does not name a column of a table", s.mention())
	}
	return ok
}

// cutColumn cuts TABLE.COLUMN at its last dot.
func cutColumn(text string) (table, column string, ok bool) {
	dot := strings.LastIndexByte(text, '.')
	if dot <= 0 || !isColumnName(text[dot+1:]) {
		return "", "", false
	}
	return text[:dot], text[dot+1:], true
}

// reportVarying reports a threshold that lacks a word.
func (p *parser) reportVarying(w word, fields []span, hint string) {
	missing := "else VALUE"
	if !slices.ContainsFunc(fields, func(s span) bool { return s.text() == elseWord }) {
		p.reportf(w.value.end(), errVarying, hint+"; VALUE is a number or unlimited", "%s has no %s", w.name.text(), missing)
		return
	}
	if strings.IndexByte(w.value.text(), '=') >= 0 {
		hint = "put a ; before the next word"
	}
	p.reportf(w.value, errVarying, hint, "invalid value %q for %s", w.value.mention(), w.name.text())
}
