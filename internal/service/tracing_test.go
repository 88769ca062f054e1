package service

import "testing"

// Without a collector in the environment nothing watches decisions, so that they cost
// nothing for traces.
func TestTracingIsOffByDefault(t *testing.T) {
	s, _ := open(t, nil)
	if s.watch.Decided != nil {
		t.Error("decisions are watched without a collector of traces")
	}
}
