package rlqs

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/koalagate/koalagate/internal/mapping"
	"github.com/koalagate/koalagate/internal/wire"
)

// The tags of a RateLimitQuotaUsageReports and of the messages in it:
// envoy/service/rate_limit_quota/v3/rlqs.proto and google/protobuf/duration.proto.
const (
	tagDomain = 1<<3 | wire.Bytes
	tagUsage  = 2<<3 | wire.Bytes

	tagUsageID = 1<<3 | wire.Bytes
	tagElapsed = 2<<3 | wire.Bytes
	tagAllowed = 3<<3 | wire.Varint
	tagDenied  = 4<<3 | wire.Varint

	tagEntry   = 1<<3 | wire.Bytes // of a BucketId
	tagSeconds = 1<<3 | wire.Varint
)

// usage is what a report says of one bucket.
type usage struct {
	id              []byte // a BucketId in wire form
	elapsed         int64  // seconds since the last report, by the clock of Envoy
	allowed, denied uint64
}

// domainOf returns the domain of a report.
func domainOf(report []byte) (domain string, err error) {
	f := wire.Read(report)
	for f.Next() {
		if f.Tag == tagDomain {
			domain = string(f.Content())
		}
	}
	return domain, f.Err
}

// eachUsage calls use for each usage of a report, which is valid until it returns.
func eachUsage(report []byte, use func(*usage)) error {
	var u usage
	f := wire.Read(report)
	for f.Next() {
		if f.Tag != tagUsage {
			continue
		}
		u = usage{}
		if f.Err = u.read(f.Inner()); f.Err == nil {
			use(&u)
		}
	}
	return f.Err
}

func (u *usage) read(f wire.Fields) error {
	for f.Next() {
		switch f.Tag {
		case tagUsageID:
			u.id = f.Content()
		case tagElapsed:
			in := f.Inner()
			for in.Next() {
				if in.Tag == tagSeconds {
					u.elapsed = int64(in.Number)
				}
			}
			f.Err = in.Err
		case tagAllowed:
			u.allowed = f.Number
		case tagDenied:
			u.denied = f.Number
		}
	}
	return f.Err
}

// appendID appends the id of a bucket in wire form with its entries ordered by their keys:
// the order in which Envoy sends them may change.
func appendID(b, id []byte) ([]byte, error) {
	entries, err := readID(id)
	if err != nil {
		return b, err
	}
	slices.SortStableFunc(entries, func(a, b mapping.Entry) int { return strings.Compare(a.Key, b.Key) })
	for i := range entries {
		if i+1 < len(entries) && entries[i+1].Key == entries[i].Key {
			continue // the last of equal keys counts
		}
		inner, from := wire.Begin(b, 1)
		b = wire.End(wire.AppendText(wire.AppendText(inner, 1, entries[i].Key), 2, entries[i].Value), from)
	}
	return b, nil
}

var errNotUTF8 = errors.New("an entry is not UTF-8")

// readID returns the entries of an id in wire form. An id in which a text is not UTF-8 is an
// error: Envoy could not read an answer to it.
func readID(id []byte) (entries []mapping.Entry, err error) {
	text := string(id)
	f := wire.Read(id)
	for f.Next() {
		if f.Tag == tagEntry {
			var e mapping.Entry
			e.Key, e.Value, f.Err = f.Inner().Pair(text)
			if f.Err == nil && !utf8.ValidString(e.Key+e.Value) {
				f.Err = errNotUTF8
			}
			entries = append(entries, e)
		}
	}
	return entries, f.Err
}
