// Package envoygateway_test runs koalagate under a real Envoy Gateway, which configures a real
// Envoy. It only has a long form: the program takes minutes to build. cmd/koalagate has a
// recorded exchange with it.
package envoygateway_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/e2e"
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

// isInOwnNetwork reports whether the test runs in a network of its own. If it does not, it runs
// there once more, and its result becomes this one's.
func isInOwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(binaryVariable) != "" {
		return true
	}
	out, err := e2e.InOwnNetwork(t.Context(), 10*time.Minute, []string{binaryVariable + "=" + rig.Binary},
		"-test.run=^"+t.Name()+"$", "-test.v", "-long", fmt.Sprintf("-update=%v", *update))
	t.Log(out)
	if err != nil || !strings.Contains(out, "--- PASS: "+t.Name()+" (") {
		t.Errorf("in a network of its own: %v", err)
	}
	return false
}
