package door

import (
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/mapping"
)

// headers are headers by lower-case name.
type headers map[string]string

func (h headers) Header(name string) (string, bool) {
	value, found := h[name]
	return value, found
}

func TestRequestIDs(t *testing.T) {
	for _, c := range []struct {
		request, metadata mapping.Headers
		want              string
	}{
		{nil, nil, ""},
		{headers{"x-request-id": "a"}, nil, "a"},
		{nil, headers{"x-request-id": "b"}, "b"},
		{headers{"x-request-id": "a"}, headers{"x-request-id": "b"}, "a"},
		{headers{"x-request-id": "not valid"}, headers{"x-request-id": "b"}, "b"},
		{headers{"x-request-id": "<a>"}, nil, ""},
	} {
		q := &Question{asked: asked{Request: mapping.Request{Headers: c.request}, Metadata: c.metadata}}
		if got := q.RequestID(); got != c.want {
			t.Errorf("%v %v: %q; want %q", c.request, c.metadata, got, c.want)
		}
	}
}

// A call is reported once, with its door and a time, and not if its request could not be
// read.
func TestEndedCallsAreReported(t *testing.T) {
	var doors []string
	g, q := gate(t), new(Question)
	g.Watch = &Watch{Answered: func(door string, took time.Duration) {
		if took < 0 || took > time.Minute {
			t.Errorf("it took %v", took)
		}
		doors = append(doors, door)
	}}
	q.Request = ask("ann")
	if _, err := g.Decide(t.Context(), q, g.Hit(q)); err != nil {
		t.Fatal(err)
	}
	q.Reset()
	q.Reset()
	g.Arrive(q)
	q.Reset()
	if len(doors) != 1 || doors[0] != "extauthz" {
		t.Errorf("reported %v; want one call at extauthz", doors)
	}
}
