package caddy_test

import (
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

func TestCaddy(t *testing.T) {
	d := &rig.Door{First: 141, Open: rig.CaddyWith(e2e.KeepsConnections), Shut: rig.CaddyWith(e2e.KeepsConnections, rig.CaddyFailsClosed), Down: []int{502, 503, 504}}
	d.Run(t)
}
