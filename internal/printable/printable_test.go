package printable

import "testing"

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"plain 词 é":    "plain 词 é",
		"a\x1b[2Jb":    "a\ufffd[2Jb",
		"a\nb\tc\x00":  "a\ufffdb\ufffdc\ufffd",
		"left\u202eto": "left\ufffdto",
		"\xff":         "\ufffd",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q is %q; want %q", text, got, want)
		}
	}
}
