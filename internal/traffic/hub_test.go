package traffic

import (
	"errors"
	"slices"
	"testing"
)

// A subscriber that is too far behind loses its subscription; the others do not notice.
func TestSlowSubscriber(t *testing.T) {
	h := new(Hub)
	slow, err := h.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	quick, err := h.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxBehind + 1 {
		h.Send(EventChange, i)
		if e, open := <-quick.Events; !open || e.Name != EventChange {
			t.Fatalf("%v %v", e, open)
		}
	}
	n := 0
	for range slow.Events {
		n++
	}
	if n != maxBehind {
		t.Errorf("%d events; want %d before the end", n, maxBehind)
	}
	slow.Close() // a second end
}

// A subscriber receives the last states first.
func TestStatesComeFirst(t *testing.T) {
	h := new(Hub)
	h.SendState(EventRules, 1)
	h.SendState(EventTrial, "a")
	h.SendState(EventRules, 2)
	h.Send(EventChange, "before")
	s, err := h.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	h.Send(EventChange, "after")
	h.Close()
	var got []string
	for e := range s.Events {
		got = append(got, e.Name+" "+string(e.Data))
	}
	if want := []string{`trial "a"`, "rules 2", `change "after"`}; !slices.Equal(got, want) {
		t.Errorf("got %s; want %s", got, want)
	}
}

// There are at most 64 subscribers, and none after the end.
func TestSubscribersAreBounded(t *testing.T) {
	h := new(Hub)
	var last *Subscription
	for range maxSubscribers {
		var err error
		if last, err = h.Subscribe(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Subscribe(); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	last.Close()
	if _, err := h.Subscribe(); err != nil {
		t.Error(err)
	}
	h.Close()
	if _, err := h.Subscribe(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
