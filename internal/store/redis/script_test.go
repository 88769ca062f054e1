package redis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNoNameOfTheScriptHidesAnother reads the joined script: a name that two of its files
// declare would silently hide the other one. A parameter may have the name of an outer
// value, which it then usually is, and so may a local that is assigned from that value.
func TestNoNameOfTheScriptHidesAnother(t *testing.T) {
	for _, fault := range hidden(script()) {
		t.Error(fault)
	}
}

func TestHiddenNamesAreFound(t *testing.T) {
	for text, want := range map[string][]string{
		"local function f() end\nlocal function g(a) local b = a end\nlocal t = {f = function(a) end}": nil,
		"local now = 1\nlocal function f(now, n) if now then local m = n end local m = 2 end":          nil,
		"local now = 1\ndo local now, x = now, 2 end\nfor _, _ in pairs({}) do end":                    nil,
		"local function f() end\nlocal function f() end":                                               {"line 2: f hides the function of line 1"},
		"local f\nf = function() end\nlocal function g(f) end":                                         {"line 3: f hides the function of line 1"},
		"local a = 1\nif a then\n  local a = 2\nend":                                                   {"line 3: a hides the value of line 1"},
		"local a = '-- local b' -- local c\nfor a = 1, 2 do end":                                       {"line 2: a hides the value of line 1"},
		"if x then local y = 1 elseif z then local y = 2 else local y = 3 end\nlocal y":                nil,
	} {
		if got := hidden(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// lexeme matches comments, strings, names with the fields behind them, and single
// characters.
var lexeme = regexp.MustCompile(`--[^\n]*|'(?:\\.|[^'\\])*'|\.?[A-Za-z_]\w*|\n|\S`)

// local is a declared local.
type local struct {
	line     int
	function bool
}

// hidden returns the declarations of locals that hide another one.
func hidden(text string) (faults []string) {
	var tokens []string
	lines := []int{}
	line := 1
	for _, token := range lexeme.FindAllString(text, -1) {
		if token == "\n" {
			line++
		} else if !strings.HasPrefix(token, "--") {
			tokens, lines = append(tokens, token), append(lines, line)
		}
	}
	scopes := []map[string]*local{{}}
	find := func(name string) *local {
		for _, scope := range slices.Backward(scopes) {
			if scope[name] != nil {
				return scope[name]
			}
		}
		return nil
	}
	// declare declares a name; of is the expressions that it is assigned, or its own name.
	declare := func(name string, at int, function bool, of []string) {
		if before := find(name); before != nil && name != "_" && (before.function || !slices.Contains(of, name)) {
			kind := "value"
			if before.function {
				kind = "function"
			}
			faults = append(faults, fmt.Sprintf("line %d: %s hides the %s of line %d", lines[at], name, kind, before.line))
		}
		scopes[len(scopes)-1][name] = &local{lines[at], function}
	}
	push := func() { scopes = append(scopes, map[string]*local{}) }
	pop := func() { scopes = scopes[:len(scopes)-1] }
	var loop []int // the variables of a for whose block begins at the next do
	for i := 0; i < len(tokens); i++ {
		switch tokens[i] {
		case "then", "repeat":
			push()
		case "do":
			push()
			for _, at := range loop {
				declare(tokens[at], at, false, nil)
			}
			loop = nil
		case "else", "elseif":
			pop()
			if tokens[i] == "else" {
				push()
			}
		case "end", "until":
			pop()
		case "for":
			for i++; tokens[i] != "=" && tokens[i] != "in"; i++ {
				if tokens[i] != "," {
					loop = append(loop, i)
				}
			}
		case "function":
			push()
			for i++; tokens[i] != ")"; i++ {
				if name := tokens[i]; name != "(" && name != "," && tokens[i-1] != "function" {
					declare(name, i, false, []string{name})
				}
			}
		case "local":
			if tokens[i+1] == "function" {
				declare(tokens[i+2], i+2, true, nil)
				continue
			}
			names := []int{i + 1}
			for i++; i+1 < len(tokens) && tokens[i+1] == ","; i += 2 {
				names = append(names, i+2)
			}
			var of []string
			if i+1 < len(tokens) && tokens[i+1] == "=" {
				for at := i + 2; at < len(tokens) && lines[at] == lines[i]; at++ {
					of = append(of, tokens[at])
				}
			}
			for _, at := range names {
				declare(tokens[at], at, false, of)
			}
		default: // a function that is assigned to a local
			if i+2 < len(tokens) && tokens[i+1] == "=" && tokens[i+2] == "function" {
				if before := find(tokens[i]); before != nil {
					before.function = true
				}
			}
		}
	}
	return faults
}
