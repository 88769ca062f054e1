package identities

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/trace"
)

// stage is a memory with masks, by a clock.
func stage(t *testing.T) (*Memory, *time.Time) {
	t.Helper()
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	return New(Options{Mask: trace.NewMask([]string{trace.ShowNone, "ip"}), Instance: "edge:7", Now: func() time.Time { return now }}), &now
}

// shown is what lists show of uid=ann ip=203.0.113.7.
func (m *Memory) shown(identity map[string]string) map[string]string {
	return m.Hide(identity, []string{"uid", "ip"})
}

func TestHandles(t *testing.T) {
	m, now := stage(t)
	ann := map[string]string{"uid": "ann", "ip": "203.0.113.7"}
	shown := m.shown(ann)
	if shown["ip"] != ann["ip"] || !trace.IsPseudonym(shown["uid"]) {
		t.Fatalf("shown as %v", shown)
	}
	handle := m.Handle(ann, shown)
	if again := m.Handle(ann, shown); again != handle || !strings.HasSuffix(handle, "@edge:7") || strings.Contains(handle, "ann") {
		t.Errorf("the handles %q and %q", handle, again)
	}
	if handle := m.Handle(ann, ann); handle != "" {
		t.Errorf("the handle %q without a mask", handle)
	}
	for _, c := range []struct {
		name, handle string
		params       map[string]string
		want, error  string
	}{
		{"all", handle, nil, "map[ip:203.0.113.7 uid:ann] [uid]", ""},
		{"some", handle, map[string]string{"uid": shown["uid"]}, "map[uid:ann] [uid]", ""},
		{"visible", handle, map[string]string{"ip": "203.0.113.7"}, "map[ip:203.0.113.7] []", ""},
		{"a guess", handle, map[string]string{"uid": "ann"}, "", "has no uid=ann"},
		{"another parameter", handle, map[string]string{"act": "post"}, "", "has no act=post"},
		{"of another instance", strings.Replace(handle, "edge", "core", 1), nil, "", `instance "core:7" made this handle`},
		{"unknown", "0123456789abcdef@edge:7", nil, "", "does not know the handle any more"},
		{"none", "ann", nil, "", "is no handle"},
		{"long", handle + strings.Repeat("x", maxHandle), nil, "", "is no handle"},
		{"values", "", map[string]string{"uid": "ann"}, "map[uid:ann] []", ""},
		{"a mask", "", map[string]string{"uid": shown["uid"]}, "", "is a mask"},
		{"a mask with blanks", "", map[string]string{"uid": " " + shown["uid"] + "\t"}, "", "is a mask"},
		{"a mask of a source", "", map[string]string{"uid@client-ip": shown["uid"]}, "", "is a mask"},
		{"no mask", "", map[string]string{"uid": "#3de37e"}, "map[uid:#3de37e] []", ""},
		{"where values are shown", "", map[string]string{"ip": shown["uid"]}, "map[ip:" + shown["uid"] + "] []", ""},
	} {
		identity, masked, err := m.Resolve(c.handle, c.params)
		switch {
		case err != nil && (c.error == "" || !strings.Contains(err.Error(), c.error)):
			t.Errorf("%s: %v; want %q", c.name, err, c.error)
		case err == nil && fmt.Sprint(identity, masked) != c.want:
			t.Errorf("%s: %v %v; want %s", c.name, identity, masked, c.want)
		}
	}
	*now = now.Add(Kept + time.Second)
	if _, _, err := m.Resolve(handle, nil); err != errForgotten { //nolint:errorlint // it is returned as it is
		t.Errorf("after an hour: %v; want %v", err, errForgotten)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m, now := stage(t)
	kept := func(value string) string {
		identity := map[string]string{"uid": value}
		return m.Handle(identity, m.shown(identity))
	}
	first := kept("first")
	for i := range maxEntries {
		if kept(strconv.Itoa(i)); i%1000 == 0 {
			kept("first") // lists have it again and again
		}
	}
	if len(m.known) != maxEntries || m.order.Len() != maxEntries {
		t.Errorf("%d identities; want %d", len(m.known), maxEntries)
	}
	if _, _, err := m.Resolve(first, nil); err != nil {
		t.Errorf("the one that a list had of late: %v", err)
	}
	for i := range 100 {
		kept(strconv.Itoa(i) + strings.Repeat("x", maxBytes/50))
	}
	if m.bytes > maxBytes || len(m.known) > 50 {
		t.Errorf("%d identities of %d bytes", len(m.known), m.bytes)
	}
	if handle := kept(strings.Repeat("x", maxBytes)); handle != "" {
		t.Errorf("a handle of an identity that is too long")
	}
	*now = now.Add(2 * Kept)
	if kept("last"); len(m.known) != 1 {
		t.Errorf("%d identities after two hours; want the last", len(m.known))
	}
}
