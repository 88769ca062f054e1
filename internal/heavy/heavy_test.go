package heavy

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koalagate/koalagate/internal/fleet/minutes"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

var long = flag.Bool("long", false, "ten times as many calls")

const ruleText = `[rules]
rule : [count] [uid=+; act=post] [time=60; count=2] [result=2; return=201; name=posts]
rule : [count] [ip=+; act=login] [time=60; count=2] [result=2; return=202]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// crowd makes calls of identities, and counts them exactly.
type crowd struct {
	t     testing.TB
	set   *rules.Set
	now   time.Time
	exact map[string]int64
	calls int64
}

func newCrowd(t testing.TB) *crowd {
	t.Helper()
	set, findings := rules.Parse([]rules.Source{{Name: "rules.conf", Text: []byte(ruleText)}}, rules.Options{})
	if findings.HasErrors() {
		t.Fatal(findings)
	}
	return &crowd{t: t, set: set, now: time.Date(2026, 11, 23, 3, 12, 30, 0, time.UTC), exact: make(map[string]int64)}
}

func (c *crowd) recorder(change func(*Options)) *Recorder {
	o := Options{Rule: c.set.Rule, Now: func() time.Time { return c.now }, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	return New(o)
}

// call makes n calls of an identity of rule 201 or 202.
func (c *crowd) call(r *Recorder, k Kind, rule int64, value string, n int) {
	c.t.Helper()
	name := map[int64]string{201: "uid", 202: "ip"}[rule]
	m, err := c.set.Rule(rule).Identify(rules.MakeParams(map[string]string{name: value}))
	if err != nil {
		c.t.Fatal(err)
	}
	for range n {
		r.Add(k, "koala", []rules.Match{m})
		if c.calls++; c.calls%1000 == 0 {
			r.empty() // as Run does
		}
	}
	c.exact[strconv.FormatInt(rule, 10)+" "+value] += int64(n)
}

// check compares rows with the exact counts, and returns the largest error.
func (c *crowd) check(rows []Row, of func(*Row) int64) (worst int64) {
	c.t.Helper()
	for i := range rows {
		r := &rows[i]
		exact := c.exact[strconv.FormatInt(r.Rule, 10)+" "+r.Identity["uid"]+r.Identity["ip"]]
		if n := of(r); n > exact || exact > n+r.Error {
			c.t.Errorf("%+v: %d calls are not between %d and %d", r, exact, n, n+r.Error)
		}
		if r.Error > c.calls/100 {
			c.t.Errorf("%+v: the error is above 1 %% of %d calls", r, c.calls)
		}
		worst = max(worst, r.Error)
	}
	return worst
}

func refused(r *Row) int64 { return r.Refused }

// Of a million identities with a Zipf distribution the heaviest are found, over minutes
// and instances, and the error that is stated holds and is at most 1 % of the calls.
func TestErrorOnZipf(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	c := newCrowd(t)
	var fleet []*Recorder
	for range 3 {
		fleet = append(fleet, c.recorder(func(o *Options) { o.Shared = minutes.New(client, "koala") }))
	}
	calls := 300_000
	if *long {
		calls *= 10
	}
	random := rand.New(rand.NewSource(1))
	zipf := rand.NewZipf(random, 1.05, 1, 1_000_000)
	for i := range calls {
		if i%(calls/4) == calls/4-1 {
			for _, r := range fleet {
				r.share(t.Context(), 0)
			}
			c.now = c.now.Add(time.Minute)
		}
		rule, value := int64(201), strconv.FormatUint(zipf.Uint64(), 10)
		if i%50 == 0 {
			rule, value = 202, "10.0.0."+strconv.FormatUint(zipf.Uint64()%250, 10)
		}
		c.call(fleet[i%3], Refused, rule, value, 1)
	}
	for _, r := range fleet {
		r.share(t.Context(), 0)
	}
	rows, isFleet := fleet[0].Top(t.Context(), Question{Most: 100, Since: 10 * time.Minute})
	if len(rows) != 100 || !isFleet {
		t.Fatalf("%d rows, of the fleet: %v", len(rows), isFleet)
	}
	worst := c.check(rows, refused)
	t.Logf("%d calls of %d identities: the largest error is %d calls, %.3f %%", c.calls, len(c.exact), worst, 100*float64(worst)/float64(c.calls))
	heaviest := slices.SortedFunc(maps.Keys(c.exact), func(a, b string) int { return int(c.exact[b] - c.exact[a]) })
	for i, name := range heaviest[:5] {
		if got := strconv.FormatInt(rows[i].Rule, 10) + " " + rows[i].Identity["uid"] + rows[i].Identity["ip"]; got != name {
			t.Errorf("place %d: %s; want %s", i+1, got, name)
		}
	}
	// A rule with a fiftieth of the calls has its own list.
	rows, _ = fleet[1].Top(t.Context(), Question{Rule: 202})
	if len(rows) != defaultRows || rows[0].Identity["act"] != "login" || rows[0].Identity["ip"] != "10.0.0.0" {
		t.Errorf("%+v", rows)
	}
	c.check(rows, refused)
	server.CheckExpiries(t, "koala")
	server.Kill()
	if rows, isFleet := fleet[2].Top(t.Context(), Question{}); isFleet || len(rows) != defaultRows {
		t.Errorf("without Redis: %v, %d rows", isFleet, len(rows))
	}
}

// Rows are sorted by the kind of the question, and have all kinds, the name of the rule
// and masked values.
func TestTop(t *testing.T) {
	c := newCrowd(t)
	r := c.recorder(func(o *Options) {
		o.Mask = func(door, name, value string) string { return door + ":" + name + ":" + strings.ToUpper(value) }
	})
	c.call(r, Refused, 201, "ann", 3)
	c.call(r, Admitted, 201, "ann", 5)
	c.call(r, Near, 201, "ann", 1)
	c.call(r, Refused, 202, "10.0.0.1", 4)
	c.call(r, Admitted, 201, "bob", 9)
	for by, want := range map[Kind]string{
		Refused:  "202 koala:ip:10.0.0.1 4 0 0, 201 koala:uid:ANN 3 5 1",
		Admitted: "201 koala:uid:BOB 0 9 0, 201 koala:uid:ANN 3 5 1",
		Near:     "201 koala:uid:ANN 3 5 1",
	} {
		rows, isFleet := r.Top(t.Context(), Question{By: by})
		var got []string
		for _, row := range rows {
			got = append(got, strings.Join([]string{itoa(row.Rule), row.Identity["uid"] + row.Identity["ip"], itoa(row.Refused), itoa(row.Admitted), itoa(row.Near)}, " "))
			if (row.Name == "posts") != (row.Rule == 201) || row.Error != 0 {
				t.Errorf("%+v", row)
			}
		}
		if text := strings.Join(got, ", "); text != want || isFleet {
			t.Errorf("by %d: %s; want %s", by, text, want)
		}
	}
	if rows, _ := r.Top(t.Context(), Question{Most: 1}); len(rows) != 1 {
		t.Errorf("%d rows; want 1", len(rows))
	}
}

// Calls that arrive together count exactly, however many they are.
func TestHitsOfReports(t *testing.T) {
	c := newCrowd(t)
	r := c.recorder(nil)
	m, err := c.set.Rule(201).Identify(rules.MakeParams(map[string]string{"uid": "ann"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, hits := range []uint64{0, 1, 3000, 1 << 32} {
		r.AddHits(Admitted, "rlqs", []rules.Match{m}, hits)
	}
	c.call(r, Admitted, 201, "bob", 3)
	rows, _ := r.Top(t.Context(), Question{By: Admitted})
	if len(rows) != 2 || rows[0].Admitted != 1<<32+3001 || rows[1].Admitted != 3 || rows[0].Error+rows[1].Error != 0 {
		t.Errorf("%+v; want %d of ann and 3 of bob", rows, 1<<32+3001)
	}
}

// Calls leave the list after the time of the question, and memory after an hour.
func TestSince(t *testing.T) {
	c := newCrowd(t)
	r := c.recorder(nil)
	c.call(r, Refused, 201, "ann", 3)
	r.empty()
	for _, step := range []struct {
		later, since time.Duration
		want         int64
	}{{5 * time.Minute, 10 * time.Minute, 3}, {0, time.Minute, 0}, {6 * time.Minute, 10 * time.Minute, 0}, {0, time.Hour, 3}, {49 * time.Minute, time.Hour, 0}} {
		c.now = c.now.Add(step.later)
		rows, _ := r.Top(t.Context(), Question{Since: step.since})
		var got int64
		for _, row := range rows {
			got += row.Refused
		}
		if got != step.want {
			t.Errorf("%s: %d in %s; want %d", c.now, got, step.since, step.want)
		}
	}
}

// Calls that find no room are part of the error.
func TestDroppedCallsAreAnError(t *testing.T) {
	c := newCrowd(t)
	r := c.recorder(nil)
	m, err := c.set.Rule(201).Identify(rules.MakeParams(map[string]string{"uid": "ann"}))
	if err != nil {
		t.Fatal(err)
	}
	calls := int64(2 * maxWaiting * len(r.lanes))
	for range calls {
		r.Add(Refused, "", []rules.Match{m})
	}
	rows, _ := r.Top(t.Context(), Question{})
	if len(rows) != 1 || rows[0].Refused >= calls || rows[0].Refused+rows[0].Error < calls {
		t.Errorf("%d calls: %+v", calls, rows)
	}
}

// Documents have a bounded length whatever the identities are, and what is left out of
// them is part of the error.
func TestLongIdentities(t *testing.T) {
	c := newCrowd(t)
	r := c.recorder(nil)
	for i := range 1000 {
		c.call(r, Refused, 201, strings.Repeat("x", 2000)+strconv.Itoa(i), 1+i%7)
		c.call(r, Admitted, 201, strconv.Itoa(i)+strings.Repeat("\xff", 95), 1)
		c.call(r, Near, 201, strconv.Itoa(i)+strings.Repeat("é", 46), 1)
	}
	r.empty()
	m := r.own(0)[0]
	text := m.encode()
	got, err := decode(m.number, string(text))
	if err != nil || len(text) > minutes.MaxDocument || len(got.List) >= len(m.List) {
		t.Errorf("%d bytes, %d of %d identities, %v", len(text), len(got.List), len(m.List), err)
	}
	if got.Most[Refused] < m.Most[Refused] || got.Most[Admitted] == 0 {
		t.Errorf("%v, %v", got.Most, m.Most)
	}
}

// Run counts what callers append, until its end.
func TestRun(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	runs := 0
	storetest.Eventually(t, func() error { // the end does not wait for a Redis that pauses
		runs++
		c := newCrowd(t)
		shared := func(o *Options) { o.Shared = minutes.New(client, "run"+strconv.Itoa(runs)) }
		one := c.recorder(shared)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); one.Run(ctx) }()
		c.call(one, Refused, 201, "ann", 3)
		cancel()
		<-ended
		if rows, _ := c.recorder(shared).Top(t.Context(), Question{}); len(rows) != 1 || rows[0].Refused != 3 {
			return fmt.Errorf("%+v", rows)
		}
		return nil
	})
}

// wireMinute is what an instance writes to Redis about a minute. Instances of other program
// versions read it.
const wireMinute = `{"m":[0,0,0],"n":[3,0,0],"l":[{"r":201,"d":"koala","v":["YWN0","cG9zdA==","dWlk","YW5u"],"c":[3,0,0],"e":[0,0,0]}]}`

func TestWireForm(t *testing.T) {
	c := newCrowd(t)
	r := c.recorder(nil)
	c.call(r, Refused, 201, "ann", 3)
	r.empty()
	if got := string(r.own(0)[0].encode()); got != wireMinute {
		t.Errorf("a minute is\n%s\nwant\n%s", got, wireMinute)
	}
	newer := strings.Replace(wireMinute, `{"m"`, `{"new":[1],"m"`, 1)
	if m, err := decode(1, newer); err != nil || string(m.encode()) != wireMinute {
		t.Errorf("%+v, %v", m, err)
	}
}

// FuzzDecode checks that any text is read or refused, and that answers can be made from
// what was read.
func FuzzDecode(f *testing.F) {
	c := newCrowd(f)
	r := c.recorder(nil)
	c.call(r, Refused, 201, "ann", 3)
	r.empty()
	f.Add(string(r.own(0)[0].encode()))
	f.Add(`{"m":[1,0,0],"n":[1,1,1],"l":[{"r":1,"v":["YQ==","Yg=="],"c":[1,2,3],"e":[0,0,1]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := decode(1, text)
		if err != nil {
			return
		}
		for k := range kinds {
			for _, row := range r.rank([]*minute{m, m}, Question{By: k, Most: MaxRows}) {
				if row.Error < 0 || row.Refused < 0 {
					t.Errorf("%+v", row)
				}
			}
		}
	})
}

// BenchmarkCall measures what a caller pays for a call that meets two rules.
func BenchmarkCall(b *testing.B) {
	c := newCrowd(b)
	r := c.recorder(nil)
	var matches []rules.Match
	for i := range 10_000 {
		m, err := c.set.Rule(201).Identify(rules.MakeParams(map[string]string{"uid": strconv.Itoa(i)}))
		if err != nil {
			b.Fatal(err)
		}
		matches = append(matches, m)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := i % (len(matches) - 1)
		r.Add(Admitted, "koala", matches[at:at+2])
		select {
		case <-r.full:
			for j := range r.lanes { // so that none is dropped
				l := &r.lanes[j]
				l.Lock()
				l.buffer = buffer{l.calls[:0], l.identities[:0]}
				l.Unlock()
			}
		default:
		}
	}
}

// BenchmarkCount measures the counting of a call by the goroutine.
func BenchmarkCount(b *testing.B) {
	c := newCrowd(b)
	r := c.recorder(nil)
	zipf := rand.NewZipf(rand.New(rand.NewSource(1)), 1.05, 1, 1_000_000)
	identities := make([][]byte, 1<<16)
	for i := range identities {
		identities[i] = []byte(strconv.FormatUint(zipf.Uint64(), 10))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.sketches[Refused].add(c.set.Rules[0], "koala", identities[i%len(identities)], 0)
	}
}

// What the rules do about an identity is asked by its values, not by the masks that rows show.
func TestStandingOfRows(t *testing.T) {
	c := newCrowd(t)
	r := c.recorder(func(o *Options) {
		o.Mask = func(_, _, _ string) string { return "#mask" }
		o.Standing = func(rule int64, _ string, identity map[string]string) Standing {
			return Standing{Gone: rule == 202, Exception: map[string]*Exception{"ann": {ID: "x", What: "allow"}}[identity["uid"]]}
		}
	})
	c.call(r, Refused, 201, "ann", 3)
	c.call(r, Refused, 201, "bob", 2)
	c.call(r, Refused, 202, "192.0.2.1", 1)
	rows, _ := r.Top(t.Context(), Question{})
	if len(rows) != 3 {
		t.Fatalf("%d rows: %+v", len(rows), rows)
	}
	if x := rows[0].Exception; x == nil || x.ID != "x" || rows[0].Gone || rows[0].Identity["uid"] != "#mask" {
		t.Errorf("ann: %+v", rows[0])
	}
	if rows[1].Exception != nil || rows[1].Gone {
		t.Errorf("bob: %+v", rows[1])
	}
	if !rows[2].Gone {
		t.Errorf("the rule that is gone: %+v", rows[2])
	}
}

// A row with a shortened value has a handle of the whole identity at the instance that met it, and
// none at others, which say nothing about the rules either.
func TestShortenedRows(t *testing.T) {
	server := storetest.StartServer(t)
	client := server.Client()
	defer client.Close()
	c := newCrowd(t)
	value := strings.Repeat("x", maxValue+1)
	both := func(o *Options) {
		o.Shared = minutes.New(client, "koala")
		o.Handle = func(identity, shown map[string]string) string { return identity["uid"] + " as " + shown["uid"] }
		o.Standing = func(_ int64, _ string, identity map[string]string) Standing {
			return Standing{Gone: identity["uid"] != value}
		}
	}
	met, other := c.recorder(both), c.recorder(both)
	c.call(met, Refused, 201, value, 3)
	met.share(t.Context(), 0)
	short := string(shorten(value))
	for name, want := range map[string]Row{
		"met":   {Identity: map[string]string{"act": "post", "uid": short}, Handle: value + " as " + short},
		"other": {Identity: map[string]string{"act": "post", "uid": short}},
	} {
		want.Rule, want.Name, want.Shortened, want.Refused = 201, "posts", true, 3
		rows, _ := map[string]*Recorder{"met": met, "other": other}[name].Top(t.Context(), Question{})
		if diff := cmp.Diff([]Row{want}, rows); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for i := range 2 * maxWhole / len(value) { // the memory is bounded
		c.call(met, Refused, 201, value+strconv.Itoa(i), 1)
	}
	met.empty()
	kept := 0
	for _, one := range met.own(0)[0].List {
		for _, v := range one.whole {
			kept += len(v)
		}
	}
	if kept == 0 || kept > maxWhole {
		t.Errorf("%d bytes of whole identities; want at most %d", kept, maxWhole)
	}
}
