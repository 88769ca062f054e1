package machine

import "github.com/koalagate/koalagate/internal/store"

// gateway is a gateway that decides by itself with an assignment, as the quota filter of
// Envoy 1.40 does.
type gateway struct {
	name    string
	stream  int   // the number of its stream to a caller
	shares  bool  // other gateways have its name
	returns bool  // it has a new stream, by which it has not reported yet
	former  int   // the number of its stream before
	speed   int64 // thousandths by which its clock is faster
	rate    int64 // of the assignment, per 10 s
	burst   int64 // 0: it has no assignment, and refuses
	expires int64
	tokens  float64
	filled  int64 // the instant of tokens

	allowed, denied int64 // since the last report
	inbox           []message
	reports         int64 // when it reports next
	occasion        int64 // when the caller of the store looks at its share next
	reported        int64 // when its last report reached the caller
	loses           bool  // its next report is lost
	fresh           bool  // a blanket rule has replaced the bucket
	until           int64 // how long the store counts on its bucket, by its clock
	over            int64 // when the caller believes the assignment to be over; 0 without one
}

// message is a message between a gateway and the caller of the store.
type message struct {
	sent, arrives   int64
	rate            int64 // the highest of the gateway while it is under way
	toCaller        bool
	allowed, denied int64            // to the caller
	assigned        store.Assignment // to the gateway
	afresh          bool             // the store counts on a full bucket
}

// fill fills the bucket, or ends the assignment. It returns the hits by which a fast clock
// fills it more.
func (g *gateway) fill(now int64) (more float64) {
	if g.burst == 0 {
		return 0
	}
	until := min(now, g.expires)
	if until > g.filled {
		hits := float64(g.rate) * float64(until-g.filled) / 10_000
		more = max(hits*float64(g.speed)/1000, 0)
		g.tokens = min(float64(g.burst), g.tokens+hits*float64(1000+g.speed)/1000)
		g.filled = until
	}
	if now >= g.expires {
		g.burst = 0
	}
	return more
}

// ask asks the gateway for n hits, and returns how many it admits.
func (g *gateway) ask(n int64) (admitted int64) {
	if g.burst > 0 {
		admitted = min(n, int64(g.tokens+1e-9))
	}
	g.tokens -= float64(admitted)
	g.allowed, g.denied = g.allowed+admitted, g.denied+n-admitted
	return admitted
}

// apply gives the gateway an assignment. A bucket keeps the ratio of its fill; the first one
// is full. apply reports whether the bucket was full afresh.
func (g *gateway) apply(a *store.Assignment, now int64) (fresh bool) {
	switch {
	case g.burst == 0:
		g.tokens, g.filled, fresh = float64(a.Burst), now, true
	case g.burst != a.Burst:
		g.tokens *= float64(a.Burst) / float64(g.burst)
	}
	g.rate, g.burst, g.expires = a.Rate, a.Burst, now+a.Lasts+g.slow(a.Lasts)
	return fresh
}

// slow returns how much longer a time is by a slow clock.
func (g *gateway) slow(ms int64) int64 { return max(-g.speed*ms/1000, 0) }

// most returns the highest rate and the largest burst that the gateway has, or is about to get.
func (g *gateway) most() (rate, burst int64) {
	rate, burst = g.rate, g.burst
	for i := range g.inbox {
		rate, burst = max(rate, g.inbox[i].assigned.Rate), max(burst, g.inbox[i].assigned.Burst)
	}
	return rate, burst
}
