package store

import "context"

// Lessor is a store that grants parts of limits: hits in advance, which an instance then
// spends without the store.
type Lessor interface {
	// Lease records how much an instance has spent of its part of a counter, and grants
	// more, in one atomic step. After an error the step may have been carried out.
	Lease(ctx context.Context, l *Lease) (Grant, error)
}

// Lease is a request for a part of the limit of one counter. A granted hit is counted at
// once; the store remembers with the counter how many of them may be unspent, over all
// instances, and grants no more than Rule.Lease allows, of a bucket half as much. It grants at
// most an eighth of the remaining hits, only in an open window, and nothing during a ban.
type Lease struct {
	Now  int64 // ms since the epoch; 0: the store's own clock
	Rule Rule  // names the counter and its thresholds; its weight is ignored

	// Era and Ends are as in the Grant of the held part, 0 without one.
	Era, Ends int64
	// Drop is how many hits of the part the store has recorded as unspent, 0 if that is
	// unknown. Keep is how many of them the instance still holds and keeps, until the
	// end of the new grant, and Back how many it gives back: Drop less Keep at most. A
	// request that arrives at Ends or later keeps nothing and gives nothing back.
	Drop, Keep, Back int64
	// Ask is how many more hits the instance wants.
	Ask int64
	// Lasts is how long the part is to last, in ms.
	Lasts int64
}

// Grant is the answer to a Lease.
type Grant struct {
	// Era identifies the parts that were granted since nothing of the counter was held.
	// If it differs from the Lease's, nothing was given back, and the hits that the instance
	// keeps are worthless: the window has closed, the counter is banned, or the store has
	// lost it.
	Era     int64
	Ends    int64 // when the store stops counting on hits of the part to be unspent
	Granted int64
	// Remaining and Reset are as in an Answer, after the grant.
	Remaining, Reset int64
	// Held is how many hits may be unspent over all instances, with the grant.
	Held int64
	Now  int64 // the store's clock at the step, ms since the epoch
}
