package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strconv"

	"github.com/koalagate/koalagate/rules"
)

// list is a kind of word list. Entries and values are made of numbers;
// different numbers below 2^25 make different ones.
type list struct {
	name  string
	entry func(to []byte, n uint32) []byte
	value func(to []byte, n uint32) []byte // that entry n holds; nil if it is the entry
}

// scatter spreads numbers of some bits over all numbers of these bits.
func scatter(n uint32, bits int) uint32 { return n * 2654435761 & (1<<bits - 1) }

func appendV4(to []byte, a uint32) []byte {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, a))).AppendTo(to)
}

func appendV6(to []byte, high uint64, low uint64) []byte {
	return netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, high), low))).AppendTo(to)
}

var lists = []list{
	{"integers of 10 digits", func(to []byte, n uint32) []byte { return strconv.AppendUint(to, 1_000_000_000+97*uint64(n), 10) }, nil},
	{"names of 13 bytes", func(to []byte, n uint32) []byte { return fmt.Appendf(to, "user-%08d", n) }, nil},
	{"mail addresses of 24 bytes", func(to []byte, n uint32) []byte { return fmt.Appendf(to, "user%08d@example.com", n) }, nil},
	{"IPv4 addresses", func(to []byte, n uint32) []byte { return appendV4(to, scatter(n, 32)) }, nil},
	{"IPv6 addresses", func(to []byte, n uint32) []byte {
		return appendV6(to, 0x20010db8<<32|uint64(scatter(n, 32)), uint64(n))
	}, nil},
	{
		"IPv4 blocks /28",
		func(to []byte, n uint32) []byte { return append(appendV4(to, scatter(n, 28)<<4), "/28"...) },
		func(to []byte, n uint32) []byte { return appendV4(to, scatter(n, 28)<<4|n&15) },
	},
	{
		"IPv6 blocks /64",
		func(to []byte, n uint32) []byte {
			return append(appendV6(to, 0x20010db8<<32|uint64(scatter(n, 32)), 0), "/64"...)
		},
		func(to []byte, n uint32) []byte {
			return appendV6(to, 0x20010db8<<32|uint64(scatter(n, 32)), uint64(n))
		},
	},
	{
		"IPv4 blocks of five lengths, /24 … /28",
		func(to []byte, n uint32) []byte {
			return strconv.AppendUint(append(appendV4(to, scatter(n, 28)<<4), '/'), uint64(24+n%5), 10)
		},
		func(to []byte, n uint32) []byte { return appendV4(to, scatter(n, 28)<<4|n&15) },
	},
}

// text is a list as a stream.
type text struct {
	list    list
	n, last uint32
	rest    []byte
	line    []byte
}

// Read writes the next lines.
func (t *text) Read(b []byte) (int, error) {
	written := 0
	for {
		n := copy(b[written:], t.rest)
		t.rest, written = t.rest[n:], written+n
		if len(t.rest) > 0 {
			return written, nil
		}
		if t.n == t.last {
			if written > 0 {
				return written, nil
			}
			return 0, io.EOF
		}
		t.line = append(t.list.entry(t.line[:0], t.n), '\n')
		t.rest, t.n = t.line, t.n+1
	}
}

// wordLists measures lists of so many entries, one after the other.
func wordLists(entries int) ([]figure, error) {
	var figures []figure
	for _, l := range lists {
		before, start := heap(), cpuTime()
		var gc [2]runtime.MemStats
		runtime.ReadMemStats(&gc[0])
		d, err := rules.ParseDict(l.name, &text{list: l, last: uint32(entries)})
		if err != nil {
			return nil, err
		}
		took := cpuTime() - start
		runtime.ReadMemStats(&gc[1])
		each := (heap() - before) / uint64(d.Len())
		if l.value == nil {
			l.value = l.entry
		}
		there, err := lookUps(d, l, entries, 0)
		if err != nil {
			return nil, err
		}
		absent, err := lookUps(d, l, entries, entries)
		if err != nil {
			return nil, err
		}
		figures = append(figures,
			figure{l.name + ": an entry", fmt.Sprintf("%d bytes, of %d entries in %.1f s with %d collections", each, d.Len(), took.Seconds(), gc[1].NumGC-gc[0].NumGC), "≤ 100 bytes", each <= 100},
			figure{l.name + ": a look-up", fmt.Sprintf("%.0f ns of what is there, %.0f ns of what is not", there, absent), "≤ 100 ns", there <= 100 && absent <= 100},
		)
		runtime.KeepAlive(d)
	}
	return figures, nil
}

// probes is the number of different values that are looked up, so many that no
// cache has what they lead to.
const probes = 1 << 20

// lookUps is the time of a look-up of values that begin at the number from, in
// no order.
func lookUps(d *rules.Dict, l list, entries, from int) (float64, error) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // numbers for a measurement, the same each time
	var all []byte
	ends := make([]int, 0, probes)
	for range probes {
		all = l.value(all, uint32(from+random.IntN(entries)))
		ends = append(ends, len(all))
	}
	joined := string(all)
	values, begin := make([]string, probes), 0
	for i, end := range ends {
		values[i], begin = joined[begin:end], end
	}
	found := 0
	took := least(probes, func(i int) {
		if d.Contains(values[i]) {
			found++
		}
	})
	if from == 0 && found != rounds*probes {
		return 0, fmt.Errorf("%s: %d of %d entries are found", l.name, found, rounds*probes)
	}
	return took, nil
}
