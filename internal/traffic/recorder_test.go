package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

// instance is a recorder with a clock and counts that a test sets.
type instance struct {
	*Recorder
	now    time.Time
	totals Totals
}

// start is the clock of the tests at first: in the middle of a minute.
var start = time.Date(2026, 11, 23, 3, 12, 30, 0, time.UTC)

func newInstance(shared *minutes.Records) *instance {
	i := &instance{now: start, totals: Totals{Rules: make(map[Rule]Counts)}}
	i.Recorder = New(Options{
		Totals: func() Totals { return Totals{i.totals.Verdicts, maps.Clone(i.totals.Rules)} },
		Shared: shared, Now: func() time.Time { return i.now }, Logger: slog.New(slog.DiscardHandler),
	})
	i.sample()
	return i
}

// decide adds decisions by a rule after a time, and samples them.
func (i *instance) decide(after time.Duration, r Rule, admitted, refused int64) {
	i.now = i.now.Add(after)
	i.totals.Verdicts.Allowed += admitted
	i.totals.Verdicts.Refused += refused
	c := i.totals.Rules[r]
	c.Admitted += admitted
	c.Refused += refused
	i.totals.Rules[r] = c
	i.sample()
}

var posts, logins = Rule{201, "posts"}, Rule{202, ""}

// Each decision is in the minute in which it was made, and leaves the hour after 60
// minutes.
func TestHourByMinute(t *testing.T) {
	i := newInstance(nil)
	i.decide(0, posts, 5, 1)
	i.decide(29*time.Second, posts, 2, 0)
	i.decide(time.Second, logins, 0, 7) // the next minute begins
	i.decide(time.Minute, posts, 1, 0)
	h := i.Hour(t.Context())
	if h.Scope != ScopeInstance || h.Instances != 1 || !h.At.Equal(time.Date(2026, 11, 23, 2, 15, 0, 0, time.UTC)) {
		t.Errorf("%s of %d instances from %s", h.Scope, h.Instances, h.At)
	}
	if got := h.Allowed[57:]; len(h.Allowed) != 60 || !slices.Equal(got, []int64{7, 0, 1}) {
		t.Errorf("allowed: %v", h.Allowed)
	}
	if !slices.Equal(h.Refused[57:], []int64{1, 7, 0}) {
		t.Errorf("refused: %v", h.Refused)
	}
	if len(h.Rules) != 2 || h.Rules[0].Rule != 201 || h.Rules[0].Name != "posts" || !slices.Equal(h.Rules[0].Admitted[57:], []int64{7, 0, 1}) ||
		h.Rules[1].Rule != 202 || !slices.Equal(h.Rules[1].Refused[57:], []int64{0, 7, 0}) {
		t.Errorf("rules: %+v", h.Rules)
	}
	i.now = i.now.Add(58 * time.Minute) // without a sample in between
	if h := i.Hour(t.Context()); !slices.Equal(h.Allowed[:2], []int64{0, 1}) || slices.Max(h.Allowed[2:]) != 0 || len(h.Rules) != 2 {
		t.Errorf("58 minutes later: %v %+v", h.Allowed, h.Rules)
	}
	i.now = i.now.Add(2 * time.Minute)
	if h := i.Hour(t.Context()); slices.Max(h.Allowed) != 0 || len(h.Rules) != 0 {
		t.Errorf("an hour later: %v %+v", h.Allowed, h.Rules)
	}
}

// A rule that leaves the rules and returns counts from 0 again.
func TestCountsThatBeginAgain(t *testing.T) {
	i := newInstance(nil)
	i.decide(0, posts, 5, 0)
	i.totals.Rules[posts] = Counts{}
	i.decide(0, posts, 2, 0)
	if h := i.Hour(t.Context()); h.Rules[0].Admitted[59] != 7 {
		t.Errorf("%v", h.Rules[0].Admitted)
	}
}

// Of many rules the busiest are shown, and the others together as rule 0.
func TestManyRules(t *testing.T) {
	i := newInstance(nil)
	for n := range int64(maxRows + 50) {
		i.totals.Rules[Rule{Number: n + 1}] = Counts{Admitted: n + 1}
	}
	i.sample()
	for name, h := range map[string]*Hour{"own": i.Own(), "exchanged": exchanged(t, i.hour[minutes.Of(i.now)%minutes.Kept])} {
		last := h.Rules[len(h.Rules)-1]
		if len(h.Rules) != maxRows+1 || last.Rule != 0 || last.Admitted[59] != 50*51/2 || h.Rules[0].Rule != 51 {
			t.Errorf("%s: %d rules from %d, last %d with %d", name, len(h.Rules), h.Rules[0].Rule, last.Rule, last.Admitted[59])
		}
	}
}

// Imported limits have names alone, of which the first bytes count.
func TestImportedLimitsHaveRowsOfTheirOwn(t *testing.T) {
	i := newInstance(nil)
	long := strings.Repeat("é", maxName)
	for _, name := range []string{"d.a", "d.b", long + "1", long + "2", ""} {
		i.totals.Add(Rule{Name: name}, Counts{Refused: 3})
	}
	i.sample()
	for name, h := range map[string]*Hour{"own": i.Own(), "exchanged": exchanged(t, i.hour[minutes.Of(i.now)%minutes.Kept])} {
		var got []string
		for _, r := range h.Rules {
			got = append(got, fmt.Sprint(len(r.Name), " ", r.Refused[59]))
		}
		if want := []string{"3 3", "3 3", fmt.Sprint(maxName, " 6"), "0 3"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", name, got, want)
		}
	}
}

// exchanged returns the hour of an instance that knows of a minute by its document.
func exchanged(t *testing.T, m *current) *Hour {
	t.Helper()
	got, err := decode(string(encode(&m.Totals)))
	if err != nil {
		t.Fatal(err)
	}
	return newInstance(nil).assemble(ScopeFleet, &sharedHour{minutes: map[int64]*Totals{m.minute: &got}})
}

// With Redis the hour is that of all instances: each minute counts once, however often it
// was written, and stays after its instance has ended.
func TestInstancesShareTheHour(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	one, two := newInstance(minutes.New(client, "koala")), newInstance(minutes.New(client, "koala"))
	one.decide(0, posts, 5, 1)
	two.decide(0, posts, 10, 0)
	two.decide(0, logins, 0, 3)
	for range 3 {
		two.share(t.Context(), minutes.Of(two.now))
	}
	for _, foreign := range []string{"", "{}", "[]", `{"v":[1,1,1,1,-1]}`, `{"v":[1,1,1,1,1],"r":[{"n":1,"c":[1]}]}`} {
		key := fmt.Sprintf("koala:{minutes}:traffic:%d", minutes.Of(one.now))
		if err := client.HSet(t.Context(), key, "foreign"+foreign, foreign).Err(); err != nil {
			t.Fatal(err)
		}
	}
	h := one.Hour(t.Context())
	if h.Scope != ScopeFleet || h.Instances != 2 || h.Allowed[59] != 15 || h.Refused[59] != 4 || len(h.Rules) != 2 || h.Rules[0].Admitted[59] != 15 {
		t.Errorf("%+v", h)
	}
	if own := one.Own(); own.Scope != ScopeInstance || own.Allowed[59] != 5 {
		t.Errorf("%+v", own)
	}
	server.CheckExpiries(t, "koala")
	// What was read stays for two seconds: a page that asks often does not load Redis.
	server.Kill()
	if h := one.Hour(t.Context()); h.Scope != ScopeFleet {
		t.Errorf("read again within two seconds: %s", h.Scope)
	}
	one.now = one.now.Add(sharedAge)
	if h := one.Hour(t.Context()); h.Scope != ScopeInstance || h.Allowed[59] != 5 {
		t.Errorf("without Redis: %+v", h)
	}
}

// An instance that ends writes its last minute.
func TestLastMinuteIsWritten(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	one := newInstance(minutes.New(client, "koala"))
	one.decide(0, posts, 5, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	storetest.Eventually(t, func() error { // the end does not wait for a Redis that pauses
		one.Run(ctx)
		if h := newInstance(minutes.New(client, "koala")).Hour(context.WithoutCancel(ctx)); h.Instances != 2 || h.Allowed[59] != 5 {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
}

// The event of a second has the decisions since the last one, and the refusals by rule.
func TestSecond(t *testing.T) {
	i := newInstance(nil)
	s, err := i.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i.decide(1100*time.Millisecond, posts, 5, 0)
	i.decide(time.Second, logins, 0, 3)
	i.now = i.now.Add(time.Second)
	i.sample()
	var got []string
	for range 3 {
		e := <-s.Events
		got = append(got, e.Name+" "+string(e.Data))
	}
	want := []string{
		`decisions {"at":"2026-11-23T03:12:31.1Z","span_ms":1100,"allowed":5,"refused":0,"observed":0,"unavailable":0,"invalid":0,"refusals":[]}`,
		`decisions {"at":"2026-11-23T03:12:32.1Z","span_ms":1000,"allowed":0,"refused":3,"observed":0,"unavailable":0,"invalid":0,"refusals":[{"rule":202,"refused":3}]}`,
		`decisions {"at":"2026-11-23T03:12:33.1Z","span_ms":1000,"allowed":0,"refused":0,"observed":0,"unavailable":0,"invalid":0,"refusals":[]}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// wireTotals is what an instance writes to Redis about a minute. Instances of other program
// versions read it.
const wireTotals = `{"v":[5,1,0,0,0],"r":[{"n":201,"l":"posts","c":[5,1,0,0]}]}`

func TestWireForm(t *testing.T) {
	i := newInstance(nil)
	i.decide(0, posts, 5, 1)
	totals := i.hour[minutes.Of(i.now)%minutes.Kept].Totals
	if got := string(encode(&totals)); got != wireTotals {
		t.Errorf("a minute is\n%s\nwant\n%s", got, wireTotals)
	}
	newer := strings.Replace(wireTotals, `{"v"`, `{"new":[1],"v"`, 1)
	got, err := decode(newer)
	if diff := cmp.Diff(totals, got); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

// FuzzDecode checks that any text is read or refused, and that what was read can be
// written.
func FuzzDecode(f *testing.F) {
	i := newInstance(nil)
	i.decide(0, posts, 5, 1)
	f.Add(string(encode(&i.hour[minutes.Of(i.now)%minutes.Kept].Totals)))
	f.Add(`{"v":[1,2,3,4,5],"r":[{"n":1,"l":"a","c":[1,2,3,9223372036854775807]},{"n":1,"l":"a","c":[1,2,3,4]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		read, err := decode(text)
		if err != nil {
			return
		}
		again, err := decode(string(encode(&read)))
		if err != nil || again.Verdicts != read.Verdicts {
			t.Errorf("%v, %+v", err, again)
		}
		own := newInstance(nil).assemble(ScopeFleet, &sharedHour{minutes: map[int64]*Totals{minutes.Of(start): &read}})
		if _, err := json.Marshal(own); err != nil {
			t.Error(err)
		}
	})
}
