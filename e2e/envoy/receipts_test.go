package envoy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// valueOf returns the value of a counter.
func valueOf(k *e2e.Koalagate, query string) (value int, err error) {
	r, err := rig.TrySend("GET", "http://"+k.HTTP+"/rule/value?"+query)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Value int `json:"cache_val"`
	}
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil || r.Status != http.StatusOK {
		return 0, fmt.Errorf("%s: status %d, %s, %w", query, r.Status, r.Body, err)
	}
	return answer.Value, nil
}

// stream is one of the streams of TestStreamsSpendWhatTheyUsed.
type stream struct {
	query    string
	estimate int
	spends   int // what it adds to the counter
}

// Streams of all kinds at once, through Envoy and two instances: what is spent afterwards
// is what the settled ones used, and the estimates of the others. Before, the counter
// passes the limit by no more than what requests understated.
func TestStreamsSpendWhatTheyUsed(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	const limit, streams = 24_000, 64
	kinds := []stream{
		{"?stream", 600, 600},        // right
		{"?stream", 900, 600},        // too much
		{"?stream", 100, 600},        // too little
		{"", 100, 600},               // no stream
		{"?stream&leave", 500, 500},  // the client leaves
		{"?stream&reset", 500, 500},  // the model closes the connection
		{"?stream&silent", 700, 700}, // no usage
		{"?error", 900, 0},           // an error
		{"?stream", limit + 1, -1},   // more than the budget: refused
	}
	m := rig.StartBackend(t, completion)
	instances := h.Pair(h.SampleRules("examples/token-budget.conf", [2]string{"count=100k;", fmt.Sprintf("count=%d;", limit)}, [2]string{"count=4]", "count=100]"}))
	g := rig.LlmEnvoy(h, m, instances...)
	rig.AvoidMidnight(t)
	const counter = "rule_no=202&domain=llm&budget=tokens&user=ann"
	understated := 0
	for i := range streams {
		understated += max(0, kinds[i%len(kinds)].spends-kinds[i%len(kinds)].estimate)
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for i := 0; ; i++ {
			if value, err := valueOf(instances[i%2], counter); err != nil || value > limit+understated {
				t.Errorf("the counter is %d, %v; want at most %d beyond %d", value, err, understated, limit)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	var want atomic.Int64
	rig.Concurrently(streams, func(i int) {
		s := kinds[i%len(kinds)]
		switch status, err := s.send(t.Context(), g.URL); {
		case err != nil:
			t.Errorf("%+v: %v", s, err)
		case status == http.StatusTooManyRequests:
		case s.spends < 0:
			t.Errorf("%+v: status %d; want 429", s, status)
		default:
			want.Add(int64(s.spends))
		}
	})
	rig.Spent(t, instances[0], strings.Replace(counter, "202", "201", 1), 0)
	close(done)
	watch.Wait()
	rig.Spent(t, instances[1], counter, int(want.Load()))
	if want.Load() < limit/2 {
		t.Errorf("only %d of %d tokens are spent; the streams were refused", want.Load(), limit)
	}
}

// send sends the request of a stream, and returns the status. The error reports an answer
// that is cut although it should not be.
func (s *stream) send(ctx context.Context, url string) (status int, err error) {
	return s.sendAs(ctx, url, "ann", "")
}

// sendAs sends it as a user, with lines of further headers.
func (s *stream) sendAs(ctx context.Context, url, user, headers string) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	document := fmt.Sprintf(`{"max_tokens":%d}`, s.estimate)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions"+s.query, strings.NewReader(document))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		req.Header.Set(name, value)
	}
	req.Header.Set("X-User-Id", user)
	resp, err := rig.Client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if strings.Contains(s.query, "leave") && resp.StatusCode == http.StatusOK {
		_, err = bufio.NewReader(resp.Body).ReadString('\n')
		return resp.StatusCode, err
	}
	_, err = io.ReadAll(resp.Body)
	if strings.Contains(s.query, "reset") {
		err = nil
	}
	return resp.StatusCode, err
}

// Two requests at once, through two Envoys that share two instances: the application never
// works on three, also if Envoy is killed.
func TestHoldsAreSharedAndEndWithTheirTime(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	m := rig.StartBackend(t, completion)
	instances := h.Pair(h.SampleRules("examples/token-budget.conf", [2]string{"count=4]", "count=2]"}))
	gateways := []*e2e.Gateway{rig.LlmEnvoy(h, m, instances[0]), rig.LlmEnvoy(h, m, instances[1])}
	const held, requests = "rule_no=201&domain=llm&budget=tokens&user=", 50
	for round := range 3 {
		rig.Overlap(t, m, requests, 2, func(i int) (rig.Reply, error) {
			return rig.TrySend("POST", gateways[i%2].URL+"/", "X-User-Id: ann")
		})
		rig.Spent(t, instances[round%2], held+"ann", 0)
	}
}

// An Envoy that is killed reports nothing: what its requests held is free again when its
// time has passed, also for another Envoy.
func TestHoldsOfAKilledEnvoyEnd(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	m := rig.StartBackend(t, completion)
	instances := h.Pair(h.SampleRules("examples/token-budget.conf", [2]string{"[time=600; count=4]", "[time=2; count=2]"}))
	first, second := rig.LlmEnvoy(h, m, instances...), rig.LlmEnvoy(h, m, instances...)
	release := m.Hold()
	defer release()
	var ended sync.WaitGroup
	for range 2 {
		ended.Go(func() {
			if r, err := rig.TrySend("POST", first.URL+"/", "X-User-Id: ann"); err == nil {
				t.Errorf("status %d from an Envoy that was killed", r.Status)
			}
		})
	}
	rig.WaitUntil(t, "two requests reach the application", func() bool { return m.Requests() == 2 })
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	ended.Wait()
	rig.WaitUntil(t, "the application has noticed", m.IsIdle)
	rig.Spent(t, instances[0], "rule_no=201&domain=llm&budget=tokens&user=ann", 0)
	release()
	rig.WantStatus(t, http.StatusOK, "POST", second.URL+"/", "X-User-Id: ann")
}

// ext_authz decides, and the rate limit filter of the sample settles what it decided.
func TestTheRateLimitFilterSettlesWhatExtAuthzDecided(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	m := rig.StartBackend(t, completion)
	instances := h.Pair(h.File("rules.conf", `
[params]
uid : header X-User-Id
[rules]
rule : [hold] [door=extauthz; uid=+] [time=600; count=2] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`))
	g := h.Envoy(&e2e.App{Address: m.Address}, instances...)
	for round := range 2 {
		rig.Overlap(t, m, 50, 2, func(int) (rig.Reply, error) { return rig.TrySend("GET", g.URL+"/", "X-User-Id: ann") })
		rig.Spent(t, instances[round], "rule_no=201&door=extauthz&uid=ann", 0)
	}
}
