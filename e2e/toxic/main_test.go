package toxic

import (
	"os"
	"testing"

	"github.com/koalagate/koalagate/store"
)

// TestMain keeps what the Redis client has to say of a Redis that is spoilt out
// of the report: the tests tell of it.
func TestMain(m *testing.M) {
	store.LogClient(func(string) {})
	os.Exit(m.Run())
}
