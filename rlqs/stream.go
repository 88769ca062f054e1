package rlqs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/wire"
)

const (
	// every is the time between two occasions for changed shares.
	every = time.Second
	// sendTimeout is the time that a peer may leave a message unread.
	sendTimeout = 10 * time.Second
	// concurrent is the number of steps of a stream that are under way at a time.
	concurrent = 16
	// together is how long what is due waits for more, to be sent in one message.
	together = 200 * time.Millisecond
)

var errEnds = status.Error(codes.Unavailable, "the stream ends")

// stream is a stream of one Envoy, for one domain. The goroutine of run uses it alone, apart
// from what mu guards.
type stream struct {
	server   *Server
	grpc     grpc.ServerStream
	identity string
	nonce    string // names the stream, and an Envoy without an identity
	domain   string
	basis    engine.Basis // of the assignments

	mu      sync.Mutex // guards buckets, and what Stats reads of them
	buckets map[string]*bucket

	reply   []byte
	key     []byte // memory of ids
	touched []*bucket
}

// run answers reports, and once a second changes what needs to be changed, until the stream
// or the server ends.
func (t *stream) run() error {
	ctx, cancel := context.WithCancel(t.grpc.Context())
	defer cancel()
	reports, read := make(chan received), make(chan struct{})
	go t.receive(ctx, reports, read)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return errEnds
		case r := <-reports:
			if errors.Is(r.err, io.EOF) {
				return nil
			}
			if err = r.err; err == nil {
				t.server.counts.received.Add(1)
				err = t.report(ctx, r.message.Content())
				read <- struct{}{} // receive waits for it
			}
		case <-tick.C:
			err = t.renew(ctx)
		}
		if err == nil {
			err = t.send(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// received is a message, or the error that ended the stream.
type received struct {
	message *wire.Message
	err     error
}

// receive receives messages, one after the other, until the stream ends, which the end of run
// causes.
func (t *stream) receive(ctx context.Context, to chan<- received, read <-chan struct{}) {
	var m wire.Message
	for {
		err := t.grpc.RecvMsg(&m)
		select {
		case to <- received{&m, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		<-read
	}
}

// report handles a report about buckets.
func (t *stream) report(ctx context.Context, report []byte) error {
	domain, err := domainOf(report)
	switch {
	case err != nil:
		return status.Errorf(codes.InvalidArgument, "unreadable report: %v", err)
	case domain == "":
		return status.Error(codes.InvalidArgument, "the domain is empty; set `domain` in Envoy's filter")
	case t.domain == "":
		t.domain, t.basis = domain, t.server.gate.Engine.Basis(doorname.Quota)
	case t.domain != domain:
		return status.Error(codes.InvalidArgument, "the domain of the stream changes; want a stream for each domain")
	}
	now := time.Now()
	t.touched = t.touched[:0]
	if err := eachUsage(report, func(u *usage) { t.use(u, now) }); err != nil {
		return status.Errorf(codes.InvalidArgument, "unreadable report: %v", err)
	}
	slices.SortStableFunc(t.touched, func(a, b *bucket) int { return cmp.Compare(a.idle, b.idle) }) // those in use first
	return t.step(ctx)
}

// use adds what a report says of one bucket.
func (t *stream) use(u *usage, now time.Time) {
	b := t.find(u, now)
	if b == nil {
		return
	}
	if !b.reported {
		t.touched = append(t.touched, b)
	}
	b.add(u, now)
}

// find returns the bucket of a usage, a new one if it is unknown, and nil for one that exceeds
// a bound: while it is in use, no_assignment_behavior decides, and then Envoy forgets it.
func (t *stream) find(u *usage, now time.Time) *bucket {
	var err error
	bound := BoundBuckets
	switch t.key, err = appendID(t.key[:0], u.id); {
	case err != nil:
		t.server.exceeded(BoundID)
		return nil
	case len(t.key) == 0:
		return nil // Envoy would not accept an answer to an empty id
	case len(t.key) > maxID:
		bound = BoundID
	default:
		if b := t.buckets[string(t.key)]; b != nil {
			return b
		}
		if len(t.buckets) < maxBucketsOfStream && t.server.reserve() {
			return t.add(string(t.key), u, now)
		}
	}
	t.server.exceeded(bound)
	if u.allowed == 0 && u.denied == 0 {
		t.reply = appendAbandon(t.reply, string(t.key))
	}
	return nil
}

// add adds a bucket.
func (t *stream) add(id string, u *usage, now time.Time) *bucket {
	b := &bucket{id: id}
	b.entries, _ = readID([]byte(id)) // appendID wrote it
	b.holder = t.holderOf(cmp.Or(t.identity, t.nonce), id)
	if u.elapsed >= 1 {
		b.returns, b.strange, b.quiet = true, t.identity == "", now.Add(engine.AssignmentTime+onTheWay)
	}
	t.mu.Lock()
	t.buckets[id] = b
	t.mu.Unlock()
	return b
}

// holderOf returns the name of the holder of a bucket.
func (t *stream) holderOf(who, id string) holder {
	name := wire.AppendBytes(nil, 1, []byte(who))
	name = wire.AppendBytes(name, 2, []byte(t.domain))
	return sha256.Sum256(wire.AppendBytes(name, 3, []byte(id)))
}

// renew changes the shares of buckets in use, and all of them if rules, exceptions or the mode
// of the door have changed.
func (t *stream) renew(ctx context.Context) error {
	if t.domain == "" {
		return nil
	}
	basis := t.server.gate.Engine.Basis(doorname.Quota)
	isChanged := basis != t.basis
	t.basis, t.touched = basis, t.touched[:0]
	for _, b := range t.buckets {
		if isChanged || b.isBusy() {
			t.touched = append(t.touched, b)
		}
	}
	return t.step(ctx)
}

// step has the engine assign shares to the touched buckets, and appends what is due to the
// reply. If that takes long, it sends parts of the reply in between.
func (t *stream) step(ctx context.Context) error {
	for rest := t.touched; ; {
		n := t.stepSome(ctx, rest)
		for _, b := range rest[:n] {
			switch {
			case b.isAbandoned():
				t.abandon(b)
			case b.due != nil:
				t.reply, b.due = appendAssignment(t.reply, b.id, b.due), nil
			}
		}
		if rest = rest[n:]; len(rest) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return errEnds
		}
		if err := t.send(ctx); err != nil {
			return err
		}
	}
}

// stepSome has the engine assign shares to the first of some buckets, as many as it can in the
// time that what is due may wait. It returns their number.
func (t *stream) stepSome(ctx context.Context, of []*bucket) int {
	var at atomic.Int64
	begin := time.Now()
	work := func() {
		for i := at.Add(1) - 1; i < int64(len(of)); i = at.Add(1) - 1 {
			of[i].step(ctx, t)
			if time.Since(begin) >= together {
				return
			}
		}
	}
	if len(of) == 1 {
		work()
	} else {
		var workers sync.WaitGroup
		for range min(concurrent, len(of)) {
			workers.Go(work)
		}
		workers.Wait()
	}
	return int(min(at.Load(), int64(len(of))))
}

// addTo adds the buckets of the stream to statistics.
func (t *stream) addTo(all *Stats, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.buckets {
		if b.kind == engine.AssignShare && b.has(now, 0) {
			all.Rate += b.rate
			all.Lent = max(all.Lent, b.lent)
		}
	}
}

// abandon has Envoy forget a bucket.
func (t *stream) abandon(b *bucket) {
	t.reply = appendAbandon(t.reply, b.id)
	t.mu.Lock()
	delete(t.buckets, b.id)
	t.mu.Unlock()
	t.server.buckets.Add(-1)
}

// send sends the reply if there is one. A peer that does not read it loses its stream.
func (t *stream) send(ctx context.Context) error {
	if len(t.reply) == 0 {
		return nil
	}
	reply, sent := wire.NewReply(t.reply), make(chan error, 1)
	t.reply = nil                                 // a large one would keep its memory
	go func() { sent <- t.grpc.SendMsg(reply) }() // the end of run ends it
	late := time.NewTimer(sendTimeout)
	defer late.Stop()
	select {
	case err := <-sent:
		t.server.counts.sent.Add(1)
		return err
	case <-ctx.Done():
		return errEnds
	case <-late.C:
		t.server.exceeded(BoundStreams)
		return status.Error(codes.ResourceExhausted, "the peer does not read its assignments")
	}
}
