package ratelimit_test

import (
	"slices"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/koalagate/koalagate/internal/envoylimits"
	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/rules"
)

// TestImportedRulesDecideAsRecorded compares the rules that limits are printed as with the
// recorded answers. Requests that the head of such a file excludes are left out, and so
// are calls about limits that were not converted, and those that follow on the other
// limits of such a call.
func TestImportedRulesDecideAsRecorded(t *testing.T) {
	compared := 0
	for _, r := range recordings(t) {
		if len(r.Environment) > 0 && r.Environment["MERGE_DOMAIN_CONFIG"] == "" {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			set := r.compile(t)
			text, problems := set.Rules()
			parsed, findings := rules.Parse([]rules.Source{{Name: "imported.conf", Text: []byte(text)}}, rules.Options{AllowEmpty: true})
			if findings.HasErrors() {
				t.Fatalf("%v in\n%s", findings, text)
			}
			if got := len(parsed.Rules) + len(problems); got != len(set.Limits()) {
				t.Errorf("%d rules and problems; want %d, one for each limit", got, len(set.Limits()))
			}
			if len(parsed.Rules) == 0 {
				return
			}
			d := open(t, text, nil)
			left := &leftOut{set: set, paths: make(map[string]bool)}
			for _, problem := range problems {
				path, _, _ := strings.Cut(problem, ": ")
				left.paths[path] = true
			}
			for i, call := range r.Calls {
				in, want := new(rlsv3.RateLimitRequest), wanted(t, call.Answer)
				if err := protojson.Unmarshal(call.Request, in); err != nil || want == nil {
					continue
				}
				if left.concerns(in) || !expressible(in, text) || isReordered(set, in) {
					continue
				}
				got, err := d.ShouldRateLimit(t.Context(), in)
				if err != nil || got.GetOverallCode() != want.GetOverallCode() {
					t.Errorf("call %d, %s: %v, %v; want %v, by\n%s", i, call.Request, got.GetOverallCode(), err, want.GetOverallCode(), text)
					return
				}
				compared++
			}
		})
	}
	if compared < 80 {
		t.Errorf("%d calls were compared; want at least 80", compared)
	}
	t.Logf("%d calls", compared)
}

// leftOut are limits, by their paths, whose calls are not compared.
type leftOut struct {
	set   *envoylimits.Set
	paths map[string]bool
}

// concerns reports whether a call has such a limit. The other limits of the call are then
// left out from now on: the rules do not count the call.
func (l *leftOut) concerns(in *rlsv3.RateLimitRequest) (concerned bool) {
	var paths []string
	for _, d := range in.GetDescriptors() {
		var m envoylimits.Match
		var entries []mapping.Entry
		for _, e := range d.GetEntries() {
			entries = append(entries, mapping.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		if l.set.Match(in.GetDomain(), entries, &m); m.Limit != nil {
			paths = append(paths, m.Limit.Path)
			concerned = concerned || l.paths[m.Limit.Path]
		}
	}
	for _, path := range paths {
		if concerned {
			l.paths[path] = true
		}
	}
	return concerned
}

// expressible reports whether the head of an imported rule file does not exclude a
// request.
func expressible(in *rlsv3.RateLimitRequest, text string) bool {
	for _, d := range in.GetDescriptors() {
		keys := map[string]bool{}
		if d.GetLimit() != nil || d.GetHitsAddend() != nil && d.GetHitsAddend().GetValue() == 0 {
			return false
		}
		for _, e := range d.GetEntries() {
			if e.GetValue() == "" || keys[e.GetKey()] || !strings.Contains(text, e.GetKey()+"=") && !strings.Contains(text, e.GetKey()+"!=") {
				return false
			}
			keys[e.GetKey()] = true
		}
	}
	return true
}

// isReordered reports whether a descriptor has the keys of a limit in the reverse order.
func isReordered(set *envoylimits.Set, in *rlsv3.RateLimitRequest) bool {
	var m envoylimits.Match
	for _, d := range in.GetDescriptors() {
		var entries []mapping.Entry
		for _, e := range d.GetEntries() {
			entries = append(entries, mapping.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		if set.Match(in.GetDomain(), entries, &m); m.Limit != nil {
			continue
		}
		slices.Reverse(entries)
		if set.Match(in.GetDomain(), entries, &m); m.Limit != nil {
			return true
		}
	}
	return false
}
