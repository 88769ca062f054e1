package fleet

import (
	"context"
	"errors"
	"time"
)

// maxStep is the largest step from one number to a later one, far above the number of
// versions of any fleet, so that one record cannot use up the numbers.
const maxStep = 1 << 32

// Standing is what the next version begins from.
type Standing struct {
	Now     time.Time // Redis's clock
	InForce uint64    // 0 if Redis has no valid version in force
	// Last is the highest number of a version. The next version has the number above it.
	Last     uint64
	proposed uint64 // 0 for none
	seen     string
}

// holder are the contents and numbers that an instance knows without Redis.
type holder interface {
	Held(context.Context, Blob) []byte
	Known() uint64
}

// nothing is the holder of a program that is no instance.
type nothing struct{}

// Held implements holder.
func (nothing) Held(context.Context, Blob) []byte { return nil }

// Known implements holder.
func (nothing) Known() uint64 { return 0 }

// Standing returns what the next version begins from.
func (r *Records) Standing(ctx context.Context) (Standing, error) { return r.standing(ctx, nothing{}) }

// Standing returns what the next version begins from, above all numbers that this instance
// has seen.
func (m *Member) Standing(ctx context.Context) (Standing, error) {
	return m.o.Records.standing(ctx, m)
}

// standing counts only numbers whose versions are in Redis or known to by: whoever can write
// to Redis can name any number.
func (r *Records) standing(ctx context.Context, by holder) (Standing, error) {
	now, err := r.State(ctx)
	if err != nil {
		return Standing{}, err
	}
	s := Standing{Now: now.Now, Last: by.Known(), proposed: now.Proposed, seen: now.seen}
	if now.InForce > 0 {
		v, err := r.counted(ctx, by, now.InForce)
		switch {
		case err != nil:
			return Standing{}, err
		case v != nil && r.mayDecide(v.purpose):
			s.InForce = now.InForce
		}
		if v != nil {
			s.Last = max(s.Last, now.InForce)
		}
	}
	numbers, err := r.numbers(ctx, maxHistory)
	if err != nil {
		return Standing{}, err
	}
	numbers = append(numbers, now.InForce, now.Last, now.Proposed, now.Trial)
	for _, n := range numbers {
		if n <= s.Last {
			continue
		}
		v, err := r.counted(ctx, by, n)
		if err != nil {
			return Standing{}, err
		}
		if v != nil {
			s.Last = n
		}
	}
	return s, nil
}

// counted returns the version with a number, without its contents, and nil if the number does
// not count: without a key its record must be valid and its contents intact, with a key it
// must be signed.
func (r *Records) counted(ctx context.Context, by holder, number uint64) (*version, error) {
	if number > by.Known()+maxStep {
		return nil, nil
	}
	value, err := r.readRecord(ctx, number)
	if err != nil && !isWrongType(err) {
		return nil, err
	}
	m, purpose, err := r.openRecord(number, value)
	switch {
	case errors.Is(err, errEarlier):
		return &version{}, nil
	case err != nil:
		return nil, nil //nolint:nilerr // no version of this fleet has the number
	}
	for _, b := range m.Blobs() {
		if r.o.PublicKey != nil || by.Held(ctx, b) != nil {
			continue
		}
		_, err := r.ReadBlob(ctx, b)
		switch {
		case errors.Is(err, ErrBlob) || isWrongType(err):
			return nil, nil
		case err != nil:
			return nil, err
		}
	}
	return &version{manifest: m, purpose: purpose}, nil
}
