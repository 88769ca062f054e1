package envoy_test

import (
	"flag"
	"os"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// long selects the long form of the tests, as in `make verify`.
var long = flag.Bool("long", false, "leave more streams in the middle")

func TestMain(m *testing.M) { os.Exit(rig.WithBinary(m.Run)) }
