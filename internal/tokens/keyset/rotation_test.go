package keyset_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/koalagate/koalagate/internal/tokens"
	"github.com/koalagate/koalagate/internal/tokens/keyset"
	"github.com/koalagate/koalagate/rules"
)

var long = flag.Bool("long", false, "run the long form of the tests")

// The numbers of requests while keys rotate, and of those that send tokens at the same time.
const (
	rotationCount     = 6_000
	rotationCountLong = 100_000
	rotationSenders   = 4
)

// refreshed is the refresh of the keys that rotate.
const refreshed = 20 * time.Second

// Keys rotate three times while requests arrive, and the issuer is down for a minute: no token of
// a key in use is refused, and none of a key that the issuer has removed is accepted after the
// refresh, be it remembered or new.
func TestKeysRotateUnderLoad(t *testing.T) {
	t.Parallel()
	count := rotationCount
	if *long {
		count = rotationCountLong
	}
	r := newRotation(t)
	r.publish(0)
	v := tokens.New(r.terms(), r.source(), tokens.Options{Now: r.clock.Now, Remembered: 1000})
	r.phase.Store(&phase{valid: []int{0}})

	defer startSenders(func(sender, n int) { r.send(v, sender, n) })()
	const parts = 3*3 + 1 // of the requests: between changes of keys
	part := func(p *phase) {
		r.phase.Store(p)
		until := r.sent.Load() + int64(count/parts)
		for r.sent.Load() < until && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	for key := range 3 {
		r.publish(key, key+1)
		r.refresh()
		part(&phase{valid: []int{key, key + 1}, gone: r.gone(key)})
		r.publish(key + 1)
		part(&phase{valid: []int{key + 1}, gone: r.gone(key)})
		if key == 1 {
			r.isDown.Store(true)
			for range time.Minute / refreshed {
				r.refresh()
			}
			part(&phase{valid: []int{key + 1}, gone: r.gone(key)})
			r.isDown.Store(false)
		}
		r.refresh()
		part(&phase{valid: []int{key + 1}, gone: r.gone(key + 1)})
	}
	if state := r.keeper.States()[0]; state.Failures != uint64(time.Minute/refreshed) || state.Fetches != 1+3+3+state.Failures {
		t.Errorf("%+v; want three failures in the minute, and one fetch at each refresh", state)
	}
	if n := r.accepted.Load(); n < int64(count)/4 {
		t.Errorf("only %d of %d tokens were accepted", n, r.sent.Load())
	}
	t.Logf("%d requests, %d tokens accepted, %d refused", r.sent.Load(), r.accepted.Load(), r.refused.Load())
}

// startSenders calls send for each sender, with growing n, until stop is called, which waits for
// the senders.
func startSenders(send func(sender, n int)) (stop func()) {
	var senders sync.WaitGroup
	stopped := make(chan struct{})
	for sender := range rotationSenders {
		senders.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stopped:
					return
				default:
					send(sender, n)
				}
			}
		})
	}
	return func() { close(stopped); senders.Wait() }
}

// phase says which keys requests may rely on. Others may be accepted or refused.
type phase struct {
	valid, gone []int
}

// rotation is an issuer with keys by number, and the senders of its tokens.
type rotation struct {
	t      *testing.T
	clock  *clock
	keeper *keyset.Keeper
	issuer *issuer
	at     *rules.JWT

	signers []jose.Signer
	public  []jose.JSONWebKey
	pool    [][]string // tokens by key, which are sent again and again
	isDown  atomic.Bool
	text    atomic.Pointer[string]
	pauses  atomic.Int64 // of the keeper between fetches
	fetched atomic.Int64 // the pauses before the last fetch

	phase                   atomic.Pointer[phase]
	sent, accepted, refused atomic.Int64
}

func newRotation(t *testing.T) *rotation {
	t.Helper()
	r := &rotation{t: t, clock: newClock()}
	for id := range 4 {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		name := strconv.Itoa(id)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: name}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.signers = append(r.signers, signer)
		r.public = append(r.public, jose.JSONWebKey{Key: public, KeyID: name})
		var list []string
		for n := range 50 {
			list = append(list, r.token(id, fmt.Sprintf("pooled-%d", n)))
		}
		r.pool = append(r.pool, list)
	}
	r.issuer = newIssuer(t, func(w http.ResponseWriter, _ *http.Request) {
		r.fetched.Store(r.pauses.Load())
		if r.isDown.Load() {
			panic(http.ErrAbortHandler) // ends the connection
		}
		_, _ = w.Write([]byte(*r.text.Load()))
	})
	r.keeper = keyset.New(keyset.Options{Roots: r.issuer.roots(), Logger: slog.New(slog.DiscardHandler), Now: r.clock.Now, After: func(span time.Duration) <-chan time.Time {
		defer r.pauses.Add(1)
		return r.clock.After(span)
	}})
	t.Cleanup(r.keeper.Close)
	r.at = line(rules.FromAddress, r.issuer.URL)
	r.at.Refresh = refreshed
	return r
}

// terms returns the line of [tokens] of the issuer.
func (r *rotation) terms() *rules.JWT {
	return &rules.JWT{
		Name: "main", Issuer: "https://id.example.com/", Audiences: []string{"api"}, Algorithms: []string{"EdDSA"}, Claims: []rules.Claim{{Path: []string{"sub"}}},
	}
}

// source returns the keys of the issuer, once they are there.
func (r *rotation) source() tokens.Source {
	source := r.keeper.Source(r.at)
	r.keeper.Await()
	if source.Keys() == nil {
		r.t.Fatalf("no keys: %+v", r.keeper.States())
	}
	return source
}

// publish makes the issuer answer with these keys.
func (r *rotation) publish(keys ...int) {
	var set jose.JSONWebKeySet
	for _, key := range keys {
		set.Keys = append(set.Keys, r.public[key])
	}
	text, err := json.Marshal(set)
	if err != nil {
		r.t.Fatal(err)
	}
	list := string(text)
	r.text.Store(&list)
}

// refresh moves the clock by the refresh, and waits for the fetch that is due then.
func (r *rotation) refresh() {
	r.t.Helper()
	until(r.t, "the keeper to pause", func() bool { return r.pauses.Load() > r.fetched.Load() })
	before := r.keeper.States()[0].Fetches
	r.clock.advance(refreshed)
	until(r.t, "a fetch", func() bool { return r.keeper.States()[0].Fetches > before })
}

// gone returns the keys before one.
func (r *rotation) gone(before int) (list []int) {
	for key := range before {
		list = append(list, key)
	}
	return list
}

// token returns a token that a key has signed.
func (r *rotation) token(key int, subject string) string {
	payload := fmt.Sprintf(`{"iss":"https://id.example.com/","aud":"api","sub":%q,"exp":%d}`, subject, r.clock.Now().Unix()+3600)
	signed, err := r.signers[key].Sign([]byte(payload))
	if err != nil {
		r.t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		r.t.Error(err)
	}
	return text
}

// send verifies a token of one of the keys of the phase, every other one for the first time.
func (r *rotation) send(v *tokens.Verifier, sender, n int) {
	before := r.phase.Load()
	all := append(slices.Clone(before.valid), before.gone...)
	key := all[n%len(all)]
	text := r.pool[key][n%len(r.pool[key])]
	if n/len(all)%2 == 0 {
		text = r.token(key, fmt.Sprintf("%d-%d", sender, n))
	}
	outcome, _, err := v.Explain(text)
	after := r.phase.Load()
	r.sent.Add(1)
	if outcome != rules.JWTValid {
		r.refused.Add(1)
		if slices.Contains(before.valid, key) && slices.Contains(after.valid, key) {
			r.t.Errorf("a token of key %d, which the issuer has, is %v: %v", key, outcome, err)
		}
		return
	}
	r.accepted.Add(1)
	if slices.Contains(before.gone, key) {
		r.t.Errorf("a token of key %d, which the issuer has removed, is valid", key)
	}
}
