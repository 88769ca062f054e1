package rlqs_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rlqsv3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/rlqs"
)

type (
	reports = rlqsv3.RateLimitQuotaUsageReports
	usages  = []*rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage
)

// edge is a report in the usual domain.
func edge(of ...*rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage) *reports {
	return &reports{Domain: "edge", BucketQuotaUsages: of}
}

// named is a usage of a bucket with this id.
func named(id map[string]string, elapsed *durationpb.Duration, allowed uint64) *rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage {
	return &rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: &rlqsv3.BucketId{Bucket: id}, TimeElapsed: elapsed, NumRequestsAllowed: allowed}
}

// unknown is a report with bytes that are no usage.
func unknown(content string) *reports {
	r := edge(used("ann", 0, 1, 0))
	r.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), content))
	return r
}

// Reports that no Envoy sends end their own stream at most.
func TestOddReports(t *testing.T) {
	const share = "ann: 10, 20 per 1s, for 7s"
	for name, test := range map[string]struct {
		reports []*reports
		code    codes.Code
		want    string // actions
		usages  string
		bound   string
	}{
		"no domain":             {reports: []*reports{{BucketQuotaUsages: usages{used("ann", 0, 1, 0)}}}, code: codes.InvalidArgument},
		"another domain":        {reports: []*reports{edge(), {Domain: "other"}}, code: codes.InvalidArgument},
		"nothing":               {reports: []*reports{edge()}},
		"an unreadable usage":   {reports: []*reports{unknown("\xff")}, code: codes.InvalidArgument},
		"an unreadable id":      {reports: []*reports{unknown("\x0a\x01\xff")}, want: share, usages: "report 1+0 after 0 s fresh", bound: rlqs.BoundID},
		"an unreadable entry":   {reports: []*reports{unknown("\x0a\x03\x0a\x01\x7f")}, want: share, usages: "report 1+0 after 0 s fresh", bound: rlqs.BoundID},
		"a text of other bytes": {reports: []*reports{unknown("\x0a\x06\x0a\x04\x0a\x02t\xff")}, want: share, usages: "report 1+0 after 0 s fresh", bound: rlqs.BoundID},
		"no id":                 {reports: []*reports{edge(&rlqsv3.RateLimitQuotaUsageReports_BucketQuotaUsage{NumRequestsAllowed: 1})}},
		"an empty id":           {reports: []*reports{edge(named(nil, nil, 1))}},
		"an entry without key":  {reports: []*reports{edge(named(map[string]string{"": ""}, nil, 1))}, want: ": ALLOW_ALL for 7s"},
		"a repeated bucket":     {reports: []*reports{edge(used("ann", 0, 1, 0), used("ann", 0, 2, 5))}, want: share, usages: "report 3+5 after 0 s fresh"},
		"huge counts":           {reports: []*reports{edge(used("ann", 0, 1<<63, math.MaxUint64), used("ann", 0, 1<<63, 9))}, want: share, usages: fmt.Sprintf("report %d+%d after 0 s fresh", int64(1<<32), int64(1<<32))},
		"a huge time":           {reports: []*reports{edge(used("ann", math.MaxInt64, 1, 0))}, want: share, usages: "report 1+0 after 0 s"},
		"a time below 0":        {reports: []*reports{edge(used("ann", math.MinInt64, 1, 0))}, want: share, usages: "report 1+0 after 0 s fresh"},
		"no time":               {reports: []*reports{edge(named(map[string]string{"tenant": "ann"}, nil, 1))}, want: share, usages: "report 1+0 after 0 s fresh"},
		"a long id in use":      {reports: []*reports{edge(used(strings.Repeat("l", 2000), 0, 1, 0))}, bound: rlqs.BoundID},
		"an idle long id":       {reports: []*reports{edge(used(strings.Repeat("l", 2000), 5, 0, 0))}, want: strings.Repeat("l", 2000) + ": abandon", bound: rlqs.BoundID},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) {
				d := open(t, limited)
				g := d.connect("edge-1")
				for _, r := range test.reports {
					if err := g.stream.Send(r); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				g.want("answered", test.want)
				if g.code() != test.code {
					t.Errorf("the stream ended with %v; want %v", g.code(), test.code)
				}
				wantUsages(t, d, "used", test.usages)
				if got := strings.Join(d.exceeded(), ","); got != test.bound {
					t.Errorf("exceeded %q; want %q", got, test.bound)
				}
			})
		})
	}
}

// The entries of an id may come in any order: they name one bucket.
func TestOrderOfEntriesMakesNoDifference(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		g := d.connect("edge-1")
		entry := func(key, value string) []byte {
			return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType),
				protowire.AppendString(protowire.AppendTag(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key), 2, protowire.BytesType), value))
		}
		a, b := entry("tenant", "ann"), entry("plan", "gold")
		for _, id := range [][]byte{append(slices.Clone(a), b...), append(slices.Clone(b), a...)} {
			u := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), id)
			r := edge()
			r.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), u))
			if err := g.stream.Send(r); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		used := d.store.take()
		if len(used) != 2 || used[0].Holder != used[1].Holder {
			t.Errorf("%d usages of one bucket by one holder; want 2: %+v", len(used), used)
		}
		if got := d.rlqs.Stats().Buckets; got != 1 {
			t.Errorf("%d buckets; want 1", got)
		}
	})
}

// A flood of ids gets no memory beyond the bound, costs others nothing, and Envoy forgets it.
func TestFloodOfBuckets(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		g := d.connect("edge-1")
		const most, more = 10_000, 100_000
		flood := func(elapsed int64, allowed uint64) *reports {
			r := edge()
			for i := range more {
				r.BucketQuotaUsages = append(r.BucketQuotaUsages, used(fmt.Sprintf("%030d", i), elapsed, allowed, 0))
			}
			return r
		}
		d.store.set(store.Assignment{}, nil)
		large := flood(0, 1)
		if n := proto.Size(large); n < 4<<20 {
			t.Fatalf("the report has %d bytes; want more than 4 MB", n)
		}
		g.report(large.GetBucketQuotaUsages()...)
		if got := d.rlqs.Stats().Buckets; got != most || g.code() != codes.OK {
			t.Errorf("%d buckets, and the stream ended with %v; want %d, and a stream", got, g.code(), most)
		}
		g.got()
		g.report(flood(5, 0).GetBucketQuotaUsages()...)
		if n := strings.Count(g.got(), ": abandon"); n != more-most {
			t.Errorf("%d idle buckets were abandoned; want %d", n, more-most)
		}
		other := d.connect("edge-2")
		d.store.set(granted, nil)
		other.report(used("ann", 0, 1, 0))
		other.want("another Envoy", "ann: 10, 20 per 1s, for 7s")
		g.leave()
		pass(0)
		if got := d.rlqs.Stats().Buckets; got != 1 {
			t.Errorf("%d buckets after the stream; want 1", got)
		}
	})
}

// Streams that share the bound on buckets of an instance leave no more than it.
func TestBucketsOfAnInstanceAreBounded(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		d.store.set(store.Assignment{}, nil)
		const each, most = 9_000, 50_000
		for stream := range 6 {
			var list usages
			for i := range each {
				list = append(list, used(fmt.Sprintf("%d-%d", stream, i), 0, 1, 0))
			}
			d.connect("").report(list...)
		}
		if got := d.rlqs.Stats().Buckets; got != most || len(d.exceeded()) != 6*each-most {
			t.Errorf("%d buckets, and a bound exceeded %d times; want %d and %d", got, len(d.exceeded()), most, 6*each-most)
		}
	})
}

// An Envoy that reports what it was never granted takes a bucket of the limit from the others:
// they have their shares again when that is refilled.
func TestFalseReportsTakeABucketAtMost(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		d.store.answer = func(u *store.Usage) (store.Assignment, error) { return d.store.Store.Assign(t.Context(), u) }
		honest, liar := d.connect("edge-1"), d.connect("edge-2")
		honest.report(used("ann", 0, 1, 0))
		liar.report(used("ann", 0, math.MaxUint64, math.MaxUint64))
		if got := d.rlqs.Stats(); got.Debt < 200 || got.Debt > 1000 {
			t.Errorf("a debt of %d hits; want a bucket of 200, and what it held", got.Debt)
		}
		liar.leave()
		for range 3 {
			pass(5 * time.Second)
			honest.report(used("ann", 5, 0, 500))
		}
		if got := d.rlqs.Stats().Rate; got < 80 {
			t.Errorf("the other Envoy has %v hits per second after 15 s; want nearly 100", got)
		}
	})
}

// A peer that never reads loses its stream.
func TestPeersThatDoNotReadLoseTheirStreams(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		stream, err := d.client.StreamRateLimitQuotas(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r := edge()
		for i := range 5000 {
			r.BucketQuotaUsages = append(r.BucketQuotaUsages, used(fmt.Sprintf("%0200d", i), 0, 1, 0))
		}
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		if got := d.rlqs.Stats(); got.Streams != 0 || got.Buckets != 0 {
			t.Errorf("%+v after half a minute; want no stream", got)
		}
		if got := d.exceeded(); !slices.Equal(got, []string{rlqs.BoundStreams}) {
			t.Errorf("exceeded %.100q; want %s", got, rlqs.BoundStreams)
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	in(t, func(t *testing.T) {
		d := open(t, limited)
		const most = 1000
		var last *gateway
		for range most + 1 {
			last = d.connect("")
			synctest.Wait()
		}
		if last.code() != codes.ResourceExhausted || d.rlqs.Stats().Streams != most {
			t.Errorf("the stream above the maximum ended with %v, and %d are open", last.code(), d.rlqs.Stats().Streams)
		}
	})
}
