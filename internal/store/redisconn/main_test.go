package redisconn_test

import (
	"os"
	"testing"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// TestMain silences the log of the client library about servers that tests end:
// the errors of calls report the same.
func TestMain(m *testing.M) {
	redisconn.LogClient(func(string) {})
	os.Exit(m.Run())
}
