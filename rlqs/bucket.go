package rlqs

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/loglimit"
	"github.com/koalagate/koalagate/internal/mapping"
)

// The times of the protocol.
const (
	// onTheWay is how much longer the store reserves a share.
	onTheWay = 500 * time.Millisecond
	// renewal is the rest of a blanket rule's time in which it is renewed at a report, and
	// nearlyOver that in which it is renewed, or nothing counts on a share, at any time.
	renewal    = 6 * time.Second
	nearlyOver = 2 * time.Second
	// idleReports is the number of reports without requests after which a bucket is abandoned.
	idleReports = 6
)

// holder is the name of an Envoy's bucket in the store.
type holder [sha256.Size]byte

// bucket is what a stream knows of a bucket of its Envoy.
type bucket struct {
	id      string // a BucketId in wire form
	entries []mapping.Entry
	holder  holder
	returns bool // Envoy had another stream before, and no usage of this one is recorded
	strange bool // Envoy came back under another name: its first counts are of another holder

	reported        bool // a report came after the last usage
	allowed, denied uint64
	at              time.Time // of the last report
	elapsed         time.Duration
	idle            int // reports without requests since the last one with some

	kind  engine.AssignmentKind // what Envoy has: AssignNone, AssignAllow, AssignDeny or AssignShare
	until time.Time             // when it ends
	quiet time.Time             // until when Envoy may have an assignment of another stream
	due   *engine.Assignment    // to be sent

	degraded bool // this instance's own counters gave the last answer, in place of Redis
	// unsure says that the last call failed, or that other counters have answered than before:
	// they may have assigned another share than Envoy has.
	unsure bool
	lent   float64 // the part of the limit that all holders have
	rate   float64 // hits per second
}

// add adds the counts of a report.
func (b *bucket) add(u *usage, now time.Time) {
	if !b.reported && !b.at.IsZero() {
		b.elapsed = now.Sub(b.at)
	}
	b.at, b.reported = now, true
	b.allowed, b.denied = sum(b.allowed, u.allowed), sum(b.denied, u.denied)
	if b.idle++; u.allowed > 0 || u.denied > 0 {
		b.idle = 0
	}
}

// sum adds counts up to the largest number.
func sum(a, b uint64) uint64 {
	if s := a + b; s >= a {
		return s
	}
	return ^uint64(0)
}

// isBusy reports whether the last report had requests.
func (b *bucket) isBusy() bool { return b.idle == 0 }

// isAbandoned reports whether the bucket has been without requests for so long that Envoy is to
// forget it.
func (b *bucket) isAbandoned() bool { return b.idle >= idleReports }

// has reports whether Envoy has something that lasts for a time.
func (b *bucket) has(now time.Time, rest time.Duration) bool {
	return b.kind != engine.AssignNone && b.until.Sub(now) > rest
}

// usage returns the usage of the bucket since the last one.
func (b *bucket) usage(t *stream, now time.Time) engine.Usage {
	return engine.Usage{
		Holder: string(b.holder[:]), Stream: t.nonce, Returns: b.returns, Lasts: engine.AssignmentTime,
		Reported: b.reported, Allowed: b.allowed, Denied: b.denied, Foreign: b.strange, Elapsed: b.elapsed,
		// A blanket rule and the end of a share have emptied Envoy's bucket.
		Fresh: b.kind != engine.AssignShare && !now.Before(b.quiet) || b.kind == engine.AssignShare && !b.has(now, b.margin()),
	}
}

// margin returns how long before its end Envoy's share counts as over: the store may take
// another one, which ends later, for Envoy's.
func (b *bucket) margin() time.Duration {
	if b.unsure {
		return nearlyOver
	}
	return 0
}

// step has the engine assign the share of a bucket, and sets what is due. A share of one that is
// abandoned goes back; after an error it ends by itself.
func (b *bucket) step(ctx context.Context, t *stream) {
	s, now := t.server, time.Now()
	u := b.usage(t, now)
	u.Leave = b.isAbandoned()
	wasReported := b.reported
	b.reported, b.allowed, b.denied, b.elapsed = false, 0, 0, 0
	a, err := s.assign(ctx, t.domain, b, &u)
	if err != nil {
		b.unsure = true
		if ctx.Err() == nil {
			s.failed.Warn("a share of a quota could not be assigned; Envoys keep what they have until it ends", "error", err)
		}
		return
	}
	if wasReported {
		b.returns, b.strange = false, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.Degraded != b.degraded {
		b.degraded, b.unsure = a.Degraded, true
	}
	if b.unsure && a.Tokens > 0 && b.kind == engine.AssignShare && b.has(now, nearlyOver) {
		a.Kind = engine.AssignShare
	}
	b.unsure = b.unsure && a.Kind == engine.AssignKeep
	b.take(s, a, now, wasReported)
}

// take decides what of an assignment Envoy gets.
func (b *bucket) take(s *Server, a *engine.Assignment, now time.Time, reported bool) {
	if a.Limit > 0 {
		b.lent = float64(a.Lent) / float64(a.Limit)
	}
	switch a.Kind {
	case engine.AssignNone:
		s.unassigned.log(a, "no share of a limit can be assigned; no_assignment_behavior of Envoy's filter decides")
		return
	case engine.AssignKeep:
		return
	case engine.AssignSpent:
		if a.Full {
			s.unassigned.log(a, "no further share of a limit can be assigned; Envoys without one refuse all")
		}
		if b.kind != engine.AssignAllow && (b.has(now, nearlyOver) || now.Before(b.quiet)) {
			return
		}
		// Without anything, Envoy might let all requests pass.
		a.Kind, a.Lasts = engine.AssignDeny, engine.AssignmentTime
	case engine.AssignAllow, engine.AssignDeny:
		rest := nearlyOver
		if reported {
			rest = renewal
		}
		if b.kind == a.Kind && b.has(now, rest) {
			return
		}
	}
	b.kind, b.until, b.quiet, b.due = a.Kind, now.Add(a.Lasts), time.Time{}, a
	if a.Kind == engine.AssignShare {
		b.rate = float64(a.Tokens) / float64(a.Seconds)
	}
}

// unassigned logs rules whose limits cannot be shared, or not by more Envoys, each once in a while.
type unassigned struct {
	logger *slog.Logger
	lines  loglimit.Lines[int64]
}

func (l *unassigned) log(a *engine.Assignment, what string) {
	var number int64
	if a.Rule != nil {
		number = a.Rule.Return
	}
	if skipped, due := l.lines.Due(number); due {
		l.logger.Warn(what, "rule", number, "word", a.Word, "reason", a.Reason, "since_last_line", skipped)
	}
}
