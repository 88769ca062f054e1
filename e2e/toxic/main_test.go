package toxic

import (
	"os"
	"testing"

	"github.com/Shopify/toxiproxy/v2/toxics"

	"github.com/koalagate/koalagate/internal/store/redisconn"
)

// TestMain registers the missing toxic with the proxy, and silences the Redis client,
// whose messages about a disturbed Redis are expected.
func TestMain(m *testing.M) {
	toxics.Register("crumbs", new(crumbs))
	redisconn.LogClient(func(string) {})
	os.Exit(m.Run())
}
