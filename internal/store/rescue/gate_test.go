package rescue

import "testing"

func TestGate(t *testing.T) {
	var g gate
	want := func(absences, share uint32) {
		t.Helper()
		if a, s := g.load(); a != absences || s != share {
			t.Fatalf("%d absences, %d of %d calls pass; want %d, %d", a, s, everyCall, absences, share)
		}
	}
	want(0, 0)
	g.open()
	want(0, everyCall)
	g.close()
	want(1, 0)
	if !g.widen(1, 2) {
		t.Error("widen failed")
	}
	want(1, 2)
	g.close()
	want(2, 0)
	if g.widen(1, 4) {
		t.Error("widened for a caller that missed the closing")
	}
	want(2, 0)
}
