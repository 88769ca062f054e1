package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/koalagate/koalagate/bench/report"
	"github.com/koalagate/koalagate/bench/resp"
	"github.com/koalagate/koalagate/bench/stats"
	"github.com/koalagate/koalagate/e2e"
)

// queueSection is the name of the section about turns.
const queueSection = "A queue of two instances"

// queueCallers is the number of concurrent requests to a queue, and queueStep the time
// between two turns of queueRules.
const (
	queueCallers = 10
	queueStep    = 200 * time.Millisecond
)

// queueRules make the requests to each path wait for their turns.
const queueRules = `
[rules]
rule : [token] [path=+] [time=1; count=5; burst=1; wait=3] [result=2; return=201]
[result]
0 : {"Err_no":0}
1 : {"Err_no":0}
2 : {"Err_no":10}
`

// queue measures how far apart the turns of a queue are, of which two instances with one
// Redis inform their callers, and how far apart the requests that waited in Envoy and in
// nginx reach the application.
func (r *run) queue(ctx context.Context) error {
	if !r.only.MatchString(queueSection) {
		return nil
	}
	q, err := r.scene.newQueue()
	if err != nil {
		return fmt.Errorf("%s: %w", queueSection, err)
	}
	defer q.app.Close()
	var told, arrived, margins, errs []float64
	rounds := r.others.rounds
	for round := range rounds {
		turns, inexact, err := q.told(ctx, fmt.Sprintf("/told-%d", round))
		if err != nil {
			return fmt.Errorf("%s: %w", queueSection, err)
		}
		told, errs = append(told, spacing(turns)...), append(errs, inexact)
		times, err := q.through(ctx, fmt.Sprintf("/through-%d", round))
		if err != nil {
			return fmt.Errorf("%s: %w", queueSection, err)
		}
		arrived = append(arrived, spacing(times[1:])...)
		for i, at := range times[1:] {
			margins = append(margins, milliseconds(at.Sub(times[0])-time.Duration(i)*queueStep))
		}
	}
	t := report.Table{Columns: []string{"turns", "ms apart"}, Rows: [][]string{
		{"that the instances report", stats.Of(told).String()},
		{"of requests that reach the application, through Envoy and nginx", stats.Of(arrived).String()},
	}}
	r.Add(report.Section{
		Name: queueSection, Chapter: true, Tables: []report.Table{t},
		Text: fmt.Sprintf("`token` with `time=1; count=5; burst=1; wait=3`, %d concurrent requests in each of %d rounds, half of them to each of two instances with one Redis: turns are %v apart.", queueCallers, rounds, queueStep),
		Note: fmt.Sprintf("The instances report turns (`Wait_ms`) by Redis's clock, each ± %.1f ms. No request was refused. The requests reached the application at least %.1f ms after the earliest time that their turns could have.", slices.Max(errs), slices.Min(margins)),
	})
	turns, requests := stats.Of(told), stats.Of(arrived)
	r.FigureIn(" ms", "a queue of two instances, distance of turns by Redis's clock", &turns)
	r.FigureIn(" ms", "a queue of two instances, distance of requests at the application", &requests)
	if slices.Min(margins) < 0 {
		return fmt.Errorf("%s: a request reached the application %.1f ms before its turn", queueSection, -slices.Min(margins))
	}
	return nil
}

// queue is a scene of two instances with one Redis, and of Envoy and nginx, each of which
// calls one of them.
type queue struct {
	redis     string
	instances [2]*e2e.Koalagate
	gateways  [2]*e2e.Gateway
	app       *http.Server

	mu    sync.Mutex
	times []time.Time // when requests reached the application
}

func (s *scene) newQueue() (*queue, error) {
	file := filepath.Join(s.dir, "queue.conf")
	if err := os.WriteFile(file, []byte(queueRules), 0o600); err != nil {
		return nil, err
	}
	redis, err := s.stage.Redis()
	if err != nil {
		return nil, err
	}
	q := &queue{redis: redis.Address}
	for i := range q.instances {
		if q.instances[i], err = s.stage.Koalagate(s.binary, nil, "--rules", file, "--redis", redis.URL()); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of this program
	if err != nil {
		return nil, err
	}
	q.app = &http.Server{Handler: q, ReadHeaderTimeout: maxWait}
	go func() { _ = q.app.Serve(l) }() // until it is closed
	return q, s.gateways(q, l.Addr().String())
}

// gateways starts the gateways of a queue, which wait longer than its requests.
func (s *scene) gateways(q *queue, app string) (err error) {
	s.stage.BePatient(true)
	defer s.stage.BePatient(false)
	if q.gateways[0], err = s.stage.Envoy(&e2e.App{Address: app}, q.instances[0]); err != nil {
		return err
	}
	q.gateways[1], err = s.stage.NginxSample("nginx/nginx.conf", app, []string{q.instances[1].HTTP},
		[2]string{"/v1/auth-request;", "/v1/auth-request?_wait=3;"})
	return err
}

// ServeHTTP is the application: it records when requests reach it.
func (q *queue) ServeHTTP(http.ResponseWriter, *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.times = append(q.times, time.Now())
}

// told takes concurrently, by Koala's API, and returns the turns in their order, and their
// greatest error: Redis decided at a time between two reads of its clock.
func (q *queue) told(ctx context.Context, path string) (turns []time.Time, inexact float64, err error) {
	all := make([]time.Time, queueCallers)
	errs := make([]float64, queueCallers)
	err = atOnce(func(i int) error {
		clock, err := resp.Dial(ctx, q.redis)
		if err != nil {
			return err
		}
		defer clock.Close()
		before, err := clock.Clock()
		if err != nil {
			return err
		}
		wait, err := take(ctx, q.instances[i%2].HTTP, path)
		if err != nil {
			return err
		}
		after, err := clock.Clock()
		half := after.Sub(before) / 2
		all[i], errs[i] = before.Add(half+wait), milliseconds(half)
		return err
	})
	slices.SortFunc(all, time.Time.Compare)
	return all, slices.Max(errs), err
}

// take takes from the queue of a path, and returns the wait that the answer states.
func take(ctx context.Context, address, path string) (time.Duration, error) {
	var answer struct {
		Error int `json:"Err_no"`
		Wait  int `json:"Wait_ms"`
	}
	body, err := fetch(ctx, "http://"+address+"/rule/take?path="+path)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	if answer.Error != 0 {
		return 0, fmt.Errorf("a take was refused: %s", body)
	}
	return time.Duration(answer.Wait) * time.Millisecond, nil
}

// through sends requests concurrently through both gateways, and returns when they began,
// by Redis's clock, and when each reached the application. All clocks are this machine's.
func (q *queue) through(ctx context.Context, path string) ([]time.Time, error) {
	clock, err := resp.Dial(ctx, q.redis)
	if err != nil {
		return nil, err
	}
	defer clock.Close()
	begin, err := clock.Clock()
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	q.times = nil
	q.mu.Unlock()
	if err := atOnce(func(i int) error {
		_, err := fetch(ctx, q.gateways[i%2].URL+path)
		return err
	}); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.times) != queueCallers {
		return nil, fmt.Errorf("%d requests reached the application; want %d", len(q.times), queueCallers)
	}
	slices.SortFunc(q.times, time.Time.Compare)
	return append([]time.Time{begin}, q.times...), nil
}

// fetch returns the body of a page with the status 200.
func fetch(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s; want 200", strings.SplitN(url, "?", 2)[0], answer.Status)
	}
	return body, err
}

// atOnce calls do for each caller of a queue concurrently.
func atOnce(do func(i int) error) error {
	errs := make([]error, queueCallers)
	var callers sync.WaitGroup
	for i := range errs {
		callers.Go(func() { errs[i] = do(i) })
	}
	callers.Wait()
	return errors.Join(errs...)
}

// spacing returns the times between neighbors, in milliseconds.
func spacing(times []time.Time) (list []float64) {
	for i := 1; i < len(times); i++ {
		list = append(list, milliseconds(times[i].Sub(times[i-1])))
	}
	return list
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
