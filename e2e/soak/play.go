package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/e2e"
)

// The intervals of the events. A run of an hour has at least ten of each; a short run
// has shorter intervals.
const (
	reloadEvery  = 10 * time.Second
	redisEvery   = 3 * time.Minute
	gatewayEvery = 4 * time.Minute
	clockEvery   = 2 * time.Minute
	hostileEvery = 5 * time.Second
	sampleEvery  = 15 * time.Second
	// attackTime bounds one attack, so that quiet times remain between them.
	attackTime = 2 * time.Second
)

// play lets everything happen until ctx is done.
func (s *scene) play(ctx context.Context, length time.Duration) {
	scale := min(1, length.Minutes()/60)
	at := func(interval time.Duration) time.Duration {
		return max(time.Duration(float64(interval)*scale), 2*time.Second)
	}
	var parts sync.WaitGroup
	for caller := range 6 {
		parts.Go(func() { s.call(ctx, caller) })
	}
	parts.Go(func() { every(ctx, max(reloadEvery, at(reloadEvery)), s.reload) })
	parts.Go(func() { every(ctx, at(redisEvery), func(int) { s.restartRedis() }) })
	parts.Go(func() { every(ctx, at(gatewayEvery), s.restartGateway) })
	parts.Go(func() { every(ctx, at(clockEvery), s.stepClock) })
	parts.Go(func() { every(ctx, at(hostileEvery), s.attack) })
	parts.Go(func() { every(ctx, at(sampleEvery), func(int) { s.sample() }) })
	parts.Wait()
	_ = s.setClock(0)
	s.sample()
}

// reload changes the rules, and checks that both instances use them.
func (s *scene) reload(n int) {
	before := make([]int, len(s.instances))
	for i, k := range s.instances {
		before[i] = s.generation(k)
	}
	err := s.writeRules(n + 1)
	for i, k := range s.instances {
		for deadline := time.Now().Add(8 * time.Second); err == nil && s.generation(k) <= before[i]; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				err = fmt.Errorf("instance %d still has generation %d", i, before[i])
			}
		}
	}
	s.event("reloads", err)
}

func (s *scene) generation(k *e2e.Koalagate) int {
	status, err := k.Readyz()
	if err != nil {
		return -1
	}
	return status.Generation
}

// restartRedis kills Redis, which loses all counters, and starts another one after a
// second. The ledger does not judge users whose requests overlap.
func (s *scene) restartRedis() {
	s.ledger.disturb(true)
	defer s.ledger.disturb(false)
	err := s.redis.Kill()
	time.Sleep(time.Second)
	if err == nil {
		s.redis, err = s.stage.RestartRedis(s.redis)
	}
	for deadline := time.Now().Add(10 * time.Second); err == nil && !s.usesRedis(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			err = errors.New("an instance does not use Redis again")
		}
	}
	time.Sleep(2 * time.Second) // hits that instances owe
	s.event("restarts of Redis", err)
}

func (s *scene) usesRedis() bool {
	for _, k := range s.instances {
		if status, err := k.Readyz(); err != nil || status.Store != "redis" {
			return false
		}
	}
	return true
}

// restartGateway replaces a gateway by another process.
func (s *scene) restartGateway(n int) {
	var next *e2e.Gateway
	var err error
	i := n % 2
	if i == 0 {
		next, err = s.stage.Envoy(s.app, s.instances...)
	} else {
		next, err = s.stage.Nginx(s.app, s.instances...)
	}
	if err == nil {
		s.mu.Lock()
		before := s.gateways[i]
		s.gateways[i] = next
		s.mu.Unlock()
		time.Sleep(2 * time.Second) // requests in progress
		err = before.Stop()
	}
	s.event("restarts of gateways", err)
}

// stepClock lets Redis's clock jump by up to 30 s, far less than the window of the
// ledger's rule.
func (s *scene) stepClock(n int) {
	steps := []time.Duration{30 * time.Second, -20 * time.Second, 0, 7 * time.Second, -30 * time.Second, 0}
	s.event("steps of Redis's clock", s.setClock(steps[n%len(steps)]))
}

// attack sends what hostile clients send, to koalagate's own addresses and to the
// gateways, and attacks an instance in one of the ways of package e2e. Nothing of it may
// reach the application, and the samples show whether anything stays.
func (s *scene) attack(n int) {
	attacks := e2e.Attacks(s.instances[n%len(s.instances)])
	one := attacks[n/len(s.instances)%len(attacks)]
	ctx, cancel := context.WithTimeout(context.Background(), attackTime)
	defer cancel()
	var senders sync.WaitGroup
	for range one.Peers {
		senders.Go(func() { _ = one.Attempt(ctx) }) // no connection, or no answer: the service may end both
	}
	targets := []string{strings.TrimPrefix(s.gateway(0), "http://"), strings.TrimPrefix(s.gateway(1), "http://")}
	for _, k := range s.instances {
		targets = append(targets, k.HTTP, k.GRPC)
	}
	long := strings.Repeat("x", 200<<10)
	requests := []string{
		"GET /search/..%2Fhealthz HTTP/1.1\r\nHost: shop.example\r\n\r\n",
		"GET http://blocked.example/ HTTP/1.1\r\nHost: shop.example\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + long + "\r\n\r\n",
		"GET /" + long + " HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost:", // never ends
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + strings.Repeat("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 500),
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"POST /rule/update HTTP/1.1\r\nHost: blocked.example\r\nContent-Length: 1000000\r\n\r\nact=",
	}
	for _, target := range targets {
		for _, request := range requests {
			senders.Go(func() { send(target, request) })
		}
	}
	senders.Wait()
	s.event("attacks: "+one.Name, nil)
	s.event("rounds of hostile requests", nil)
}

// send sends a request over a connection of its own, and reads what comes back for at
// most a second.
func send(address, request string) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return // a gateway that is being replaced
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(conn, request)
	_, _ = io.Copy(io.Discard, conn)
}

// call sends the requests of one user after the other, 12 each, through both gateways
// at once.
func (s *scene) call(ctx context.Context, caller int) {
	client := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	for user := 0; ctx.Err() == nil; user++ {
		name := fmt.Sprintf("user-%d-%d", caller, user)
		begin := s.ledger.begin()
		var mu sync.Mutex
		var senders sync.WaitGroup
		counts := make(map[int]int)
		for i := range 12 {
			senders.Go(func() {
				status := ask(ctx, client, s.gateway(i%2), name)
				mu.Lock()
				defer mu.Unlock()
				counts[status]++
			})
		}
		senders.Wait()
		if ctx.Err() == nil {
			s.ledger.judge(begin, name, counts)
		} else {
			s.ledger.abandon(counts)
		}
		select { // a steady load that leaves the machine time
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// ask sends a request, and returns its status; 0 if there is no answer.
func ask(ctx context.Context, client *http.Client, gateway, user string) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway+"/a", nil)
	if err != nil {
		return 0
	}
	r.Header.Set("X-User-Id", user)
	resp, err := client.Do(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp.StatusCode
}
