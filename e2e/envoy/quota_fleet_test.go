package envoy_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// quotaFleet is Envoys with the sample of the quota filter at two instances with one Redis,
// all of which limit the requests of a tenant.
type quotaFleet struct {
	*rig.Fixture
	redis     *e2e.Redis
	rules     string
	rate      int // of the limit, per second; its burst is twice as much
	instances []*e2e.Koalagate
	envoys    []*e2e.Gateway
	requests  requests
	// spent are metrics of instances that have ended.
	spent map[string]float64
}

// quotaMetrics are the metrics that the tests add up.
var quotaMetrics = []string{
	"koalagate_quota_debt_hits_total", `koalagate_quota_messages_total{direction="received"}`, `koalagate_quota_messages_total{direction="sent"}`,
}

// admitsAlone has Envoy answer admitted requests, so that no application takes time.
var admitsAlone = [2]string{"route: { cluster: app }", "direct_response: { status: 200 }"}

func newQuotaFleet(t *testing.T, rate int) *quotaFleet {
	h := rig.NewFixture(t)
	f := &quotaFleet{Fixture: h, redis: h.Redis(), rate: rate, spent: map[string]float64{}}
	f.rules = h.SampleRules("examples/edge-quota.conf", [2]string{"door=rlqs{~}; domain=edge{~}; ", ""},
		[2]string{"count=100; burst=200", "count=" + strconv.Itoa(rate) + "; burst=" + strconv.Itoa(2*rate)})
	for range 2 {
		f.instances = append(f.instances, f.instance())
	}
	return f
}

// instance starts an instance of the fleet.
func (f *quotaFleet) instance(args ...string) *e2e.Koalagate {
	f.Helper()
	return rig.Must(f.Stage.Koalagate(f.Released(), []string{"KOALAGATE_REDIS_BUDGET=1s", "KOALAGATE_DRAIN_WAIT=0s"},
		append([]string{"--rules", f.rules, "--redis", f.redis.URL()}, args...)...))(f.T)
}

// restart ends instances as at an update, and starts others at their addresses.
func (f *quotaFleet) restart(numbers ...int) {
	f.Helper()
	for _, i := range numbers {
		for _, name := range quotaMetrics {
			f.spent[name] += f.metric(f.instances[i], name)
		}
		rig.Signal(f.T, f.instances[i], syscall.SIGTERM)
	}
	for _, i := range numbers {
		if !f.instances[i].Ended(20 * time.Second) {
			f.Fatalf("instance %d runs on after SIGTERM", i)
		}
		f.instances[i] = f.instance("--grpc-addr", f.instances[i].GRPC)
	}
}

// metric returns a metric of an instance.
func (f *quotaFleet) metric(k *e2e.Koalagate, name string) float64 {
	f.Helper()
	body := rig.Send(f.T, "GET", "http://"+k.Admin+"/metrics").Body
	for line := range strings.Lines(body) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return rig.Must(strconv.ParseFloat(strings.TrimSpace(value), 64))(f.T)
		}
	}
	f.Fatalf("no metric %s in\n%s", name, body)
	return 0
}

// total returns the sum of a metric over all instances that the fleet has had.
func (f *quotaFleet) total(name string) float64 {
	f.Helper()
	sum := f.spent[name]
	for _, k := range f.instances {
		sum += f.metric(k, name)
	}
	return sum
}

// begin starts Envoys, and lets requests for half as much again as the limit arrive at them and
// at the gateways that the fleet has already.
func (f *quotaFleet) begin(ctx context.Context, envoys int) {
	f.Helper()
	for i := range envoys {
		f.envoys = append(f.envoys, rig.QuotaEnvoy(f.Fixture, "edge-"+strconv.Itoa(i+1), "127.0.0.1:1", f.instances, admitsAlone))
	}
	f.requests.begun = time.Now()
	n := len(f.envoys)
	for i, g := range f.envoys {
		f.requests.send(ctx, f.T, i, g.URL+"/", f.rate*3/(2*n))
	}
}

// at waits until a time since the first request.
func (f *quotaFleet) at(when time.Duration) { time.Sleep(time.Until(f.requests.begun.Add(when))) }

// wantLimit fails if more passes than the burst and the refill, and what reports show to have
// passed by late messages, and returns the requests that passed. Messages are late by as much as
// the test stops programs, and on a busy machine by a second.
func (f *quotaFleet) wantLimit(late time.Duration) []request {
	f.Helper()
	passed, all := f.requests.passed()
	debt, most := f.total(quotaMetrics[0]), burst(passed, float64(f.rate))
	f.Logf("%d of %d requests passed, %.0f at most beyond the rate; debts %.0f", len(passed), all, most, debt)
	if want := float64(2*f.rate) + debt; most > want {
		f.Errorf("%.0f requests passed at once beyond the rate; want %.0f at most", most, want)
	}
	if want := (late + time.Second).Seconds() * float64(f.rate); debt > want {
		f.Errorf("the debts are %.0f hits; messages that are late by %v explain %.0f at most", debt, late+time.Second, want)
	}
	return passed
}

// wantUse fails if less than a part of the limit is used in a time.
func (f *quotaFleet) wantUse(passed []request, from, to time.Duration, least float64) {
	f.Helper()
	used := float64(between(passed, from, to)) / ((to - from).Seconds() * float64(f.rate))
	f.Logf("%.3f of the limit is used from %v to %v", used, from, to)
	if used < least {
		f.Errorf("%.3f of the limit is used from %v to %v; want %.2f at least", used, from, to, least)
	}
}

// Three Envoys at two instances keep one limit, while one Envoy is killed and an instance is
// restarted.
func TestQuotaHoldsOverEnvoys(t *testing.T) {
	t.Parallel()
	rate, scale := 120, time.Second
	if *long {
		rate, scale = 600, 5*time.Second
	}
	f := newQuotaFleet(t, rate)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f.begin(ctx, 3)
	f.at(4 * scale)
	f.restart(1)
	f.at(6 * scale)
	if err := f.envoys[2].Kill(); err != nil {
		t.Fatal(err)
	}
	f.at(12 * scale)
	stop()
	passed := f.wantLimit(0)
	if n := between(passed, 0, 12*scale); n < rate*int(12*scale/time.Second)/4 {
		t.Errorf("%d requests passed; want more", n)
	}
	if !*long {
		return
	}
	f.wantUse(passed, 2*scale, 4*scale, 0.95)
	f.wantUse(passed, 2*scale, 12*scale, 0.9)
	for i := range f.envoys[:2] {
		if longest := gap(passed, i, 4*scale, 6*scale); longest > time.Second {
			t.Errorf("Envoy %d admits nothing for %v at a restart; want a second at most", i, longest)
		} else {
			t.Logf("Envoy %d admits nothing for %v at a restart", i, longest)
		}
	}
	messages := f.total(quotaMetrics[1]) + f.total(quotaMetrics[2])
	t.Logf("%.0f messages, one for %.0f requests", messages, float64(len(passed))/messages)
	if messages*300 > float64(len(passed)) {
		t.Errorf("%.0f messages for %d requests; want one for 300 at most", messages, len(passed))
	}
}

// An Envoy that asks about each request takes from the same limit as two that decide by
// themselves: all of them keep it together.
func TestQuotaHoldsBesideTheRateLimitFilter(t *testing.T) {
	t.Parallel()
	rate, seconds := 120, 8*time.Second
	if *long {
		rate, seconds = 600, 60*time.Second
	}
	f := newQuotaFleet(t, rate)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f.envoys = append(f.envoys, rig.Must(f.Stage.EnvoyWith(rig.EnvoyConfig(f.App().Address, rig.Cluster("koalagate", f.instances[0].GRPC, rig.HTTP2), rig.Listener{
		Name: "http", Filters: []string{rig.RateLimit(rig.Ample, "failure_mode_deny: true")},
		RateLimit: `[ { actions: [ { request_headers: { header_name: x-tenant, descriptor_key: tenant } } ] } ]`,
	})))(t))
	f.begin(ctx, 2)
	f.at(seconds)
	stop()
	passed := f.wantLimit(0)
	for i := range f.envoys {
		n := len(slices.DeleteFunc(slices.Clone(passed), func(r request) bool { return r.gateway != i }))
		t.Logf("gateway %d admits %d requests", i, n)
		if n == 0 {
			t.Errorf("gateway %d admits nothing", i)
		}
	}
	if *long {
		f.wantUse(passed, 10*time.Second, seconds, 0.9)
	}
}

// Whatever happens to Envoys and instances, the limit holds, and most of it is used.
func TestQuotaHoldsInTrouble(t *testing.T) {
	t.Parallel()
	if !*long {
		return // it takes minutes; TestQuotaHoldsOverEnvoys is its short form
	}
	const rate, from = 600, 20 * time.Second // when it begins
	for _, c := range []struct {
		name    string
		trouble func(*quotaFleet)
		late    time.Duration // of messages, times the instances that each keep the limit meanwhile
		until   time.Duration
		least   float64 // used after from
	}{
		{"both instances are restarted at once", func(f *quotaFleet) { f.restart(0, 1) }, 0, from + 20*time.Second, 0.8},
		{"an Envoy stands still", func(f *quotaFleet) {
			f.pause(f.envoys[2].Program, 12*time.Second)
		}, 0, from + 30*time.Second, 0.8}, // it admits nothing meanwhile, and afterwards its share has ended
		{"Redis stands still for 3 s", func(f *quotaFleet) { f.pause(f.redis.Program, 3*time.Second) }, 2 * 3 * time.Second, from + 30*time.Second, 0.8},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newQuotaFleet(t, rate)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			f.begin(ctx, 3)
			f.at(from)
			c.trouble(f)
			f.at(c.until)
			stop()
			f.wantUse(f.wantLimit(c.late), from, c.until, c.least)
		})
	}
}

// pause stops a program for a time.
func (f *quotaFleet) pause(p *e2e.Program, during time.Duration) {
	f.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		f.Fatal(err)
	}
	time.Sleep(during)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		f.Fatal(err)
	}
}

// While Redis is away, each instance keeps the limit on its own; before, and when the shares of
// that time have ended, all keep it together.
func TestQuotaHoldsWithoutRedis(t *testing.T) {
	t.Parallel()
	if !*long {
		return // it takes a minute
	}
	const rate, away, back, ended, until = 600, 20 * time.Second, 50 * time.Second, 60 * time.Second, 90 * time.Second
	f := newQuotaFleet(t, rate)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	f.begin(ctx, 3)
	f.at(away)
	f.pause(f.redis.Program, back-away)
	f.at(until)
	stop()
	passed, _ := f.requests.passed()
	debt := f.total(quotaMetrics[0])
	before := slices.IndexFunc(passed, func(r request) bool { return r.answered > away })
	after := slices.IndexFunc(passed, func(r request) bool { return r.sent > ended })
	for _, part := range []struct {
		name   string
		passed []request
		limits int
	}{
		{"before", passed[:before], 1},
		{"in all", passed, 2},
		{"afterwards", passed[after:], 1},
	} {
		most := burst(part.passed, float64(rate*part.limits))
		t.Logf("%s: %.0f at most beyond %d times the rate; debts %.0f", part.name, most, part.limits, debt)
		if want := float64(2 * rate * part.limits); most > want {
			t.Errorf("%s: %.0f requests passed at once beyond the rate; want %.0f at most", part.name, most, want)
		}
	}
	f.wantUse(passed, away, back, 0.9)
	f.wantUse(passed, ended+10*time.Second, until, 0.9)
}

// An Envoy that another process replaces by a hot restart keeps the limit: both are holders, until
// the old one ends.
func TestQuotaHoldsInHotRestarts(t *testing.T) {
	t.Parallel()
	if !*long {
		return // it takes a minute and a half
	}
	for _, c := range []struct {
		name   string
		second int // the instance of the second process
	}{
		{"at one instance", 0},
		{"at two instances", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newQuotaFleet(t, 600)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			address := rig.Must(e2e.FreeAddress())(t)
			start := func(epoch, instance int) {
				f.envoys = append(f.envoys, rig.HotQuotaEnvoy(f.Fixture, "edge-1", "127.0.0.1:1", rig.Port(address), epoch, f.instances[instance:instance+1], admitsAlone))
			}
			start(0, 0)
			f.requests.begun = time.Now()
			f.requests.send(ctx, t, 0, "http://"+address+"/", 900)
			f.at(20 * time.Second)
			start(1, c.second)
			if !f.envoys[0].Ended(20 * time.Second) {
				t.Error("the first process runs on")
			}
			f.at(40 * time.Second)
			stop()
			passed := f.wantLimit(0)
			for s := 18 * time.Second; s < 40*time.Second; s += 2 * time.Second {
				t.Logf("%v: %d a second", s, between(passed, s, s+2*time.Second)/2)
			}
			f.wantUse(passed, 20*time.Second, 40*time.Second, 0.6) // both have half, until the share of the first ends
		})
	}
}
