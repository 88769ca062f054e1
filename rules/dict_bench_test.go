package rules

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

var listEntries = flag.Int("entries", 1_000_000, "the length of the longest word lists that are measured; others have a tenth")

// listKind is a kind of word list. Its entries are derived from numbers; different
// numbers below 2^25 give different entries.
type listKind struct {
	name  string
	entry func(to []byte, n uint32) []byte
	value func(to []byte, n uint32) []byte // one that entry n holds; nil if it is the entry
	short bool                             // looked up as fast as another kind
}

// entries returns the length of the list that is measured.
func (k *listKind) entries() int {
	if k.short {
		return max(*listEntries/10, 1)
	}
	return *listEntries
}

// scatter is a permutation of the numbers of some bits.
func scatter(n uint32, bits int) uint32 { return n * 2654435761 & (1<<bits - 1) }

func appendV4(to []byte, a uint32) []byte {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], a)
	return netip.AddrFrom4(b).AppendTo(to)
}

func appendV6(to []byte, high, low uint64) []byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], high)
	binary.BigEndian.PutUint64(b[8:], low)
	return netip.AddrFrom16(b).AppendTo(to)
}

func documentation(n uint32) uint64 { return 0x20010db8<<32 | uint64(scatter(n, 32)) }

var listKinds = []listKind{
	{"integers_of_10_digits", func(to []byte, n uint32) []byte { return strconv.AppendUint(to, 1_000_000_000+97*uint64(n), 10) }, nil, false},
	{"names_of_13_bytes", func(to []byte, n uint32) []byte { return fmt.Appendf(to, "user-%08d", n) }, nil, true},
	{"mail_addresses_of_24_bytes", func(to []byte, n uint32) []byte { return fmt.Appendf(to, "user%08d@example.com", n) }, nil, false},
	{"IPv4_addresses", func(to []byte, n uint32) []byte { return appendV4(to, scatter(n, 32)) }, nil, true},
	{"IPv6_addresses", func(to []byte, n uint32) []byte { return appendV6(to, documentation(n), uint64(n)) }, nil, true},
	{
		"IPv4_blocks_/28",
		func(to []byte, n uint32) []byte { return append(appendV4(to, scatter(n, 28)<<4), "/28"...) },
		func(to []byte, n uint32) []byte { return appendV4(to, scatter(n, 28)<<4|n&15) },
		false,
	},
	{
		"IPv6_blocks_/64",
		func(to []byte, n uint32) []byte { return append(appendV6(to, documentation(n), 0), "/64"...) },
		func(to []byte, n uint32) []byte { return appendV6(to, documentation(n), uint64(n)) },
		true,
	},
	{
		"IPv4_blocks_/24_to_/28",
		func(to []byte, n uint32) []byte {
			return strconv.AppendUint(append(appendV4(to, scatter(n, 28)<<4), '/'), uint64(24+n%5), 10)
		},
		func(to []byte, n uint32) []byte { return appendV4(to, scatter(n, 28)<<4|n&15) },
		false,
	},
	{
		"IPv4_blocks_/16_to_/31",
		func(to []byte, n uint32) []byte {
			return strconv.AppendUint(append(appendV4(to, scatter(n, 31)<<1), '/'), uint64(16+n%16), 10)
		},
		func(to []byte, n uint32) []byte { return appendV4(to, scatter(n, 31)<<1|n&1) },
		true,
	},
}

// listText is a word list as an io.Reader.
type listText struct {
	kind    listKind
	n, last uint32
	line    []byte
	rest    []byte // of the line
}

// Read reads the next lines of the list.
func (t *listText) Read(b []byte) (written int, err error) {
	for written < len(b) {
		if len(t.rest) == 0 {
			if t.n == t.last {
				return written, io.EOF
			}
			t.line = append(t.kind.entry(t.line[:0], t.n), '\n')
			t.rest, t.n = t.line, t.n+1
		}
		n := copy(b[written:], t.rest)
		t.rest, written = t.rest[n:], written+n
	}
	return written, nil
}

// BenchmarkWordList measures the memory of an entry and the CPU time of a look-up of a
// value that has been parsed.
func BenchmarkWordList(b *testing.B) {
	for _, kind := range listKinds {
		b.Run(kind.name, func(b *testing.B) {
			before, start := heapInUse(), cpuTime()
			d, err := ParseDict(kind.name, &listText{kind: kind, last: uint32(kind.entries())})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(kind.entries()), "entries")
			b.ReportMetric((cpuTime() - start).Seconds(), "s/load")
			b.ReportMetric(float64(heapInUse()-before)/float64(d.Len()), "bytes/entry")
			if kind.value == nil {
				kind.value = kind.entry
			}
			b.ReportMetric(lookUps(b, d, &kind, 0), "ns/hit")
			b.ReportMetric(lookUps(b, d, &kind, kind.entries()), "ns/miss")
			runtime.KeepAlive(d)
		})
	}
}

// lookUps returns the time of a look-up in nanoseconds. The values are derived from the
// numbers beginning at from, in random order, and are so many that their slots are not
// in a cache.
func lookUps(b *testing.B, d *Dict, kind *listKind, from int) float64 {
	const probes = 1 << 20
	random := rand.New(rand.NewPCG(1, 2))
	var all []byte
	ends := make([]int, probes)
	for i := range ends {
		all = kind.value(all, uint32(from+random.IntN(kind.entries())))
		ends[i] = len(all)
	}
	text, begin := string(all), 0
	values := make([]value, probes)
	for i, end := range ends {
		values[i].read(text[begin:end], false, d.hasAddresses())
		begin = end
	}
	var best time.Duration
	for round := range 4 {
		found, start := 0, cpuTime()
		for i := range values {
			if d.contains(&values[i]) {
				found++
			}
		}
		if took := cpuTime() - start; round == 0 || took < best {
			best = took
		}
		if from == 0 && found != probes {
			b.Fatalf("%d of %d entries are found", found, probes)
		}
	}
	return float64(best) / probes
}

// cpuTime returns the CPU time of the process, which depends little on other load.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
