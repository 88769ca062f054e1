package resp

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestParseInfo(t *testing.T) {
	s := ParseInfo("# Server\r\nredis_version:7.0.15\r\nused_memory:1000\r\nmem_clients_normal:100\r\n" +
		"total_net_input_bytes:7\r\ntotal_net_output_bytes:8\r\nrdb_changes_since_last_save:3\r\naof_current_size:99\r\n" +
		"cmdstat_evalsha:calls=4,usec=1\r\ncmdstat_eval:calls=1,usec=9\r\ncmdstat_set:calls=x\r\n")
	if s.Version != "7.0.15" || s.Memory != 900 || s.In != 7 || s.Out != 8 || s.Changes != 3 || s.Logged != 99 {
		t.Errorf("%+v", s)
	}
	if s.Scripts() != 5 || s.Commands["set"] != 0 || len(s.Commands) != 3 {
		t.Errorf("commands %v, %d script calls; want 5", s.Commands, s.Scripts())
	}
}

func TestReadCommandReadsWhatCommandWrites(t *testing.T) {
	want := []string{"EVALSHA", "", "two\r\nlines", strings.Repeat("x", 5000)}
	wire := Command(want...)
	args, raw, err := ReadCommand(bufio.NewReader(bytes.NewReader(slices.Concat(wire, wire[:5]))))
	if err != nil || !slices.Equal(args, want) || !bytes.Equal(raw, wire) {
		t.Errorf("%d arguments, %d bytes, %v; want %d, %d", len(args), len(raw), err, len(want), len(wire))
	}
}

// FuzzReadCommand checks that no bytes of a client break the proxy or fill its memory.
func FuzzReadCommand(f *testing.F) {
	for _, text := range []string{"", "PING\r\n", "*1\r\n$4\r\nPING\r\n", "*1\r\n$-1\r\n", "*99999999\r\n", "*2\r\n$1\r\na\r\n", "*1\r\n$999999999\r\n", "\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, raw, err := ReadCommand(bufio.NewReader(bytes.NewReader(text))); err == nil && !bytes.HasPrefix(text, raw) {
			t.Errorf("%q was read as %q", text, raw)
		}
	})
}
