package fleet

import (
	"os"
	"testing"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// The tests wait for heartbeats most of the time, each with a server of its own: they are
// parallel, except TestLargeContent, which needs the processor.
func TestMain(m *testing.M) {
	redisconn.LogClient(func(string) {}) // of servers that tests end
	os.Exit(m.Run())
}
