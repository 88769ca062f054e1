package fleet

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Proposal is a version to publish or to try.
type Proposal struct {
	Manifest  []byte // text of the manifest, with Encode
	Signature string // of Manifest, with Sign; "" for none
	Timeout   time.Duration
	Quorum    int           // number of instances that must be ready; 0 for all
	Trial     *TrialOptions // nil brings the version into force
}

// Propose proposes a version whose blobs are in Redis. The error is a ConflictError, a
// RefusedError or an error of Redis.
func (r *Records) Propose(ctx context.Context, p *Proposal) (*Manifest, error) {
	m, err := ParseManifest(p.Manifest, r.o.MaxVersionBytes)
	if err == nil {
		_, err = r.openRecord(m.Number, record(p.Manifest, p.Signature))
	}
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return nil, refused("the version is refused: %v", err)
	}
	if err := r.checkPolicy(ctx); err != nil {
		return nil, err
	}
	var list strings.Builder
	for _, b := range m.Blobs() {
		fmt.Fprintf(&list, "%s:%d,", b.Sum, b.Size)
	}
	kind, length, follow, abort := "publish", int64(0), "", ""
	if t := p.Trial; t != nil {
		kind, length, follow = "trial", t.Length.Milliseconds(), t.Then
		abort = strconv.FormatFloat(t.AbortAbove, 'g', -1, 64)
	}
	ctx, cancel := call(ctx)
	defer cancel()
	reply, err := propose.Run(ctx, r.client, r.keys.all(), r.keys.arguments(
		m.Number, m.Before, record(p.Manifest, p.Signature), p.Timeout.Milliseconds(), p.Quorum, list.String(), kind, length, follow, abort)...).StringSlice()
	switch {
	case err != nil:
		return nil, unavailable(err)
	case len(reply) != 2:
		return nil, fmt.Errorf("a proposal has a reply of %d parts; want 2", len(reply))
	}
	return m, proposed(m, reply[0], reply[1])
}

// proposed returns the error of a reply to a proposal.
func proposed(m *Manifest, word, detail string) error {
	switch word {
	case "proposed":
		return nil
	case "busy":
		return &ConflictError{InForce: m.Before, Running: numberOf(detail)}
	case "conflict":
		return &ConflictError{InForce: numberOf(detail)}
	case "number":
		return refused("the number %d is not above %s, the highest that was used; publish again", m.Number, detail)
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
	// State is pending, in_force, trial, refused, conflict, lapsed, or unknown for a
	// number that was not proposed within the last hour.
	State string
	// Detail are the findings of the instances that refused, or another reason.
	Detail string
	// At is the instant at which the version comes into force, or the end of its trial.
	At time.Time
	// Ready and Waiting are the ids of live instances by their answers, while it is
	// pending.
	Ready, Waiting []string
}

// Outcome returns the outcome of a proposal.
func (r *Records) Outcome(ctx context.Context, number uint64) (Outcome, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	reply, err := readOutcome.Run(ctx, r.client, r.keys.all(), r.keys.arguments(number)...).StringSlice()
	if err != nil {
		return Outcome{}, unavailable(err)
	}
	return outcomeOf(number, reply)
}

// outcomeOf reads the reply of outcome.lua.
func outcomeOf(number uint64, reply []string) (Outcome, error) {
	if len(reply) < 4 || len(reply)%2 != 0 {
		return Outcome{}, fmt.Errorf("an outcome has a reply of %d parts; want 4 and two for each instance", len(reply))
	}
	switch {
	case reply[0] != "":
		return Outcome{State: reply[0], Detail: reply[1], At: millis(reply[2])}, nil
	case numberOf(reply[3]) != number:
		return Outcome{State: "unknown"}, nil
	}
	o := Outcome{State: "pending"}
	for answers := reply[4:]; len(answers) > 0; answers = answers[2:] {
		if answers[1] == ready {
			o.Ready = append(o.Ready, answers[0])
		} else {
			o.Waiting = append(o.Waiting, answers[0])
		}
	}
	return o, nil
}
