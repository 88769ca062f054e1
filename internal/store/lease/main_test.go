package lease

import (
	"fmt"
	"os"
	"testing"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// TestMain runs the tests, or an instance if a test started this process as one.
func TestMain(m *testing.M) {
	// Silence the client's log about servers that tests end.
	redisconn.LogClient(func(string) {})
	if url := os.Getenv(instanceURL); url != "" {
		if err := runInstance(url, os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
