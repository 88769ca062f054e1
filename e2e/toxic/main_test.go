package toxic

import (
	"os"
	"testing"

	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/koalagate/koalagate/internal/store"
)

// TestMain gives the proxy the toxic that it lacks, and keeps what the Redis
// client has to say of a Redis that is spoilt out of the report: the tests tell of
// it.
func TestMain(m *testing.M) {
	toxics.Register("crumbs", new(crumbs))
	store.LogClient(func(string) {})
	os.Exit(m.Run())
}
