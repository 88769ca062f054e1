package rules

import (
	"fmt"
	"strings"
	"testing"
)

// parseLimits parses a count rule with these thresholds.
func parseLimits(thresholds string) (*Rule, Findings) {
	text := "[rules]\nrule : [count] [uid=+] [" + thresholds + "] [result=2; return=1]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n"
	set, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{Timezone: "UTC"})
	if set == nil {
		return nil, findings
	}
	return set.Rules[0], findings
}

func TestQuantitiesHaveUnits(t *testing.T) {
	for thresholds, want := range map[string][2]int64{
		"time=90; count=5":                {90, 5},
		"time=90s; count=5":               {90, 5},
		"time=5m; count=10k":              {300, 10_000},
		"time=24h; count=5M":              {Day, 5_000_000},
		"time=1_000s; count=10_000":       {1000, 10_000},
		"time=8_784h; count=1_000M":       {maxTime, 1_000_000_000},
		"time = 1h ; count = 1_0_0":       {3600, 100},
		"time=0_1m; count=000_001k":       {60, 1000},
		"time=01; count=9000000000000000": {1, maxCount},
		"time=31622400s; count=999999k":   {maxTime, 999_999_000},
	} {
		r, findings := parseLimits(thresholds)
		if len(findings) > 0 || r.Time != want[0] || r.Count != want[1] {
			t.Errorf("%s: got %+v and %v, want time %d and count %d", thresholds, r, findings, want[0], want[1])
		}
	}
}

// TestInvalidQuantitiesHaveASuggestion checks what is suggested for the value of time
// or count; "" is none.
func TestInvalidQuantitiesHaveASuggestion(t *testing.T) {
	for _, c := range []struct{ name, value, suggestion string }{
		{"time", "1d", "24h"},
		{"time", "1w", "168h"},
		{"time", "1day", "24h"},
		{"time", "90sec", "90s"},
		{"time", "5min", "5m"},
		{"time", "5 m", "5m"},
		{"time", "1h30m", "90m"},
		{"time", "1.5h", "90m"},
		{"time", "90S", "90s"},
		{"time", "5M", "5m"},
		{"time", "0.5s", ""},
		{"time", "500ms", ""},
		{"time", "5k", ""},
		{"time", "2y", ""},
		{"time", "m", ""},
		{"time", "", ""},
		{"time", "9999d", ""},
		{"time", "1_s", "1s"},
		{"time", "3600seconds", "3600s"},
		{"time", "PT5M", ""},
		{"time", "1m30", "90"},
		{"time", "0d", ""},
		{"count", "10K", "10k"},
		{"count", "5m", "5M"},
		{"count", "1.5k", "1500"},
		{"count", "1.50M", "1500k"},
		{"count", "1.500k", ""},
		{"count", "10,000", "10000"},
		{"count", "10'000", "10000"},
		{"count", "1 000 000", "1000000"},
		{"count", "1,000,001", "1000001"},
		{"count", "1,00", ""},
		{"count", "1G", "1000M"},
		{"count", "9000001G", ""},
		{"count", "5s", ""},
		{"count", "1__0", "10"},
		{"count", "_1", "1"},
		{"count", "1_", "1"},
		{"count", "k", ""},
		{"count", "5kk", ""},
		{"count", "5 million", "5M"},
		{"count", "1e6", ""},
		{"count", "10,", ""},
		{"count", "0x10", ""},
		{"count", "1-2", ""},
		{"count", "1_-2", ""},
		{"count", strings.Repeat("9", 40) + "d", ""},
	} {
		other := "time=60"
		if c.name == "time" {
			other = "count=5"
		}
		_, findings := parseLimits(fmt.Sprintf("%s; %s=%s", other, c.name, c.value))
		if len(findings) != 1 || findings[0].Suggestion != c.suggestion {
			t.Errorf("%s=%s: got %v, want one with the suggestion %q", c.name, c.value, findings, c.suggestion)
		}
		if c.value == "" {
			continue
		}
		if findings[0].Code != errNumber.ID {
			t.Errorf("%s=%s: the code is %s", c.name, c.value, findings[0].Code)
		}
		if c.suggestion == "" {
			continue
		}
		if _, findings := parseLimits(fmt.Sprintf("%s; %s=%s", other, c.name, c.suggestion)); len(findings) > 0 && findings[0].Code != warnZone.ID {
			t.Errorf("the suggestion %s=%s is invalid: %v", c.name, c.suggestion, findings)
		}
	}
}

func TestQuantitiesOutOfRange(t *testing.T) {
	for _, thresholds := range []string{
		"time=8785h; count=5", "time=0s; count=5", "time=0h; count=5", "time=60; count=9000000001M", "time=60; count=0k",
		"time=60; count=9223372036854775807M", "time=9223372036854775807s; count=5", "time=60; count=-5k",
		"time=60; count=99999999999999999999k", "time=2562047788015216h; count=5",
	} {
		if _, findings := parseLimits(thresholds); len(findings) != 1 || findings[0].Code != errRange.ID {
			t.Errorf("%s: got %v, want %s", thresholds, findings, errRange.ID)
		}
	}
}

// TestNumbersWithoutUnits checks the numbers that identify rules and entries.
func TestNumbersWithoutUnits(t *testing.T) {
	for _, outcome := range []string{"result=2; return=1k", "result=2; return=1_0", "result=0_2; return=1"} {
		text := "[rules]\nrule : [direct] [uid=1] [] [" + outcome + "]\n[result]\n0 : {}\n1 : {}\n2 : {\"Err_no\":1}\n"
		if _, findings := Parse([]Source{{"rules.conf", []byte(text)}}, Options{}); len(findings) != 1 || findings[0].Code != errNumber.ID {
			t.Errorf("%s: got %v, want %s", outcome, findings, errNumber.ID)
		}
	}
}
