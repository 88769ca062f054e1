package fleet

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// State is the state of the published rules, as a heartbeat reads it.
type State struct {
	Now     time.Time // Redis's clock
	InForce uint64    // 0 before the first version
	At      time.Time // the instant at which InForce came or comes into force
	// Last is the number that was used last, as Redis states it; see Standing.
	Last uint64
	// Proposed is the version that waits for the instances, 0 for none.
	Proposed uint64
	// Trial is the version of the last trial, and TrialState its state: trialRunning,
	// ended or aborted.
	Trial      uint64
	TrialState string
	// The sums are those of the manifests of InForce, Proposed and Trial, by which an instance
	// recognizes a number that stands for another version after a loss of data. "" is unknown:
	// an older program wrote it.
	InForceSum, ProposedSum, TrialSum string
	// Signature is the signature in the record of InForce, "" without a record.
	Signature string
	// seen is what Redis holds about InForce and Last; it changes with them.
	seen string
}

// Heartbeat is the report of an instance about itself.
type Heartbeat struct {
	ID   string
	Text []byte // description in JSON, see Instance
	// About is the proposed version that Answer answers for: ready, or why not. 0: none.
	About  uint64
	Answer string
	Sum    string // State.ProposedSum of the version that Answer answers for
	Leaves bool   // the instance ends
}

// trialRunning is the state of a trial that has not ended.
const trialRunning = "running"

// ready is the answer of an instance that can apply a proposed version.
const ready = "ready"

// Beat writes a heartbeat, and brings the proposed version into force if all instances
// are ready.
func (r *Records) Beat(ctx context.Context, h *Heartbeat) (State, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	leaves := 0
	if h.Leaves {
		leaves = 1
	}
	reply, err := beat().Run(ctx, r.client, r.keys.all(), r.keys.arguments(h.ID, h.Text, h.About, h.Answer, leaves, h.Sum)...).StringSlice()
	return stateOf(reply, err)
}

// State reads the state without a heartbeat. On a Cluster the node with the records states
// the time: the clocks of nodes may differ.
func (r *Records) State(ctx context.Context) (State, error) {
	ctx, cancel := redisconn.Call(ctx, r.client)
	defer cancel()
	return stateOf(readState().Run(ctx, r.client, r.keys.all(), r.keys.arguments()...).StringSlice())
}

// stateOf reads the reply of `report` in shared.lua.
func stateOf(reply []string, err error) (State, error) {
	if err != nil {
		return State{}, unavailable(err)
	}
	if len(reply) != 12 {
		return State{}, fmt.Errorf("the state of the fleet has a reply of %d parts; want 12", len(reply))
	}
	return State{
		Now: millis(reply[0]), InForce: numberOf(reply[1]), At: millis(reply[2]), Last: numberOf(reply[3]),
		Proposed: numberOf(reply[4]), Trial: numberOf(reply[5]), TrialState: reply[6],
		InForceSum: reply[7], ProposedSum: reply[8], TrialSum: reply[9], Signature: reply[10], seen: reply[11],
	}, nil
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
