package rules

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

func TestParseDict(t *testing.T) {
	d, err := ParseDict("vip.dat", strings.NewReader("\ufeff7\r\n  ann smith \n\n# 8\n10.0.0.0/8\n7\nseven/8\n::ffff:192.0.2.1\n严"))
	if err != nil {
		t.Fatal(err)
	}
	if d.Name() != "vip.dat" || d.Len() != 6 {
		t.Errorf("%s has %d entries; want 6 in vip.dat", d.Name(), d.Len())
	}
	for entry, want := range map[string]bool{
		"7": true, "ann smith": true, "10.255.0.1": true, "192.0.2.1": true, "::ffff:192.0.2.1": true, "seven/8": true, "严": true,
		"8": false, "# 8": false, "ann": false, "11.0.0.0": false, "10.0.0.0/8": false,
	} {
		if finds(d, entry) != want {
			t.Errorf("the list holds %q: %v; want %v", entry, !want, want)
		}
	}
}

// TestDictMistakes has entries whose writer meant something else than a
// word, and words that are correct.
func TestDictMistakes(t *testing.T) {
	for entry, want := range map[string]string{
		"192.0.2.1-192.0.2.9":  "write the range as blocks",
		"2001:db8::1-2001::9":  "write the range as blocks",
		"10.0.*.*":             "write the range as blocks",
		"*.0.0.1":              "write the range as blocks",
		"192.0.2.300":          "not a valid address",
		"192.0.2.7 # mallory":  "one entry per line",
		"192.0.2.7, 192.0.2.8": "one entry per line",
		"::1;":                 "one entry per line",
		"ann,":                 "one entry per line",
		"ann # of sales":       "one entry per line",
		`"ann"`:                "without quotes",
		`'ann'`:                "without quotes",

		"ann": "", "7": "", "ann smith": "", "ann#1": "", "3-4": "", "*": "", "a*b": "", `"`: "", `""`: "", "'tis": "",
		"00:1b:44:11:3a:b7": "", "550e8400-e29b-41d4-a716-446655440000": "", "2026-11-22": "", "1.2.3": "", "v1.2.3.4": "",
		"10.0.0.1:8080": "", "192.0.2.7.example.org": "", "192.0.2.7_ann": "", "dead:beef": "", "1.2.3.4/x": "",
	} {
		if hint := dictMistake([]byte(entry)); (hint == "") != (want == "") || !strings.Contains(hint, want) {
			t.Errorf("%q: %q; want %q", entry, hint, want)
		}
	}
}

// finds reports whether a value of a request is in the list.
func finds(d *Dict, text string) bool {
	var v value
	v.read(text, false, d.hasAddresses())
	return d.contains(&v)
}

func TestParseDictErrorsNameTheLine(t *testing.T) {
	broken := errors.New("the disk is gone")
	for want, r := range map[string]io.Reader{
		`vip.dat:3: "10.0.0.0/33" is not a block of addresses`: strings.NewReader("7\n\n10.0.0.0/33\n8\n"),
		`vip.dat:1: "::/x" is not a block of addresses`:        strings.NewReader("::/x"),
		`vip.dat:2: the entry contains a NUL byte`:             strings.NewReader("7\n8\x009\n"),
		`vip.dat:1: the file is UTF-16`:                        strings.NewReader("\xff\xfe7\x00\n\x00"),
		`vip.dat:2: the entry is not UTF-8`:                    strings.NewReader("7\n\xd1\xcf\n"),
		`vip.dat:2: the line is longer than 16384 bytes`:       strings.NewReader("7\n" + strings.Repeat("x", 1<<20)),
		`vip.dat:2: the entry is longer than 8192 bytes`:       strings.NewReader("7\n" + strings.Repeat("x", 10_000) + "\n"),
		`vip.dat:2: the disk is gone`:                          io.MultiReader(strings.NewReader("7\n8"), iotest.ErrReader(broken)),
	} {
		d, err := ParseDict("vip.dat", r)
		if d != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v; want %s", err, want)
		}
		if strings.Contains(want, "disk") && !errors.Is(err, broken) {
			t.Errorf("%v does not wrap its cause", err)
		}
	}
}

func TestEmptyWordListContainsNothing(t *testing.T) {
	d, err := ParseDict("empty.dat", strings.NewReader("\n"))
	if err != nil || d.Len() != 0 || d.contains(&value{text: "x"}) {
		t.Errorf("got %+v, %v", d, err)
	}
}

// TestEntrySize measures lists that have just grown, which is when
// an entry takes the most memory.
func TestEntrySize(t *testing.T) {
	const number = 330_000
	for name, entry := range map[string]func(i int) string{
		"integers":  func(i int) string { return strconv.Itoa(1_000_000_000 + i) },
		"names":     func(i int) string { return fmt.Sprintf("ann.smith.%d@example.com", i) },
		"addresses": func(i int) string { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String() },
		"blocks":    func(i int) string { return fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff) },
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for i := range number {
				text.WriteString(entry(i) + "\n")
			}
			list := text.String()
			before := heapInUse()
			d, err := ParseDict(name, strings.NewReader(list))
			if err != nil || d.Len() != number {
				t.Fatalf("%v entries, %v; want %d", d.Len(), err, number)
			}
			if each := (heapInUse() - before) / number; each > 100 {
				t.Errorf("an entry takes %d bytes; want 100 or less", each)
			}
			runtime.KeepAlive(d)
			runtime.KeepAlive(list)
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
