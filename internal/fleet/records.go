package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// ConflictError reports that another version is in force than the publisher expected,
// or that another publish runs.
type ConflictError struct {
	InForce uint64 // the version in force
	Running uint64 // the proposed version of the other publish; 0 if none runs
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Running > 0 {
		return fmt.Sprintf("version %d is being published; wait for its end, and compare with it", e.Running)
	}
	if e.InForce == 0 {
		return "no version is in force in Redis; it was flushed or replaced: koalagate publish --restore publishes the rules of an instance again"
	}
	return fmt.Sprintf("version %d came into force meanwhile; compare with it, and publish again", e.InForce)
}

// RefusedError reports that a version cannot be proposed or applied.
type RefusedError struct{ Reason string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason }

// missingError reports that Redis lacks a content of a proposed version.
type missingError struct{ error }

// Unwrap returns the RefusedError.
func (e *missingError) Unwrap() error { return e.error }

func refused(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// State is what a heartbeat reads.
type State struct {
	Now     time.Time // Redis's clock
	InForce uint64    // 0 before the first version
	At      time.Time // the instant at which InForce came or comes into force
	Last    uint64    // the highest number that was used
	// Proposed is the version that waits for the instances, 0 for none.
	Proposed uint64
	// Trial is the version of the last trial, and TrialState its state: running, ended
	// or aborted.
	Trial      uint64
	TrialState string
}

// Heartbeat is what an instance says of itself.
type Heartbeat struct {
	ID      string
	Text    []byte // description in JSON, see Instance
	Highest uint64 // the highest number that it has seen
	// About is the proposed version that Answer answers for: ready, or why not. 0: none.
	About  uint64
	Answer string
	Leaves bool // the instance ends
}

// ready is the answer of an instance that can apply a proposed version.
const ready = "ready"

// Beat writes a heartbeat, and brings the proposed version into force if all instances
// are ready.
func (r *Records) Beat(ctx context.Context, h *Heartbeat) (State, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	leaves := 0
	if h.Leaves {
		leaves = 1
	}
	reply, err := beat.Run(ctx, r.client, r.keys.all(), r.keys.arguments(h.ID, h.Text, h.Highest, h.About, h.Answer, leaves)...).StringSlice()
	if err != nil {
		return State{}, unavailable(err)
	}
	if len(reply) != 7 {
		return State{}, fmt.Errorf("a heartbeat has a reply of %d parts; want 7", len(reply))
	}
	return State{
		Now: millis(reply[0]), InForce: numberOf(reply[1]), At: millis(reply[2]), Last: numberOf(reply[3]),
		Proposed: numberOf(reply[4]), Trial: numberOf(reply[5]), TrialState: reply[6],
	}, nil
}

// State reads the state without a heartbeat.
func (r *Records) State(ctx context.Context) (State, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	pipe := r.client.Pipeline()
	now, head := pipe.Time(ctx), pipe.HMGet(ctx, r.keys.head, "in_force", "at", "last")
	proposal, trial := pipe.HMGet(ctx, r.keys.proposal, "number"), pipe.HMGet(ctx, r.keys.trial, "number", "state")
	if _, err := pipe.Exec(ctx); err != nil {
		return State{}, unavailable(err)
	}
	h, t := words(head.Val(), 3), words(trial.Val(), 2)
	return State{
		Now: now.Val(), InForce: numberOf(h[0]), At: millis(h[1]), Last: numberOf(h[2]),
		Proposed: numberOf(words(proposal.Val(), 1)[0]), Trial: numberOf(t[0]), TrialState: t[1],
	}, nil
}

// words returns the values of n fields, "" for those that do not exist.
func words(values []any, n int) []string {
	list := make([]string, n)
	for i := range min(n, len(values)) {
		list[i], _ = values[i].(string)
	}
	return list
}

// numberOf reads the number of a version, 0 for anything else.
func numberOf(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > maxNumber {
		return 0
	}
	return n
}

// millis reads a time in ms since the epoch; zero for 0.
func millis(text string) time.Time {
	n := numberOf(text)
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(n)).UTC()
}

// Proposal is a version to publish or to try.
type Proposal struct {
	Manifest  []byte // text of the manifest, with Encode
	Signature string // of Manifest, with Sign; "" for none
	Timeout   time.Duration
	Quorum    int           // number of instances that must be ready; 0 for all
	Trial     *TrialOptions // nil brings the version into force
}

// Propose proposes a version whose blobs are in Redis. The error is a ConflictError, a
// RefusedError or that of Redis.
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

// Outcome is what became of a proposal.
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

// Outcome returns what became of a proposal.
func (r *Records) Outcome(ctx context.Context, number uint64) (Outcome, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	pipe := r.client.Pipeline()
	done := pipe.HMGet(ctx, r.keys.outcome(number), "state", "detail", "at")
	running := pipe.HMGet(ctx, r.keys.proposal, "number")
	answers := pipe.HGetAll(ctx, r.keys.answers)
	if _, err := pipe.Exec(ctx); err != nil {
		return Outcome{}, unavailable(err)
	}
	if w := words(done.Val(), 3); w[0] != "" {
		return Outcome{State: w[0], Detail: w[1], At: millis(w[2])}, nil
	}
	if numberOf(words(running.Val(), 1)[0]) != number {
		return Outcome{State: "unknown"}, nil
	}
	o := Outcome{State: "pending"}
	instances, err := r.Instances(ctx)
	if err != nil {
		return o, err
	}
	for _, one := range instances {
		if !one.Live {
			continue
		}
		if answers.Val()[one.ID] == ready {
			o.Ready = append(o.Ready, one.ID)
		} else {
			o.Waiting = append(o.Waiting, one.ID)
		}
	}
	return o, nil
}

// Instance is an instance of the fleet.
type Instance struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Program string    `json:"program_version"`
	Version uint64    `json:"version"` // of the rules that it decides by; 0 for none
	Hash    string    `json:"hash"`
	Since   time.Time `json:"since"` // when it began to decide by them
	// State is ready, not_ready, or gone after three seconds without a heartbeat.
	State string `json:"state"`
	// Store is memory, redis or degraded.
	Store     string            `json:"store"`
	LastError string            `json:"last_error"`
	Modes     map[string]string `json:"modes"`
	Live      bool              `json:"-"`
}

// Instances returns the instances that wrote a heartbeat within the last minute.
func (r *Records) Instances(ctx context.Context) ([]Instance, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	reply, err := listInstances.Run(ctx, r.client, r.keys.all(), r.keys.arguments()...).StringSlice()
	if err != nil {
		return nil, unavailable(err)
	}
	list := []Instance{}
	for ; len(reply) >= 3; reply = reply[3:] {
		one := Instance{}
		if json.Unmarshal([]byte(reply[2]), &one) != nil {
			one = Instance{LastError: "its description in Redis is damaged"}
		}
		age := time.Duration(numberOf(reply[1])) * time.Millisecond
		one.ID = reply[0]
		if one.Live = age <= liveTime; !one.Live {
			one.State = "gone"
		}
		list = append(list, one)
	}
	return list, nil
}

// Version returns the manifest of a version. The error is a RefusedError if the version
// does not exist, or cannot be trusted or read.
func (r *Records) Version(ctx context.Context, number uint64) (*Manifest, error) {
	m, _, err := r.versionRecord(ctx, number)
	return m, err
}

// versionRecord returns the manifest of a version and its record.
func (r *Records) versionRecord(ctx context.Context, number uint64) (*Manifest, []byte, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	value, err := r.client.GetRange(ctx, r.keys.version(number), 0, maxManifest).Bytes()
	switch {
	case err != nil && !errors.Is(err, goredis.Nil):
		return nil, nil, unavailable(err)
	case len(value) == 0:
		return nil, nil, refused("version %d is not in Redis", number)
	}
	m, err := r.openRecord(number, value)
	if err != nil {
		return nil, nil, refused("version %d is refused: %v", number, err)
	}
	return m, value, nil
}

// Listed is a version in the history.
type Listed struct {
	*Manifest
	InForce bool
	Problem string // why the version cannot be used; Manifest then has a number only
}

// Versions returns the history, newest first.
func (r *Records) Versions(ctx context.Context) ([]Listed, error) {
	state, err := r.State(ctx)
	if err != nil {
		return nil, err
	}
	numbers, err := r.numbers(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Listed, 0, len(numbers))
	for _, n := range numbers {
		one := Listed{InForce: n == state.InForce}
		var wrong *RefusedError
		if one.Manifest, err = r.Version(ctx, n); errors.As(err, &wrong) {
			one.Manifest, one.Problem = &Manifest{Number: n}, wrong.Reason
		} else if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// maxHistory is the maximum number of versions that are read from the history.
const maxHistory = 1000

// numbers returns the numbers of the history, newest first.
func (r *Records) numbers(ctx context.Context) ([]uint64, error) {
	ctx, cancel := call(ctx)
	defer cancel()
	texts, err := r.client.ZRevRange(ctx, r.keys.history, 0, maxHistory-1).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	var numbers []uint64
	for _, text := range texts {
		if n := numberOf(text); n > 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers, nil
}

// checkPolicy returns an error if Redis may drop keys that have no expiry.
func (r *Records) checkPolicy(ctx context.Context) error {
	ctx, cancel := call(ctx)
	defer cancel()
	text, err := r.client.Info(ctx, "memory").Result()
	if err != nil {
		return nil // the user may not read it; docs/publishing.md names the policies
	}
	if policy, drops := dropsKeys(text); drops {
		return refused("Redis has maxmemory-policy %s, which may drop published rules at maxmemory; set noeviction or a policy that begins with volatile-", policy)
	}
	return nil
}

// dropsKeys reads the policy from the text of INFO memory, and reports whether Redis may
// drop keys without an expiry.
func dropsKeys(info string) (policy string, drops bool) {
	limit := ""
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "maxmemory":
			limit = value
		case "maxmemory_policy":
			policy = value
		}
	}
	return policy, limit != "0" && strings.HasPrefix(policy, "allkeys-")
}

// Prune removes the versions beyond those that are kept. Blobs that no kept version
// uses expire, so that a publish that has just found one can still use it.
func (r *Records) Prune(ctx context.Context) error {
	state, err := r.State(ctx)
	if err != nil {
		return err
	}
	numbers, err := r.numbers(ctx)
	if err != nil || len(numbers) <= max(r.o.Keep, 2) {
		return err
	}
	used, old := make(map[string]bool), []*Manifest{}
	for i, n := range numbers {
		m, err := r.Version(ctx, n)
		var wrong *RefusedError
		if err != nil && !errors.As(err, &wrong) {
			return err
		}
		if kept := i < max(r.o.Keep, 2) || n == state.InForce; !kept {
			if m == nil {
				m = &Manifest{Number: n}
			}
			old = append(old, m)
		} else if m != nil {
			for _, b := range m.Blobs() {
				used[b.Sum] = true
			}
		} else {
			return nil // the blobs of an unreadable version are unknown: none is removed
		}
	}
	ctx, cancel := call(ctx)
	defer cancel()
	pipe := r.client.Pipeline()
	for _, m := range old {
		for _, b := range m.Blobs() {
			if !used[b.Sum] {
				pipe.PExpire(ctx, r.keys.blob(b.Sum), spareTime)
			}
		}
		pipe.Del(ctx, r.keys.version(m.Number))
		pipe.ZRem(ctx, r.keys.history, m.Number)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return unavailable(err)
	}
	return nil
}
