package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// Proposal is a version to publish or to try.
type Proposal struct {
	Manifest  []byte // text of the manifest, with Encode
	Signature string // of Manifest for Purpose, with Sign; "" for none
	Timeout   time.Duration
	Quorum    int           // number of instances that must be ready; 0 for all
	Trial     *TrialOptions // nil brings the version into force
}

// Purpose returns what the signature of a proposed version must be for.
func (p *Proposal) Purpose() Purpose {
	if p.Trial != nil {
		return ToTry(p.Trial)
	}
	return ToPublish
}

// Propose proposes a version whose blobs are in Redis. The error is a ConflictError, a
// RefusedError or an error of Redis.
func (r *Records) Propose(ctx context.Context, p *Proposal) (*Manifest, error) {
	return r.propose(ctx, p, nothing{})
}

// attempts is how often a proposal begins anew because Redis has changed meanwhile.
const attempts = 3

// propose is Propose for an instance, with the number after all that it knows.
func (r *Records) propose(ctx context.Context, p *Proposal, by holder) (*Manifest, error) {
	m, err := r.checkProposal(p)
	if err != nil {
		return nil, refused("the version is refused: %v", err)
	}
	if err := r.checkPolicy(ctx); err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		now, err := r.standing(ctx, by)
		if err != nil {
			return nil, err
		}
		if m.Before != now.InForce {
			return nil, &ConflictError{InForce: now.InForce}
		}
		if next := now.Last + 1; m.Number != next {
			if now.proposed > 0 {
				return nil, &ConflictError{InForce: now.InForce, Running: now.proposed}
			}
			return nil, refused("the number %d was given to another version, or skips some; want %d; publish again", m.Number, next)
		}
		word, detail, err := r.send(ctx, p, m, now.seen)
		switch {
		case err != nil:
			return nil, err
		case word == "changed" && n < attempts:
			continue
		}
		return m, proposed(m, word, detail)
	}
}

// checkProposal returns the manifest of a proposal, if it is valid.
func (r *Records) checkProposal(p *Proposal) (*Manifest, error) {
	m, err := ParseManifest(p.Manifest, r.o.MaxVersionBytes)
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	_, purpose, err := r.openRecord(m.Number, record(p.Manifest, p.Signature))
	switch {
	case err != nil:
		return nil, err
	case p.Signature != "" && purpose == "":
		return nil, errEarlier
	case p.Signature != "" && purpose != p.Purpose():
		return nil, fmt.Errorf("its signature is for %q; want %q", purpose, p.Purpose())
	}
	return m, nil
}

// send writes a proposal if Redis holds what its publisher has seen, and returns the word
// and the detail of propose.lua.
func (r *Records) send(ctx context.Context, p *Proposal, m *Manifest, seen string) (word, detail string, err error) {
	var list strings.Builder
	for _, b := range m.Blobs() {
		fmt.Fprintf(&list, "%s:%d,", b.Sum, b.Size)
	}
	kind, length, follow, abort := "publish", int64(0), "", ""
	if t := p.Trial; t != nil {
		kind, length, follow = "trial", t.Length.Milliseconds(), t.Then
		abort = shareText(t.AbortAbove)
	}
	signed := 0
	if p.Signature != "" {
		signed = 1
	}
	value := record(p.Manifest, p.Signature)
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	reply, err := propose().Run(ctx, r.client, r.keys.all(), r.keys.arguments(
		m.Number, m.Before, value, p.Timeout.Milliseconds(), p.Quorum, list.String(), kind, length, follow, abort, seen, sumOf(value), signed)...).StringSlice()
	switch {
	case err != nil:
		return "", "", unavailable(err)
	case len(reply) != 2:
		return "", "", fmt.Errorf("a proposal has a reply of %d parts; want 2", len(reply))
	}
	return reply[0], reply[1], nil
}

// proposed returns the error of a reply to a proposal.
func proposed(m *Manifest, word, detail string) error {
	switch word {
	case "proposed":
		return nil
	case "busy":
		return &ConflictError{InForce: m.Before, Running: numberOf(detail)}
	case "changed":
		return refused("what Redis has in force changes all the time; publish again")
	case "nobody":
		return refused("no instance with --rules redis: is live in this Redis; start one, and publish again")
	case "quorum":
		return refused("--quorum is larger than the number of live instances, %s", detail)
	case "missing":
		return &missingError{refused("the content of blob %.12s is not in Redis; publish again", detail)}
	}
	return fmt.Errorf("a proposal has the reply %.100q", word)
}

// The bounds of a proposal's timeout.
const minTimeout, maxTimeout = time.Second, 10 * time.Minute

func (p *Proposal) check() error {
	if p.Timeout < minTimeout || p.Timeout > maxTimeout {
		return fmt.Errorf("its timeout is %v; want %v … %v", p.Timeout, minTimeout, maxTimeout)
	}
	if p.Quorum < 0 {
		return fmt.Errorf("its quorum is %d; want 0 or more", p.Quorum)
	}
	if p.Trial != nil {
		return p.Trial.check()
	}
	return nil
}

// Outcome is the outcome of a proposal.
type Outcome struct {
	// State is pending, ready, in_force, trial, refused, conflict, lapsed, or unknown for a
	// number that was not proposed within the last hour. A signed version is ready when it
	// waits for Enforce.
	State string
	// Detail are the findings of the instances that refused, or another reason.
	Detail string
	// At is the instant at which the version comes into force, or the end of its trial.
	At time.Time
	// Ready and Waiting are the ids of live instances by their answers, while it is pending
	// or ready.
	Ready, Waiting []string
}

// Outcome returns the outcome of a proposal.
func (r *Records) Outcome(ctx context.Context, number uint64) (Outcome, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	reply, err := readOutcome().Run(ctx, r.client, r.keys.all(), r.keys.arguments(number)...).StringSlice()
	if err != nil {
		return Outcome{}, unavailable(err)
	}
	return outcomeOf(number, reply)
}

// outcomeOf reads the reply of outcome.lua.
func outcomeOf(number uint64, reply []string) (Outcome, error) {
	if len(reply) < 5 || len(reply)%2 == 0 {
		return Outcome{}, fmt.Errorf("an outcome has a reply of %d parts; want 5 and two for each instance", len(reply))
	}
	switch {
	case reply[0] != "":
		return Outcome{State: reply[0], Detail: reply[1], At: millis(reply[2])}, nil
	case numberOf(reply[3]) != number:
		return Outcome{State: "unknown"}, nil
	}
	o := Outcome{State: "pending"}
	if reply[4] == ready {
		o.State = ready
	}
	for answers := reply[5:]; len(answers) > 0; answers = answers[2:] {
		if answers[1] == ready {
			o.Ready = append(o.Ready, answers[0])
		} else {
			o.Waiting = append(o.Waiting, answers[0])
		}
	}
	return o, nil
}

// Enforce brings a signed version into force that is ready, by its signature for InForce. It
// does nothing if the version does not wait for it: Outcome says what became of it.
func (r *Records) Enforce(ctx context.Context, number uint64, signature string) error {
	value, err := r.readRecord(ctx, number)
	if err != nil {
		return err
	}
	_, text, err := cutRecord(value)
	if err != nil {
		return refused("version %d: %v", number, err)
	}
	value = record(text, signature)
	switch _, purpose, err := r.openRecord(number, value); {
	case err != nil:
		return refused("version %d is refused: %v", number, err)
	case purpose != InForce:
		return refused("the signature of version %d is for %q; want %q", number, purpose, InForce)
	}
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	if err := enforce().Run(ctx, r.client, r.keys.all(), r.keys.arguments(number, sumOf(value), signature)...).Err(); err != nil {
		return unavailable(err)
	}
	return nil
}
