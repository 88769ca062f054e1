package bearer_test

import (
	"net/http"
	"testing"

	"github.com/koalagate/koalagate/internal/bearer"
)

func TestToken(t *testing.T) {
	for _, c := range []struct{ header, token string }{
		{"Bearer secret", "secret"},
		{"bearer secret", "secret"},
		{"BEARER  secret ", "secret"},
		{"Bearer two words", "two words"},
		{"Bearer", ""},
		{"Bearer ", ""},
		{"", ""},
		{"Basic secret", ""},
		{"Bearersecret", ""},
		{"secret", ""},
	} {
		if got := bearer.Token(&http.Request{Header: http.Header{"Authorization": {c.header}}}); got != c.token {
			t.Errorf("%q has the token %q; want %q", c.header, got, c.token)
		}
	}
	if got := bearer.Token(&http.Request{}); got != "" {
		t.Errorf("a request without headers has the token %q", got)
	}
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		sent, required string
		want           bool
	}{
		{"secret", "secret", true},
		{"secre", "secret", false},
		{"secrets", "secret", false},
		{"Secret", "secret", false},
		{"", "secret", false},
		{"secret", "", false},
		{"", "", false},
	} {
		if got := bearer.Equal(c.sent, c.required); got != c.want {
			t.Errorf("Equal(%q, %q) is %v", c.sent, c.required, got)
		}
	}
}
