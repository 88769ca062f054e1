package fleet

import (
	"os"
	"testing"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

func TestMain(m *testing.M) {
	redisconn.LogClient(func(string) {}) // of servers that tests end
	os.Exit(m.Run())
}
