package redis_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// TestMain runs the tests, or a taker if a test started this process as one.
func TestMain(m *testing.M) {
	if job := os.Getenv(takerJob); job != "" {
		if err := runTakes(job, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Silence the client's log about servers that tests end: the errors of calls
	// report the same.
	redisconn.LogClient(func(string) {})
	os.Exit(m.Run())
}
