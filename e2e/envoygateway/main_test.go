// Package envoygateway_test runs koalagate under a real Envoy Gateway, which configures a real
// Envoy. It only has a long form: the program takes minutes to build. cmd/koalagate has a
// recorded exchange with it.
package envoygateway_test

import (
	"flag"
	"os"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

var (
	long   = flag.Bool("long", false, "run Envoy Gateway, in a network of its own")
	update = flag.Bool("update", false, "write the exchange with Envoy Gateway to cmd/koalagate/testdata")
)

// binaryVariable is the path of koalagate for the test inside its network. koalagate refuses
// unknown variables that begin with its own name.
const binaryVariable = "E2E_BINARY"

func TestMain(m *testing.M) {
	flag.Parse()
	if rig.Binary = os.Getenv(binaryVariable); rig.Binary != "" || !*long {
		os.Exit(m.Run())
	}
	os.Exit(rig.WithBinary(m.Run))
}
