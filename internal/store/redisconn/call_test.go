package redisconn

import (
	"testing"
	"testing/synctest"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Calls about anything but counters end after the timeout of their connection, whatever server it
// leads to.
func TestCallEndsAfterTheTimeoutOfItsConnection(t *testing.T) {
	for _, url := range []string{
		"redis://127.0.0.1:6379", "redis-cluster://127.0.0.1:7000,127.0.0.1:7001", "redis-sentinel://127.0.0.1:26379/main",
	} {
		for given, want := range map[time.Duration]time.Duration{7 * time.Second: 7 * time.Second, 300 * time.Millisecond: 300 * time.Millisecond} {
			address, err := NewAddress(Options{URL: url, Timeout: given})
			if err != nil {
				t.Fatalf("%s: %v", url, err)
			}
			client := address.ConnectAny()
			if got := CallTimeout(client); got != want {
				t.Errorf("%s with %v: %v", url, given, got)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var none goredis.UniversalClient
		ctx, cancel := Call(t.Context(), none)
		defer cancel()
		if <-ctx.Done(); time.Since(begin) != DefaultCallTimeout {
			t.Errorf("without a connection it ends after %v", time.Since(begin))
		}
	})
}
