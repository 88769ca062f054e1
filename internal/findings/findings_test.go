package findings_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/rules"
)

var list = rules.Findings{
	{
		Code: "E012", Severity: rules.Error, Position: rules.Position{File: "odd,name.conf", Line: 2, Column: 9},
		Message: `unknown method "100%"`, Hint: "want count", Suggestion: "count", Line: "rule : [100%]",
	},
	{Code: "W020", Severity: rules.Warning, Message: "no position"},
}

func TestWrite(t *testing.T) {
	for format, want := range map[string]string{
		findings.GitHub: "::error file=odd%2Cname.conf,line=2,col=9,title=E012::unknown method \"100%25\"; want count (did you mean \"count\"?)\n" +
			"::warning title=W020::no position\n",
		findings.JSON: `{
  "errors": 1,
  "warnings": 1,
  "findings": [
    {
      "code": "E012",
      "severity": "error",
      "file": "odd,name.conf",
      "line": 2,
      "column": 9,
      "message": "unknown method \"100%\"",
      "hint": "want count",
      "suggestion": "count",
      "source": "rule : [100%]"
    },
    {
      "code": "W020",
      "severity": "warning",
      "file": "",
      "line": 0,
      "column": 0,
      "message": "no position",
      "source": ""
    }
  ]
}
`,
		findings.Text: list[0].Text() + "\n" + list[1].Text() + "\n",
	} {
		var b strings.Builder
		if err := findings.Write(&b, format, nil, list); err != nil || b.String() != want {
			t.Errorf("%s: %v\n got %s\nwant %s", format, err, &b, want)
		}
	}
}

func TestWriteWithoutFindings(t *testing.T) {
	for format, want := range map[string]string{
		findings.GitHub: "",
		findings.JSON:   "{\n  \"errors\": 0,\n  \"warnings\": 0,\n  \"findings\": []\n}\n",
		findings.Text:   "",
	} {
		var b strings.Builder
		if err := findings.Write(&b, format, nil, nil); err != nil || b.String() != want {
			t.Errorf("%s: %v, got %q, want %q", format, err, &b, want)
		}
	}
}

func TestWriteRejectsUnknownFormats(t *testing.T) {
	if err := findings.Write(nil, "yaml", nil, list); err == nil || err.Error() != `unknown format "yaml"; want text, json, github` {
		t.Error(err)
	}
}

func TestWriteDescribesAValidSet(t *testing.T) {
	set := &rules.Set{Sources: make([]rules.Source, 2), Rules: make([]*rules.Rule, 1), Hash: "c0ffee"}
	for format, want := range map[string]string{
		findings.GitHub: "::warning title=W020::no position\n",
		findings.JSON: `{
  "errors": 0,
  "warnings": 1,
  "findings": [
    {
      "code": "W020",
      "severity": "warning",
      "file": "",
      "line": 0,
      "column": 0,
      "message": "no position",
      "source": ""
    }
  ],
  "files": 2,
  "rules": 1,
  "hash": "c0ffee"
}
`,
		findings.Text: list[1].Text() + "\n2 files, 1 rule, 1 warning, hash c0ffee\n",
	} {
		var b strings.Builder
		if err := findings.Write(&b, format, set, list[1:]); err != nil || b.String() != want {
			t.Errorf("%s: %v\n got %s\nwant %s", format, err, &b, want)
		}
	}
}
