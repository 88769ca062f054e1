package machine

import (
	"math/big"

	"github.com/koalagate/koalagate/internal/store"
)

// level is the number of tokens in a bucket at an instant, for a rule with that time, and
// when the bucket is full for that rule.
type level struct {
	tokens         *big.Rat // nil is full
	at, time, full int64
}

// depth returns the burst of a rule. If its count is 0, nothing fits.
func depth(r *store.Rule) *big.Rat {
	if r.Count == 0 {
		return new(big.Rat)
	}
	return big.NewRat(r.Burst, 1)
}

// rate returns the tokens that a rule refills per ms. With a count of 0 it is that of
// a count of 1, so that what is below empty is paid at some time.
func rate(r *store.Rule) *big.Rat { return big.NewRat(max(r.Count, 1), r.Time*1000) }

// lowest returns the level that is 2^53 token-milliseconds below full.
func lowest(r *store.Rule) *big.Rat {
	return new(big.Rat).Sub(depth(r), big.NewRat(1<<53, r.Time*1000))
}

// tokens returns the number of tokens. A bucket that is full for the rule that used
// it last is full. Otherwise its level stays when burst or count change; if time has
// changed, whole tokens do.
func (t *tally) tokens(r *store.Rule, at instant) *big.Rat {
	if t.bucket.tokens == nil || at.now >= t.bucket.full {
		return depth(r)
	}
	tokens := new(big.Rat).Set(t.bucket.tokens)
	if t.bucket.time != r.Time {
		tokens.SetInt(floor(tokens))
	}
	tokens = larger(smaller(tokens, depth(r)), lowest(r))
	if at.now > t.bucket.at {
		tokens.Add(tokens, new(big.Rat).Mul(rate(r), big.NewRat(at.now-t.bucket.at, 1)))
	}
	return smaller(tokens, depth(r))
}

func (t *tally) fill(r *store.Rule, now int64, tokens *big.Rat) {
	at := max(now, t.bucket.at)
	tokens = larger(smaller(tokens, depth(r)), lowest(r))
	t.bucket = level{tokens, at, r.Time, at + refill(r, new(big.Rat).Sub(depth(r), tokens))}
}

// addToken takes the weight. Only a rule with an overdraft, and takes that wait or that a
// marked rule lets pass, go below empty; others leave what is below as it is.
func (t *tally) addToken(r *store.Rule, at instant) {
	tokens := t.tokens(r, at)
	left := new(big.Rat).Sub(tokens, big.NewRat(r.Weight, 1))
	if !r.Overdraft && (at.update || r.Wait == 0 && !r.Marked) {
		left = larger(left, smaller(tokens, new(big.Rat)))
	}
	t.fill(r, at.now, left)
}

func (t *tally) refundToken(r *store.Rule, at instant) {
	if tokens := t.tokens(r, at); tokens.Cmp(depth(r)) < 0 {
		t.fill(r, at.now, tokens.Add(tokens, big.NewRat(r.Weight, 1)))
	}
}

func (t *tally) readToken(r *store.Rule, at instant) view {
	tokens, burst := t.tokens(r, at), depth(r)
	whole, limit := floor(tokens).Int64(), floor(burst).Int64()
	v := view{admits: needed(r) <= whole, limit: limit, remaining: max(whole, 0), retry: -1, hits: limit - whole}
	v.reset = refill(r, new(big.Rat).Sub(burst, tokens))
	if !v.admits && needed(r) <= limit {
		v.retry = refill(r, new(big.Rat).Sub(big.NewRat(needed(r), 1), tokens))
		if v.retry <= min(r.Wait, at.patience) {
			v.admits, v.wait = true, v.retry
		}
	}
	return v
}

// cancelToken gives back what the last of the changes took, less what would have
// overflowed if nobody else had taken since.
func (t *tally) cancelToken(taken []Taken, now int64) {
	c := taken[len(taken)-1]
	r, at := c.rule, instant{now: now}
	tokens := t.tokens(r, at)
	if tokens.Cmp(depth(r)) >= 0 {
		return
	}
	then := instant{now: c.now}
	took := new(big.Rat).Sub(c.before.tokens(r, then), c.after.tokens(r, then))
	// As if all that the take took from this bucket were given back.
	alone := new(big.Rat).Add(c.before.tokens(r, then), new(big.Rat))
	if now > c.after.bucket.at {
		alone.Add(alone, new(big.Rat).Mul(rate(r), big.NewRat(now-c.after.bucket.at, 1)))
	}
	over := larger(new(big.Rat).Sub(alone, depth(r)), new(big.Rat))
	back := larger(new(big.Rat).Sub(took, over), new(big.Rat))
	if back.Sign() > 0 {
		t.fill(r, now, tokens.Add(tokens, back))
	}
}

// refill returns how long it takes to refill so many tokens, in ms.
func refill(r *store.Rule, tokens *big.Rat) int64 {
	return ceil(new(big.Rat).Quo(tokens, rate(r)))
}

func ceil(x *big.Rat) int64 {
	return -floor(new(big.Rat).Neg(x)).Int64()
}

// floor returns the largest integer that is at most x.
func floor(x *big.Rat) *big.Int { return new(big.Int).Div(x.Num(), x.Denom()) }

func larger(x, y *big.Rat) *big.Rat {
	if x.Cmp(y) < 0 {
		return y
	}
	return x
}

func smaller(x, y *big.Rat) *big.Rat {
	if x.Cmp(y) > 0 {
		return y
	}
	return x
}
