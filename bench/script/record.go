package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/koalagate/koalagate/bench/traffic"
)

// recording is what a binary sent to Redis for the decisions of a scene.
type recording struct {
	script    string
	batches   [][]byte // script calls in wire form
	decisions int
}

const (
	// maxWait is the maximum time of a call. It is below the largest budget of the
	// service, so that a call that waits in the proxy never ends in the rescue store.
	maxWait = 9 * time.Second
	// attempts is how often a scene is recorded until all batches have their size.
	attempts = 5
	// firstPause is how long the first attempt waits for calls to reach the queue of the
	// service; each further attempt waits twice as long.
	firstPause = 10 * time.Millisecond
)

// errMixed is the error of calls that did not go to Redis together.
var errMixed = errors.New("the calls did not go to Redis together")

// recorder makes a service encode batches of a known size. Two script calls of the service
// may be under way at a time: both wait in the proxy while the calls of the next batch
// gather in the queue of the service. Then the older batch passes, and the service sends
// the gathered calls in one script call, which waits in the proxy in turn.
type recorder struct {
	proxy  *proxy
	client rlsv3.RateLimitServiceClient
	size   int // of a batch
	pause  time.Duration
}

// generation is the calls of one batch.
type generation struct {
	answers []*rlsv3.RateLimitResponse
	done    chan error
}

// record records the batches of a scene. The error is errMixed if a busy machine has mixed
// the calls of two batches; then the service still has calls of both.
func (r *recorder) record(ctx context.Context, s *scene, batches int) (*recording, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	lone := []*rlsv3.RateLimitRequest{s.request(0)}
	// The script is known once a call has passed.
	if err := <-r.begin(ctx, lone).done; err != nil {
		return nil, err
	}
	made := &recording{script: r.proxy.text()}
	if made.script == "" {
		return nil, errors.New("the service has not sent the text of its script")
	}
	r.proxy.setShut(true)
	defer r.proxy.setShut(false)
	var calls [2]*generation
	var waiting [2]*held
	for i := range calls {
		var err error
		calls[i] = r.begin(ctx, lone)
		if waiting[i], err = r.next(ctx); err != nil {
			return nil, err
		}
	}
	var takes []*generation
	for _, step := range s.steps(batches) {
		g := r.begin(ctx, step.requests(s, r.size, takes))
		if !step.settles {
			takes = append(takes, g)
			made.decisions += r.size
		}
		pauseFor(r.pause)
		waiting[1].pass()
		if err := r.ends(calls[1]); err != nil {
			return nil, err
		}
		var err error
		if waiting[1], err = r.next(ctx); err != nil {
			return nil, err
		}
		calls[1] = g
		made.batches = append(made.batches, waiting[1].raw)
	}
	for i := range calls {
		waiting[i].pass()
		if err := r.ends(calls[i]); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// begin starts calls at the same time.
func (r *recorder) begin(ctx context.Context, requests []*rlsv3.RateLimitRequest) *generation {
	g := &generation{answers: make([]*rlsv3.RateLimitResponse, len(requests)), done: make(chan error, 1)}
	ended := make(chan error, len(requests))
	for i, request := range requests {
		go func() {
			var err error
			g.answers[i], err = r.client.ShouldRateLimit(ctx, request)
			ended <- err
		}()
	}
	go func() {
		var all error
		for range requests {
			all = errors.Join(all, <-ended)
		}
		g.done <- all
	}()
	return g
}

// ends waits until all calls of a batch that has passed are answered. No other call can be
// answered, so that calls without an answer were not part of it.
func (r *recorder) ends(g *generation) error {
	select {
	case err := <-g.done:
		return err
	case <-time.After(time.Second):
		return errMixed
	}
}

// next returns the next script call.
func (r *recorder) next(ctx context.Context) (*held, error) {
	select {
	case h := <-r.proxy.arrived:
		return h, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the service sent no script call: %w", ctx.Err())
	}
}

// pauseFor lets the calls of a batch reach the service.
func pauseFor(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // other commits do not report how many calls wait
}

// step is one batch: takes, or the settlements of earlier takes.
type step struct {
	settles bool
	number  int // of the takes
}

// requests returns the requests of a step; takes are the takes so far.
func (st step) requests(s *scene, size int, takes []*generation) (list []*rlsv3.RateLimitRequest) {
	for i := range size {
		if st.settles {
			list = append(list, traffic.Settlement(traffic.ReceiptOf(takes[st.number].answers[i])))
		} else {
			list = append(list, s.request(st.number*size+i))
		}
	}
	return list
}
