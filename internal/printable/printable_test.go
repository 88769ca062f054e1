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

func TestCount(t *testing.T) {
	for want, got := range map[string]string{
		"1 rule":    Count(1, "rule"),
		"0 rules":   Count(0, "rule"),
		"2 entries": Count(2, "entry"),
		"1 entry":   Count(int64(1), "entry"),
		"11 calls":  Count(uint64(11), "call"),
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
