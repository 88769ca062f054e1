package store_test

import (
	"fmt"
	"os"
	"testing"
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
	os.Exit(m.Run())
}
