package delay

import (
	"context"
	"testing"
	"time"
)

func TestWaitEndsWithItsTimeOrContext(t *testing.T) {
	if !Wait(context.Background(), 0) {
		t.Error("no time: false; want true")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if Wait(ended, time.Hour) {
		t.Error("a context that has ended: true; want false")
	}
}
