package store

import (
	"strings"
	"testing"
)

func TestNewReceiptsAreValidAndDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		r := NewReceipt(KeptInProcess)
		if !ValidReceipt(r) || r[0] != KeptInProcess || seen[r] {
			t.Fatalf("the receipt %q is malformed or was issued before", r)
		}
		seen[r] = true
	}
}

func TestValidReceipt(t *testing.T) {
	r := NewReceipt(KeptInRedis)
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"issued", r, true},
		{"with more behind it", r + "AbZ-_09", true},
		{"of the largest length", r + strings.Repeat("x", MaxReceipt-len(r)), true},
		{"too long", r + strings.Repeat("x", MaxReceipt-len(r)+1), false},
		{"cut", r[:len(r)-1], false},
		{"empty", "", false},
		{"of another store", "x" + r[1:], false},
		{"with a blank", r + " ", false},
		{"with a newline", r + "\n", false},
		{"with a sign of another alphabet", r + "+", false},
		{"with a brace, which selects a slot", r + "{a}", false},
		{"with a letter beyond ASCII", r + "é", false},
	} {
		if got := ValidReceipt(c.text); got != c.want {
			t.Errorf("a receipt %s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestPart holds the rules that have a part in a receipt.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		name string
		rule Rule
		want Part
	}{
		{"plain", Rule{Method: Count, Weight: 1}, NoPart},
		{"an estimate", Rule{Method: Count, Weight: 5, Settle: 60}, Estimate},
		{"an estimate of 0", Rule{Method: Token, Settle: 60}, Estimate},
		{"a hold", Rule{Method: Hold, Time: 60, Weight: 1}, Held},
		{"a hold of nothing", Rule{Method: Hold, Time: 60}, NoPart},
		{"an outcome", Rule{Method: Leak, Weight: 1, Settle: 600, Outcome: true}, Charge},
		{"an outcome of nothing", Rule{Method: Leak, Settle: 600, Outcome: true}, NoPart},
	} {
		if got := c.rule.Part(); got != c.want {
			t.Errorf("%s: part %d, want %d", c.name, got, c.want)
		}
	}
}

// TestRulesWithReceiptsAreChecked holds what Validate refuses of rules with receipts.
func TestRulesWithReceiptsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name, fault string
		rule        Rule
	}{
		{"settle", "", Rule{Method: Count, Time: 1, Count: 1, Settle: maxSettle}},
		{"settle for too long", "settle is out of range", Rule{Method: Count, Time: 1, Count: 1, Settle: maxSettle + 1}},
		{"settle for less than nothing", "settle is out of range", Rule{Method: Count, Time: 1, Count: 1, Settle: -1}},
		{"settle of base", "settle is out of range", Rule{Method: Base, Time: 1, Count: 1, Base: 1, Settle: 1}},
		{"settle of hold", "settle is out of range", Rule{Method: Hold, Time: 1, Count: 1, Settle: 1}},
		{"settle with wait", "", Rule{Method: Token, Time: 1, Count: 1, Burst: 1, Settle: 1, Wait: 5}},
		{"outcome", "", Rule{Method: Leak, Time: 1, Count: 1, Settle: 1, Outcome: true, Overdraft: true, Ban: 1}},
		{"outcome without settle", "an outcome rule has no settle", Rule{Method: Count, Time: 1, Count: 1, Outcome: true}},
		{"outcome with wait", "an outcome rule has no settle, or a wait", Rule{Method: Token, Time: 1, Count: 1, Burst: 1, Settle: 1, Outcome: true, Wait: 5}},
		{"hold", "", Rule{Method: Hold, Time: 1, Count: 0}},
		{"hold for nothing", "time is out of range", Rule{Method: Hold, Count: 1}},
		{"hold with overdraft", "no overdraft", Rule{Method: Hold, Time: 1, Count: 1, Overdraft: true}},
		{"hold with ban", "ban is out of range", Rule{Method: Hold, Time: 1, Count: 1, Ban: 1}},
		{"hold with wait", "wait is out of range", Rule{Method: Hold, Time: 1, Count: 1, Wait: 1}},
		{"hold of a calendar unit", "unit is unknown", Rule{Method: Hold, Time: 1, Count: 1, Unit: Hour}},
	} {
		p := Plan{Op: Take, Sets: []Set{{Rules: []Rule{c.rule}}}}
		err := p.Validate()
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}
