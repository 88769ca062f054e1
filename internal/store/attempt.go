package store

// Attempt describes how a plan fared in the store that instances share. Package
// rescue uses it to decide when that store is unreachable.
type Attempt struct {
	Health Health
	// Trip identifies the round trip that failed the call: calls that failed in
	// one trip count as one failure. 0 means a trip of the call's own.
	Trip uint64
	// Unsent reports that the failed call was certainly not sent, and therefore
	// not counted.
	Unsent bool
	// Late is the failed call if it was sent and is still under way; else nil.
	Late Late
}

// Late is a call whose caller left before its answer.
type Late interface {
	// Result reports whether the call has ended. If it has an answer, Result fills a;
	// p must equal the plan of the call. An error that wraps redisconn.ErrUnsent means
	// that nothing was counted; after another one the call may have been counted.
	// After Result has reported the end, it must not be called again.
	Result(p *Plan, a *Answers) (ended bool, err error)
}

// Health is what one attempt shows about the shared store as a whole.
type Health uint8

// The findings of an attempt.
const (
	// Unknown shows nothing: the call was refused from memory, or failed at one
	// node of several.
	Unknown Health = iota
	// Starved shows nothing either: the call left the store too little time, or
	// its time passed in this process, which is short of CPU. The store may
	// have counted the call.
	Starved
	// Answered means that the store answered.
	Answered
	// Failed means that the store gave no usable answer. Several failures in a
	// row, or among few answers, mean that it is unreachable.
	Failed
	// Unreachable means that the store cannot be reached, or cannot count for
	// any caller.
	Unreachable
)
