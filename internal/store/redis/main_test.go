package redis_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// TestMain runs the tests, or is one of the processes that a test starts.
func TestMain(m *testing.M) {
	if job := os.Getenv(takerJob); job != "" {
		if err := takeAway(job, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// What the client has to say of servers that a test ended is told by the
	// errors of calls, too.
	redisconn.LogClient(func(string) {})
	os.Exit(m.Run())
}
