package traefik_test

import (
	"os"
	"testing"

	"github.com/koalagate/koalagate/e2e/internal/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.WithBinary(m.Run)) }
