package display_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/display"
)

// Terminals see lines and printable characters, and the colors of a Painter if they may.
func TestScreen(t *testing.T) {
	red := display.Painter(true).Paint(display.Red, "deny")
	for _, c := range []struct {
		name, text, want string
		colors           bool
	}{
		{"lines and tabs", "a\tb\nc", "a\tb\nc", false},
		{"control characters", "\x1b]0;t\x07\r\x00\x7f", "�]0;t����", false},
		{"control characters of C1", "\u009b2J", "�2J", false},
		{"another direction", "a\u202eb", "a�b", false},
		{"no UTF-8", "a\xffb\xe4\xb8", "a�b", false},
		{"characters of two and more bytes", "ä严😀", "ä严😀", false},
		{"colors that may not be", red, "�[31mdeny�[0m", false},
		{"colors", red, red, true},
		{"other sequences beside colors", red + "\x1b[2J\x1b[31;1m", red + "�[2J�[31;1m", true},
	} {
		for _, size := range []int{1, 2, 1000} { // of the pieces in which it is written
			var out strings.Builder
			s := &display.Screen{Writer: &out, Colors: c.colors}
			if c.colors {
				size = len(c.text) // a sequence is written at once
			}
			for rest := c.text; rest != ""; {
				n := min(size, len(rest))
				if written, err := s.Write([]byte(rest[:n])); err != nil || written != n {
					t.Fatalf("%s: %d, %v", c.name, written, err)
				}
				rest = rest[n:]
			}
			if out.String() != c.want {
				t.Errorf("%s: %q; want %q", c.name, out.String(), c.want)
			}
		}
	}
}

func TestPrintfKeepsLines(t *testing.T) {
	var out strings.Builder
	display.Printf(&out, "%s\t%d %.3s: %v\n", "a\nb\tc", 1, "\x1b[31m", fmt.Errorf("x\r%s", "y"))
	if want := "a�b�c\t1 �[3: x�y\n"; out.String() != want {
		t.Errorf("%q; want %q", out.String(), want)
	}
}

func TestJSONEscapesWhatTerminalsInterpret(t *testing.T) {
	var out strings.Builder
	if err := display.JSON(&out, "\u202e\u009b\x7f\x1b严"); err != nil || out.String() != `"\u202e\u009b\u007f\u001b严"`+"\n" {
		t.Errorf("%s, %v", out.String(), err)
	}
}
